import { describe, expect, it } from 'vitest';
import {
  begin,
  type Effect,
  type LastReport,
  next,
  type RunEvent,
  type RunState,
  type Transition,
} from './run-machine.ts';

const completed = { outcome: 'COMPLETED', response: 'said' } as const;
const broken = { outcome: 'FAILED', error: { code: 'HARNESS_ERROR', message: '' } } as const;

const lastReports: readonly LastReport[] = [
  { type: 'end', end: completed },
  { type: 'failure', incident: 'x' },
  { type: 'gone' },
  { type: 'none' },
];
const states: readonly RunState[] = [
  ...(['preparing', 'opening', 'starting', 'working'] as const).flatMap((at) =>
    (['NONE', 'INTERRUPT', 'HAND_BACK'] as const).map((stop) => ({ at, stop })),
  ),
  { at: 'closing', end: completed },
  ...lastReports.map((last) => ({ at: 'killing' as const, last })),
  ...lastReports.filter(({ type }) => type !== 'none').map((last) => ({ at: 'reporting' as const, last })),
  { at: 'ended', unheardIncident: '' },
];

const fromOutside: readonly RunEvent[] = [
  { type: 'interrupt' },
  { type: 'handBack' },
  { type: 'turnLimit' },
  { type: 'kill' },
  { type: 'fenced' },
  { type: 'leaseLost' },
  { type: 'reportFailed', incident: 'x' },
];
const events: readonly RunEvent[] = [
  { type: 'prepared' },
  { type: 'opened' },
  { type: 'startReported' },
  { type: 'rested', end: completed },
  { type: 'failed', end: broken },
  { type: 'closed' },
  { type: 'killed' },
  { type: 'deadline' },
  { type: 'reported', report: 'end', isHeard: true },
  { type: 'reported', report: 'gone', isHeard: true },
  { type: 'reported', report: 'failure', isHeard: true },
  { type: 'reported', report: 'failure', isHeard: false },
  ...fromOutside,
];

function labelOf(state: RunState): string {
  if ('stop' in state) return state.stop === 'NONE' ? state.at : `${state.at} ${state.stop}`;
  if ('end' in state) return `${state.at} ${state.end.outcome}`;
  if ('last' in state)
    return `${state.at} ${state.last.type === 'end' ? state.last.end.outcome : state.last.type}`;
  return state.unheardIncident === '' ? state.at : `${state.at} unheard`;
}

const nameOf = (event: RunEvent): string =>
  event.type === 'reported' ? `${event.report}${event.isHeard ? '' : 'Not'}Reported` : event.type;

const effectNames = (effects: readonly Effect[]): string[] =>
  effects.map((effect) => (typeof effect === 'string' ? effect : `report ${effect.report.type}`));

const told = ({ state, effects }: Transition): string => [labelOf(state), ...effectNames(effects)].join(', ');

/** Whatever a run that still works is doing. */
const cut = {
  kill: 'killing gone, silence, kill',
  fenced: 'killing gone, silence, kill',
  leaseLost: 'killing none, silenceForGood, kill',
  reportFailed: 'killing failure, silence, kill',
};
const unstopped = (at: string) => ({
  interrupt: `${at} INTERRUPT, interrupt`,
  handBack: `${at} HAND_BACK, interrupt, setDeadline`,
  turnLimit: `${at} INTERRUPT, interrupt, warnOfTurnLimit, setDeadline`,
  deadline: 'killing INTERRUPTED, kill',
  failed: 'closing FAILED, close',
  ...cut,
});
const interrupted = (at: string) => ({
  handBack: `${at} INTERRUPT, setDeadline`,
  turnLimit: `${at} INTERRUPT, warnOfTurnLimit, setDeadline`,
  deadline: 'killing INTERRUPTED, kill',
  failed: 'closing INTERRUPTED, close',
  ...cut,
});
const handedBack = (at: string) => ({
  interrupt: `${at} INTERRUPT`,
  handBack: `${at} HAND_BACK, setDeadline`,
  turnLimit: `${at} INTERRUPT, warnOfTurnLimit, setDeadline`,
  deadline: 'killing HANDED_BACK, kill',
  failed: 'closing HANDED_BACK, close',
  ...cut,
});

/** Every event that does something in a state. The others leave it as it is. */
const table: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  preparing: { ...unstopped('preparing'), prepared: 'opening, open' },
  'preparing INTERRUPT': { ...interrupted('preparing'), prepared: 'closing INTERRUPTED, close' },
  'preparing HAND_BACK': { ...handedBack('preparing'), prepared: 'closing HANDED_BACK, close' },
  opening: { ...unstopped('opening'), opened: 'starting, reportStart' },
  'opening INTERRUPT': { ...interrupted('opening'), opened: 'closing INTERRUPTED, close' },
  'opening HAND_BACK': { ...handedBack('opening'), opened: 'closing HANDED_BACK, close' },
  starting: { ...unstopped('starting'), startReported: 'working, work' },
  'starting INTERRUPT': { ...interrupted('starting'), startReported: 'closing INTERRUPTED, close' },
  'starting HAND_BACK': { ...handedBack('starting'), startReported: 'closing HANDED_BACK, close' },
  working: { ...unstopped('working'), rested: 'closing COMPLETED, close' },
  'working INTERRUPT': { ...interrupted('working'), rested: 'closing INTERRUPTED, close' },
  'working HAND_BACK': { ...handedBack('working'), rested: 'closing COMPLETED, close' },
  'closing COMPLETED': {
    closed: 'reporting COMPLETED, report end',
    deadline: 'killing COMPLETED, kill',
    handBack: 'closing COMPLETED, setDeadline',
    turnLimit: 'closing COMPLETED, setDeadline',
    ...cut,
  },
  'killing COMPLETED': {
    killed: 'reporting COMPLETED, report end',
    kill: 'killing gone, silence',
    fenced: 'killing gone, silence',
    reportFailed: 'killing failure, silence',
    leaseLost: 'killing none, silenceForGood',
  },
  'killing failure': {
    killed: 'reporting failure, report failure',
    kill: 'killing gone, silence',
    fenced: 'killing gone, silence',
    leaseLost: 'killing none, silenceForGood',
  },
  'killing gone': { killed: 'reporting gone, report gone', leaseLost: 'killing none, silenceForGood' },
  'killing none': { killed: 'ended, finish' },
  'reporting COMPLETED': {
    endReported: 'ended, finish',
    kill: 'reporting gone, silence, report gone',
    fenced: 'reporting gone, silence, report gone',
    reportFailed: 'reporting failure, silence, report failure',
    leaseLost: 'ended, silenceForGood, finish',
  },
  'reporting failure': {
    failureReported: 'ended, finish',
    failureNotReported: 'ended unheard, finish',
    kill: 'reporting gone, silence, report gone',
    fenced: 'reporting gone, silence, report gone',
    leaseLost: 'ended, silenceForGood, finish',
  },
  'reporting gone': { goneReported: 'ended, finish', leaseLost: 'ended, silenceForGood, finish' },
  ended: {},
};

describe('the state machine of a run', () => {
  it.each(states.map((state) => [labelOf(state), state] as const))('%s: every event', (label, state) => {
    const expected = Object.fromEntries(
      events.map((event) => [nameOf(event), table[label]?.[nameOf(event)] ?? label]),
    );
    const seen = Object.fromEntries(events.map((event) => [nameOf(event), told(next(state, event))]));
    expect(seen).toEqual(expected);
  });

  it('keeps what the agent said when it is interrupted', () => {
    const { state } = next({ at: 'working', stop: 'INTERRUPT' }, { type: 'rested', end: completed });
    expect(state).toEqual({ at: 'closing', end: { outcome: 'INTERRUPTED', response: 'said' } });
  });
});

/** A run and its surroundings: what was begun and is not over, and what has happened so far. */
interface World {
  readonly state: RunState;
  /** Effects whose completion is still to come. */
  readonly open: readonly string[];
  readonly done: readonly string[];
  readonly stop: 'NONE' | 'STOPPED' | 'CUT' | 'LOST';
}

const completions: Readonly<Record<string, readonly RunEvent[]>> = {
  prepare: [{ type: 'prepared' }, { type: 'failed', end: broken }],
  open: [{ type: 'opened' }, { type: 'failed', end: broken }],
  reportStart: [{ type: 'startReported' }],
  work: [
    { type: 'rested', end: completed },
    { type: 'rested', end: { outcome: 'INTERRUPTED', response: '' } },
    { type: 'failed', end: broken },
  ],
  setDeadline: [{ type: 'deadline' }],
  close: [{ type: 'closed' }],
  kill: [{ type: 'killed' }],
  'report end': [{ type: 'reported', report: 'end', isHeard: true }],
  'report gone': [{ type: 'reported', report: 'gone', isHeard: true }],
  'report failure': [
    { type: 'reported', report: 'failure', isHeard: true },
    { type: 'reported', report: 'failure', isHeard: false },
  ],
};

const holdsFolders = ({ open, done }: World): boolean =>
  open.includes('prepare') || open.includes('open') || !(done.includes('close') || done.includes('kill'));

const repeatable = ['setDeadline', 'warnOfTurnLimit', 'silence'];

/** What must hold whenever an effect is asked for. */
function check(world: World, effect: string): void {
  const { state, open, done, stop } = world;
  const fault = (problem: string) => new Error(`${effect} ${problem}: ${JSON.stringify(world)}`);
  if (done.includes('finish')) throw fault('after the end');
  if (!repeatable.includes(effect) && [...open, ...done].includes(effect)) throw fault('twice');
  if (['open', 'reportStart', 'work'].includes(effect) && stop !== 'NONE') throw fault('after a stop');
  if (effect === 'report end' && (stop === 'CUT' || stop === 'LOST')) throw fault('after a kill');
  if (effect.startsWith('report ') && stop === 'LOST') throw fault('after the lease');
  if ((effect.startsWith('report ') || effect === 'finish') && holdsFolders(world))
    throw fault('before the last process is gone');
  const owed = stop === 'CUT' ? ['report gone', 'report failure'] : ['report end'];
  const isTold = done.some((name) => owed.includes(name));
  if (effect === 'finish' && stop !== 'LOST' && !isTold) throw fault('without a report');
  if (effect === 'finish' && state.at !== 'ended') throw fault('too early');
}

function after(world: World, event: RunEvent, completed?: string): World {
  const { state, effects } = next(world.state, event);
  const isCut = ['kill', 'fenced', 'reportFailed'].includes(event.type);
  const isStop = ['interrupt', 'handBack', 'turnLimit'].includes(event.type);
  const stop = event.type === 'leaseLost' ? 'LOST' : isCut ? 'CUT' : isStop ? 'STOPPED' : 'NONE';
  const ranks: readonly World['stop'][] = ['NONE', 'STOPPED', 'CUT', 'LOST'];
  let now: World = {
    state,
    open: completed ? world.open.filter((name) => name !== completed) : world.open,
    done: completed ? [...new Set([...world.done, completed])].sort() : world.done,
    stop: ranks.indexOf(stop) > ranks.indexOf(world.stop) ? stop : world.stop,
  };
  for (const effect of effectNames(effects)) {
    check(now, effect);
    const isOver = completions[effect] === undefined;
    if (isOver) now = { ...now, done: [...new Set([...now.done, effect])].sort() };
    else now = { ...now, open: [...new Set([...now.open, effect])].sort() };
  }
  return now;
}

/** A kill waits for what is about to live. */
const canComplete = (world: World, effect: string): boolean =>
  effect !== 'kill' || !(world.open.includes('prepare') || world.open.includes('open'));

/** What may happen next; the completion of a report that was silenced need not. */
function* futures(world: World): Generator<World> {
  for (const event of fromOutside) yield after(world, event);
  for (const effect of world.open) {
    if (!canComplete(world, effect)) continue;
    for (const event of completions[effect] ?? []) yield after(world, event, effect);
  }
}

/** Where it comes to when nothing more happens to it, and neither what was cut off nor what has a deadline answers. */
function settled(world: World): World {
  let now = world;
  for (let steps = 0; steps < 20 && now.state.at !== 'ended'; steps++) {
    const isCut = now.stop === 'CUT' || now.stop === 'LOST';
    const mute = [
      ...(isCut ? ['reportStart', 'report end'] : []),
      ...(isCut || [...now.open, ...now.done].includes('setDeadline') ? ['work', 'close'] : []),
    ];
    const effect = now.open.find((name) => !mute.includes(name) && canComplete(now, name));
    const event = effect && completions[effect]?.[0];
    if (event) now = after(now, event, effect);
  }
  return now;
}

/** Every world that can come about. Throws where one breaks a rule of `check`. */
function reachable(): World[] {
  const start: World = { state: begin.state, open: effectNames(begin.effects), done: [], stop: 'NONE' };
  const worlds = new Map([[JSON.stringify(start), start]]);
  for (const world of worlds.values())
    for (const future of futures(world)) {
      const key = JSON.stringify(future);
      if (!worlds.has(key)) worlds.set(key, future);
    }
  return [...worlds.values()];
}

describe('in every order of events, a run', () => {
  it('starts no harness after a stop, reports no end after a kill, and nothing before its processes are gone', () => {
    const reached = new Set(reachable().map(({ state }) => labelOf(state)));
    const some = ['working HAND_BACK', 'killing HANDED_BACK', 'reporting failure', 'ended unheard'];
    expect([...reached]).toEqual(expect.arrayContaining(some));
  });

  it('comes to its end, also when a session that was interrupted or killed never answers', () => {
    const stuck = reachable()
      .map(settled)
      .filter(({ state }) => state.at !== 'ended');
    expect(stuck).toEqual([]);
  });
});

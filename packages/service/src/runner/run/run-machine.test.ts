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
const refused = { outcome: 'FAILED', error: { code: 'REPORT_REFUSED', message: '' } } as const;
const full = { outcome: 'FAILED', error: { code: 'DISK_FULL', message: '' } } as const;
const broken = { outcome: 'FAILED', error: { code: 'HARNESS_ERROR', message: '' } } as const;

const lastReports: readonly LastReport[] = [
  { type: 'end', end: completed },
  { type: 'failure', end: refused },
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
  { at: 'ended', unreported: null },
];

const fromOutside: readonly RunEvent[] = [
  { type: 'interrupt' },
  { type: 'handBack' },
  { type: 'turnLimit' },
  { type: 'diskFull', end: full },
  { type: 'kill' },
  { type: 'fenced' },
  { type: 'leaseLost' },
  { type: 'reportFailed', end: refused },
];
const events: readonly RunEvent[] = [
  { type: 'prepared' },
  { type: 'opened' },
  { type: 'startReported' },
  { type: 'turnsDone', end: completed },
  { type: 'failed', end: broken },
  { type: 'closed' },
  { type: 'killed' },
  { type: 'deadline' },
  { type: 'reported', report: 'end', isAccepted: true },
  { type: 'reported', report: 'gone', isAccepted: true },
  { type: 'reported', report: 'failure', isAccepted: true },
  { type: 'reported', report: 'failure', isAccepted: false },
  ...fromOutside,
];

function labelOf(state: RunState): string {
  if ('stop' in state) return state.stop === 'NONE' ? state.at : `${state.at} ${state.stop}`;
  if ('end' in state) return `${state.at} ${state.end.outcome}`;
  if ('last' in state)
    return `${state.at} ${state.last.type === 'end' ? state.last.end.outcome : state.last.type}`;
  return state.unreported === null ? state.at : `${state.at} unreported`;
}

const nameOf = (event: RunEvent): string =>
  event.type === 'reported' ? `${event.report}${event.isAccepted ? '' : 'Not'}Reported` : event.type;

const effectNames = (effects: readonly Effect[]): string[] =>
  effects.map((effect) => (typeof effect === 'string' ? effect : `report ${effect.report.type}`));

const described = ({ state, effects }: Transition): string =>
  [labelOf(state), ...effectNames(effects)].join(', ');

/** In every active state. */
const cut = {
  kill: 'killing gone, closeReports, kill',
  fenced: 'killing gone, closeReports, kill',
  leaseLost: 'killing none, closeLastReport, kill',
  reportFailed: 'killing failure, closeReports, kill',
};
const unstopped = (at: string) => ({
  interrupt: `${at} INTERRUPT, interrupt, hurry`,
  handBack: `${at} HAND_BACK, interrupt, setDeadline`,
  turnLimit: `${at} INTERRUPT, interrupt, warnOfTurnLimit, setDeadline`,
  deadline: 'killing INTERRUPTED, kill',
  failed: 'closing FAILED, close',
  diskFull: 'killing FAILED, kill',
  ...cut,
});
const interrupted = (at: string) => ({
  interrupt: `${at} INTERRUPT, hurry`,
  handBack: `${at} INTERRUPT, setDeadline`,
  turnLimit: `${at} INTERRUPT, warnOfTurnLimit, setDeadline`,
  deadline: 'killing INTERRUPTED, kill',
  failed: 'closing INTERRUPTED, close',
  diskFull: 'killing INTERRUPTED, kill',
  ...cut,
});
const handedBack = (at: string) => ({
  interrupt: `${at} INTERRUPT, hurry`,
  handBack: `${at} HAND_BACK, setDeadline`,
  turnLimit: `${at} INTERRUPT, warnOfTurnLimit, setDeadline`,
  deadline: 'killing HANDED_BACK, kill',
  failed: 'closing HANDED_BACK, close',
  diskFull: 'killing HANDED_BACK, kill',
  ...cut,
});

/** Every event that has an effect in a state. The others do not change it. */
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
  working: { ...unstopped('working'), turnsDone: 'closing COMPLETED, close' },
  'working INTERRUPT': { ...interrupted('working'), turnsDone: 'closing INTERRUPTED, close' },
  'working HAND_BACK': { ...handedBack('working'), turnsDone: 'closing COMPLETED, close' },
  'closing COMPLETED': {
    closed: 'reporting COMPLETED, report end',
    deadline: 'killing COMPLETED, kill',
    interrupt: 'closing COMPLETED, hurry',
    handBack: 'closing COMPLETED, setDeadline',
    turnLimit: 'closing COMPLETED, setDeadline',
    ...cut,
  },
  'killing COMPLETED': {
    killed: 'reporting COMPLETED, report end',
    kill: 'killing gone, closeReports',
    fenced: 'killing gone, closeReports',
    reportFailed: 'killing failure, closeReports',
    leaseLost: 'killing none, closeLastReport',
  },
  'killing failure': {
    killed: 'reporting failure, report failure',
    kill: 'killing gone, closeReports',
    fenced: 'killing gone, closeReports',
    leaseLost: 'killing none, closeLastReport',
  },
  'killing gone': { killed: 'reporting gone, report gone', leaseLost: 'killing none, closeLastReport' },
  'killing none': { killed: 'ended, finish' },
  'reporting COMPLETED': {
    endReported: 'ended, finish',
    kill: 'reporting gone, closeReports, report gone',
    fenced: 'reporting gone, closeReports, report gone',
    reportFailed: 'reporting failure, closeReports, report failure',
    leaseLost: 'ended, closeLastReport, finish',
  },
  'reporting failure': {
    failureReported: 'ended, finish',
    failureNotReported: 'ended unreported, finish',
    kill: 'reporting gone, closeReports, report gone',
    fenced: 'reporting gone, closeReports, report gone',
    leaseLost: 'ended, closeLastReport, finish',
  },
  'reporting gone': { goneReported: 'ended, finish', leaseLost: 'ended, closeLastReport, finish' },
  ended: {},
};

describe('the state machine of a run', () => {
  it.each(states.map((state) => [labelOf(state), state] as const))('%s: every event', (label, state) => {
    const expected = Object.fromEntries(
      events.map((event) => [nameOf(event), table[label]?.[nameOf(event)] ?? label]),
    );
    const seen = Object.fromEntries(events.map((event) => [nameOf(event), described(next(state, event))]));
    expect(seen).toEqual(expected);
  });

  it('keeps what the agent said when it is interrupted', () => {
    const { state } = next({ at: 'working', stop: 'INTERRUPT' }, { type: 'turnsDone', end: completed });
    expect(state).toEqual({ at: 'closing', end: { outcome: 'INTERRUPTED', response: 'said' } });
  });
});

/** A run with the effects that were started and those that were completed. */
interface Simulation {
  readonly state: RunState;
  /** Effects that were not completed yet. */
  readonly open: readonly string[];
  readonly done: readonly string[];
  readonly stop: 'NONE' | 'STOPPED' | 'CUT' | 'LOST';
}

const completions: Readonly<Record<string, readonly RunEvent[]>> = {
  prepare: [{ type: 'prepared' }, { type: 'failed', end: broken }],
  open: [{ type: 'opened' }, { type: 'failed', end: broken }],
  reportStart: [{ type: 'startReported' }],
  work: [
    { type: 'turnsDone', end: completed },
    { type: 'turnsDone', end: { outcome: 'INTERRUPTED', response: '' } },
    { type: 'failed', end: broken },
  ],
  setDeadline: [{ type: 'deadline' }],
  close: [{ type: 'closed' }],
  kill: [{ type: 'killed' }],
  'report end': [{ type: 'reported', report: 'end', isAccepted: true }],
  'report gone': [{ type: 'reported', report: 'gone', isAccepted: true }],
  'report failure': [
    { type: 'reported', report: 'failure', isAccepted: true },
    { type: 'reported', report: 'failure', isAccepted: false },
  ],
};

const holdsFolders = ({ open, done }: Simulation): boolean =>
  open.includes('prepare') || open.includes('open') || !(done.includes('close') || done.includes('kill'));

const repeatable = ['hurry', 'setDeadline', 'warnOfTurnLimit', 'closeReports'];

/** What must hold when an effect is requested. */
function check(simulation: Simulation, effect: string): void {
  const { state, open, done, stop } = simulation;
  const fault = (problem: string) => new Error(`${effect} ${problem}: ${JSON.stringify(simulation)}`);
  if (done.includes('finish')) throw fault('after the end');
  if (!repeatable.includes(effect) && [...open, ...done].includes(effect)) throw fault('twice');
  if (['open', 'reportStart', 'work'].includes(effect) && stop !== 'NONE') throw fault('after a stop');
  if (effect === 'report end' && (stop === 'CUT' || stop === 'LOST')) throw fault('after a kill');
  if (effect.startsWith('report ') && stop === 'LOST') throw fault('after the lease');
  if ((effect.startsWith('report ') || effect === 'finish') && holdsFolders(simulation))
    throw fault('before the last process is gone');
  const owed = stop === 'CUT' ? ['report gone', 'report failure'] : ['report end'];
  const isReported = done.some((name) => owed.includes(name));
  if (effect === 'finish' && stop !== 'LOST' && !isReported) throw fault('without a report');
  if (effect === 'finish' && state.at !== 'ended') throw fault('too early');
}

function after(simulation: Simulation, event: RunEvent, completed?: string): Simulation {
  const { state, effects } = next(simulation.state, event);
  const isCut = ['kill', 'fenced', 'reportFailed'].includes(event.type);
  const isStop = ['interrupt', 'handBack', 'turnLimit'].includes(event.type);
  const stop = event.type === 'leaseLost' ? 'LOST' : isCut ? 'CUT' : isStop ? 'STOPPED' : 'NONE';
  const ranks: readonly Simulation['stop'][] = ['NONE', 'STOPPED', 'CUT', 'LOST'];
  let now: Simulation = {
    state,
    open: completed ? simulation.open.filter((name) => name !== completed) : simulation.open,
    done: completed ? [...new Set([...simulation.done, completed])].sort() : simulation.done,
    stop: ranks.indexOf(stop) > ranks.indexOf(simulation.stop) ? stop : simulation.stop,
  };
  for (const effect of effectNames(effects)) {
    check(now, effect);
    const isOver = completions[effect] === undefined;
    if (isOver) now = { ...now, done: [...new Set([...now.done, effect])].sort() };
    else now = { ...now, open: [...new Set([...now.open, effect])].sort() };
  }
  return now;
}

/** A kill waits for sessions that are being opened. */
const canComplete = (simulation: Simulation, effect: string): boolean =>
  effect !== 'kill' || !(simulation.open.includes('prepare') || simulation.open.includes('open'));

/** What may happen next; a report that was cancelled need not complete. */
function* futures(simulation: Simulation): Generator<Simulation> {
  for (const event of fromOutside) yield after(simulation, event);
  for (const effect of simulation.open) {
    if (!canComplete(simulation, effect)) continue;
    for (const event of completions[effect] ?? []) yield after(simulation, event, effect);
  }
}

/** The final state without further outside events, when nothing that was cancelled or has a deadline completes. */
function settled(simulation: Simulation): Simulation {
  let now = simulation;
  for (let steps = 0; steps < 20 && now.state.at !== 'ended'; steps++) {
    const isCut = now.stop === 'CUT' || now.stop === 'LOST';
    const stuckEffects = [
      ...(isCut ? ['reportStart', 'report end'] : []),
      ...(isCut || [...now.open, ...now.done].includes('setDeadline') ? ['work', 'close'] : []),
    ];
    const effect = now.open.find((name) => !stuckEffects.includes(name) && canComplete(now, name));
    const event = effect && completions[effect]?.[0];
    if (event) now = after(now, event, effect);
  }
  return now;
}

/** Every reachable state. Throws if one breaks a rule of `check`. */
function reachable(): Simulation[] {
  const start: Simulation = { state: begin.state, open: effectNames(begin.effects), done: [], stop: 'NONE' };
  const simulations = new Map([[JSON.stringify(start), start]]);
  for (const simulation of simulations.values())
    for (const future of futures(simulation)) {
      const key = JSON.stringify(future);
      if (!simulations.has(key)) simulations.set(key, future);
    }
  return [...simulations.values()];
}

it('in every order of events, a run starts no harness after a stop, reports its end once its processes are gone, none after a kill, and ends', () => {
  const simulations = reachable();
  const reached = new Set(simulations.map(({ state }) => labelOf(state)));
  const some = ['working HAND_BACK', 'killing HANDED_BACK', 'reporting failure', 'ended unreported'];
  expect([...reached]).toEqual(expect.arrayContaining(some));
  const stuck = simulations.map(settled).filter(({ state }) => state.at !== 'ended');
  expect(stuck).toEqual([]);
});

import type { RunEnd } from './report-stream.ts';

/**
 * The life of a run as a state machine: what can happen to it, and what is done then. It is pure. `run.ts` performs the
 * effects and reports the completion of each as an event.
 *
 *   preparing ─▶ opening ─▶ starting ─▶ working ─▶ closing ─▶ reporting ─▶ ended
 *       └───────────┴──────────┴───────────┴──────────┴─▶ killing ─▲
 *
 * A stop (interrupt, hand-back, turn limit) lets the turn come to an end, which is then reported. A hand-back and a turn
 * limit have a deadline, at which the session is killed and the end reported all the same. A run that was killed, given
 * to another runner or given up is killed immediately, and so is every run of a runner that lost its lease; their own
 * end is never reported. Whatever happens, `reporting` comes after the last process is gone and the folders are free.
 */
export type RunState =
  | { readonly at: 'preparing' | 'opening' | 'starting' | 'working'; readonly stop: Stop }
  | { readonly at: 'closing'; readonly end: RunEnd }
  | { readonly at: 'killing' | 'reporting'; readonly last: LastReport }
  | { readonly at: 'ended'; readonly unheardIncident: string };

export type Stop = 'NONE' | 'INTERRUPT' | 'HAND_BACK';

export type LastReport =
  | { readonly type: 'end'; readonly end: RunEnd }
  /** The service failed on the reports of this run. */
  | { readonly type: 'failure'; readonly incident: string }
  /** The run is not this runner's any more, and nothing of it is left. */
  | { readonly type: 'gone' }
  /** The lease is over: the service would refuse whatever is said. */
  | { readonly type: 'none' };

export type SentReport = Exclude<LastReport, { readonly type: 'none' }>;

export type RunEvent =
  | { readonly type: 'prepared' | 'opened' | 'startReported' | 'closed' | 'killed' }
  /** The turns are over. */
  | { readonly type: 'rested'; readonly end: RunEnd }
  /** Preparing, opening or a turn threw. */
  | { readonly type: 'failed'; readonly end: RunEnd }
  /** `isHeard`: the service did not fail on it. */
  | { readonly type: 'reported'; readonly report: LastReport['type']; readonly isHeard: boolean }
  | { readonly type: 'interrupt' | 'handBack' | 'turnLimit' | 'deadline' }
  | { readonly type: 'kill' | 'fenced' | 'leaseLost' }
  | { readonly type: 'reportFailed'; readonly incident: string };

export type Effect =
  /** Waits for the agent's earlier run, then clones, opens the gateway, sets up: `prepared` or `failed`. */
  | 'prepare'
  /** Starts the harness: `opened` or `failed`. */
  | 'open'
  | 'reportStart'
  /** Delivers the batch, and the reminders and corrections after it: `rested` or `failed`. */
  | 'work'
  /** Gives up preparing or opening, or interrupts the session. */
  | 'interrupt'
  | 'warnOfTurnLimit'
  | 'setDeadline'
  /** Ends the session, saves it and frees the folders: `closed`. */
  | 'close'
  /** Kills what lives, also what is about to, and frees the folders: `killed`. */
  | 'kill'
  /** From now on only the last report is sent. */
  | 'silence'
  /** From now on nothing is sent. */
  | 'silenceForGood'
  | { readonly report: SentReport }
  | 'finish';

export interface Transition {
  readonly state: RunState;
  readonly effects: readonly Effect[];
}

type Active = Extract<RunState, { readonly stop: Stop }>;

export const begin: Transition = {
  state: { at: 'preparing', stop: 'NONE' },
  effects: ['prepare'],
};

/** An event that means nothing in a state, such as the completion of what was killed, leaves it as it is. */
export function next(state: RunState, event: RunEvent): Transition {
  if (state.at === 'ended') return stay(state);
  switch (event.type) {
    case 'kill':
    case 'fenced':
      return cutOff(state, { type: 'gone' });
    case 'reportFailed':
      return cutOff(state, { type: 'failure', incident: event.incident });
    case 'leaseLost':
      return cutOff(state, { type: 'none' });
  }
  switch (state.at) {
    case 'closing':
      if (event.type === 'closed') return report({ type: 'end', end: state.end });
      if (event.type === 'deadline') return kill({ type: 'end', end: state.end });
      // The turn is over, so there is nothing to interrupt; closing must not take for ever.
      if (event.type === 'handBack' || event.type === 'turnLimit') return { state, effects: ['setDeadline'] };
      return stay(state);
    case 'killing':
      return event.type === 'killed' ? report(state.last) : stay(state);
    case 'reporting': {
      if (event.type !== 'reported' || event.report !== state.last.type) return stay(state);
      const isUnheard = state.last.type === 'failure' && !event.isHeard;
      return finish(isUnheard ? state.last.incident : '');
    }
    default:
      return nextOfActive(state, event);
  }
}

/** What completes each step, and what the next one is. */
const steps = {
  preparing: { completion: 'prepared', next: 'opening', effect: 'open' },
  opening: { completion: 'opened', next: 'starting', effect: 'reportStart' },
  starting: { completion: 'startReported', next: 'working', effect: 'work' },
} as const;

function nextOfActive(state: Active, event: RunEvent): Transition {
  const { at, stop } = state;
  switch (event.type) {
    case 'interrupt':
      return stopped(state, 'INTERRUPT');
    case 'handBack':
      return stopped(state, 'HAND_BACK', 'setDeadline');
    case 'turnLimit':
      return stopped(state, 'INTERRUPT', 'warnOfTurnLimit', 'setDeadline');
    case 'deadline':
      return kill({ type: 'end', end: endAfter(stop, interrupted) });
    case 'failed':
      // A harness that was told to stop may well complain.
      return close(endAfter(stop, stop === 'NONE' ? event.end : interrupted));
    case 'rested':
      return at === 'working' ? close(endAfter(stop, event.end)) : stay(state);
  }
  if (at === 'working' || event.type !== steps[at].completion) return stay(state);
  if (stop !== 'NONE') return close(endAfter(stop, interrupted));
  return { state: { at: steps[at].next, stop }, effects: [steps[at].effect] };
}

/** An interrupt that was asked for is what the run ends with, also when the runner leaves. */
function stopped(state: Active, stop: Stop, ...more: readonly Effect[]): Transition {
  const effects: readonly Effect[] = state.stop === 'NONE' ? ['interrupt', ...more] : more;
  const isKnown = state.stop === stop || state.stop === 'INTERRUPT';
  return { state: isKnown ? state : { ...state, stop }, effects };
}

const interrupted: RunEnd = { outcome: 'INTERRUPTED', response: '' };

/** A run told to stop ends so, whatever happened to it after; one that is handed back may have completed first. */
function endAfter(stop: Stop, end: RunEnd): RunEnd {
  if (stop === 'INTERRUPT') return { outcome: 'INTERRUPTED', response: end.response ?? '' };
  if (stop === 'HAND_BACK' && end.outcome === 'INTERRUPTED') return { outcome: 'HANDED_BACK' };
  return end;
}

/** Of two, the later one is sent: after a kill nobody may hear of an end. */
const precedence: readonly LastReport['type'][] = ['end', 'failure', 'gone', 'none'];

function cutOff(state: Exclude<RunState, { readonly at: 'ended' }>, last: LastReport): Transition {
  if ('last' in state && precedence.indexOf(last.type) <= precedence.indexOf(state.last.type))
    return stay(state);
  const silence = last.type === 'none' ? 'silenceForGood' : 'silence';
  if (state.at === 'killing') return { state: { ...state, last }, effects: [silence] };
  const then = state.at === 'reporting' ? report(last) : kill(last);
  return { ...then, effects: [silence, ...then.effects] };
}

const stay = (state: RunState): Transition => ({ state, effects: [] });
const close = (end: RunEnd): Transition => ({ state: { at: 'closing', end }, effects: ['close'] });
const kill = (last: LastReport): Transition => ({
  state: { at: 'killing', last },
  effects: ['kill'],
});
const report = (last: LastReport): Transition =>
  last.type === 'none' ? finish() : { state: { at: 'reporting', last }, effects: [{ report: last }] };
const finish = (unheardIncident = ''): Transition => ({
  state: { at: 'ended', unheardIncident },
  effects: ['finish'],
});

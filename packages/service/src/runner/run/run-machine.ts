import type { RunEnd } from './report-stream.ts';

/**
 * A run as a pure state machine: its events and their effects. `run.ts` performs the effects and returns the completion
 * of each as an event.
 *
 *   preparing ─▶ opening ─▶ starting ─▶ working ─▶ closing ─▶ reporting ─▶ ended
 *       └───────────┴──────────┴───────────┴──────────┴─▶ killing ─▲
 *
 * A stop (interrupt, hand-back, turn limit) lets the turn end, and the end is reported. A hand-back and a turn limit have
 * a deadline; then the session is killed, and the end is reported too. A run that fills the disk is killed without a
 * deadline, and its end is reported. A run that was killed, fenced or whose reports
 * failed is killed immediately, and so is every run of a runner that lost its lease; their own end is never reported. In
 * all cases, `reporting` comes after the last process is gone. A killed run saves a checkpoint after `ended`.
 */
export type RunState =
  | { readonly at: 'preparing' | 'opening' | 'starting' | 'working'; readonly stop: Stop }
  | { readonly at: 'closing'; readonly end: RunEnd }
  | { readonly at: 'killing' | 'reporting'; readonly last: LastReport }
  | { readonly at: 'ended'; readonly unreported: RunEnd | null };

export type Stop = 'NONE' | 'INTERRUPT' | 'HAND_BACK';

export type LastReport =
  | { readonly type: 'end'; readonly end: RunEnd }
  /** The service failed on a report of this run, or can't accept it. */
  | { readonly type: 'failure'; readonly end: RunEnd }
  /** This runner no longer has the run, and nothing of it is left. */
  | { readonly type: 'gone' }
  /** The lease has expired: the service would refuse every report. */
  | { readonly type: 'none' };

export type SentReport = Exclude<LastReport, { readonly type: 'none' }>;

export type RunEvent =
  | { readonly type: 'prepared' | 'opened' | 'startReported' | 'closed' | 'killed' }
  | { readonly type: 'turnsDone'; readonly end: RunEnd }
  /** Preparing, opening or a turn threw. */
  | { readonly type: 'failed'; readonly end: RunEnd }
  /** The disk is almost full, and this run has to stop writing. */
  | { readonly type: 'diskFull'; readonly end: RunEnd }
  | { readonly type: 'reported'; readonly report: LastReport['type']; readonly isAccepted: boolean }
  | { readonly type: 'interrupt' | 'handBack' | 'turnLimit' | 'deadline' }
  | { readonly type: 'kill' | 'fenced' | 'leaseLost' }
  | { readonly type: 'reportFailed'; readonly end: RunEnd };

export type Effect =
  /** Waits for the agent's earlier run, then prepares this one: `prepared` or `failed`. */
  | 'prepare'
  /** Starts the harness: `opened` or `failed`. */
  | 'open'
  | 'reportStart'
  /** Delivers the batch, reminders and corrections: `turnsDone` or `failed`. */
  | 'work'
  /** Cancels preparing or opening, or interrupts the session. */
  | 'interrupt'
  /** Limits the time for the last checkpoint. */
  | 'hurry'
  | 'warnOfTurnLimit'
  | 'setDeadline'
  /** Closes the session, saves a checkpoint and frees the folders: `closed`. */
  | 'close'
  /** Kills the session, also one that is being opened, and every process: `killed`. */
  | 'kill'
  /** Only the last report may still be sent. */
  | 'closeReports'
  /** No report may be sent. */
  | 'closeLastReport'
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

/** An event without a meaning in a state, such as the completion of a killed effect, does not change it. */
export function next(state: RunState, event: RunEvent): Transition {
  if (state.at === 'ended') return stay(state);
  switch (event.type) {
    case 'kill':
    case 'fenced':
      return cutOff(state, { type: 'gone' });
    case 'reportFailed':
      return cutOff(state, { type: 'failure', end: event.end });
    case 'leaseLost':
      return cutOff(state, { type: 'none' });
  }
  switch (state.at) {
    case 'closing':
      if (event.type === 'closed') return report({ type: 'end', end: state.end });
      if (event.type === 'deadline') return kill({ type: 'end', end: state.end });
      // The turn has ended, so there is nothing to interrupt, but closing must not take forever.
      if (event.type === 'interrupt') return { state, effects: ['hurry'] };
      if (event.type === 'handBack' || event.type === 'turnLimit') return { state, effects: ['setDeadline'] };
      return stay(state);
    case 'killing':
      return event.type === 'killed' ? report(state.last) : stay(state);
    case 'reporting': {
      if (event.type !== 'reported' || event.report !== state.last.type) return stay(state);
      const isUnreported = state.last.type === 'failure' && !event.isAccepted;
      return finish(isUnreported ? state.last.end : null);
    }
    default:
      return nextOfActive(state, event);
  }
}

const steps = {
  preparing: { completion: 'prepared', next: 'opening', effect: 'open' },
  opening: { completion: 'opened', next: 'starting', effect: 'reportStart' },
  starting: { completion: 'startReported', next: 'working', effect: 'work' },
} as const;

function nextOfActive(state: Active, event: RunEvent): Transition {
  const { at, stop } = state;
  switch (event.type) {
    case 'interrupt':
      return stopped(state, 'INTERRUPT', 'hurry');
    case 'handBack':
      return stopped(state, 'HAND_BACK', 'setDeadline');
    case 'turnLimit':
      return stopped(state, 'INTERRUPT', 'warnOfTurnLimit', 'setDeadline');
    case 'deadline':
      return kill({ type: 'end', end: endAfter(stop, interrupted) });
    case 'diskFull':
      return kill({ type: 'end', end: endAfter(stop, stop === 'NONE' ? event.end : interrupted) });
    case 'failed':
      // A harness that was interrupted may fail.
      return close(endAfter(stop, stop === 'NONE' ? event.end : interrupted));
    case 'turnsDone':
      return at === 'working' ? close(endAfter(stop, event.end)) : stay(state);
  }
  if (at === 'working' || event.type !== steps[at].completion) return stay(state);
  if (stop !== 'NONE') return close(endAfter(stop, interrupted));
  return { state: { at: steps[at].next, stop }, effects: [steps[at].effect] };
}

/** A run that was interrupted ends as INTERRUPTED, also when the runner leaves. */
function stopped(state: Active, stop: Stop, ...more: readonly Effect[]): Transition {
  const effects: readonly Effect[] = state.stop === 'NONE' ? ['interrupt', ...more] : more;
  const isKnown = state.stop === stop || state.stop === 'INTERRUPT';
  return { state: isKnown ? state : { ...state, stop }, effects };
}

const interrupted: RunEnd = { outcome: 'INTERRUPTED', response: '' };

/**
 * An interrupted run ends as interrupted, whatever happened later; one that is handed back may have completed first.
 */
function endAfter(stop: Stop, end: RunEnd): RunEnd {
  if (stop === 'INTERRUPT') return { outcome: 'INTERRUPTED', response: end.response ?? '' };
  if (stop === 'HAND_BACK' && end.outcome === 'INTERRUPTED') return { outcome: 'HANDED_BACK' };
  return end;
}

/** The later one in this list wins: after a kill, no end may be reported. */
const precedence: readonly LastReport['type'][] = ['end', 'failure', 'gone', 'none'];

function cutOff(state: Exclude<RunState, { readonly at: 'ended' }>, last: LastReport): Transition {
  if ('last' in state && precedence.indexOf(last.type) <= precedence.indexOf(state.last.type))
    return stay(state);
  const closing = last.type === 'none' ? 'closeLastReport' : 'closeReports';
  if (state.at === 'killing') return { state: { ...state, last }, effects: [closing] };
  const then = state.at === 'reporting' ? report(last) : kill(last);
  return { ...then, effects: [closing, ...then.effects] };
}

const stay = (state: RunState): Transition => ({ state, effects: [] });
const close = (end: RunEnd): Transition => ({ state: { at: 'closing', end }, effects: ['close'] });
const kill = (last: LastReport): Transition => ({ state: { at: 'killing', last }, effects: ['kill'] });
const report = (last: LastReport): Transition =>
  last.type === 'none' ? finish() : { state: { at: 'reporting', last }, effects: [{ report: last }] };
const finish = (unreported: RunEnd | null = null): Transition => ({
  state: { at: 'ended', unreported },
  effects: ['finish'],
});

import type { Run, RunOutcome, RunState } from '@muster/sdk';

type LiveState = Exclude<RunState, 'ENDED'>;

const liveWords: Readonly<Record<LiveState, string>> = {
  STARTING: 'Starting',
  RUNNING: 'Working',
  STOPPING: 'Stopping',
};
const outcomeWords: Readonly<Record<RunOutcome, string>> = {
  COMPLETED: 'Completed',
  INTERRUPTED: 'Interrupted',
  KILLED: 'Killed',
  FAILED: 'Failed',
  LOST: 'Its runner vanished',
  PARKED: "Parked by the provider's limit",
  HANDED_BACK: 'Handed back by its runner',
};

export const isLiveRun = ({ state }: Pick<Run, 'state'>): boolean => state !== 'ENDED';

/** How a run stands or ended. */
export function runWords({ state, outcome }: Pick<Run, 'state' | 'outcome'>): string {
  if (state !== 'ENDED') return liveWords[state];
  return outcome === '' ? 'Ended' : outcomeWords[outcome];
}

/**
 * `2nd try of run 4`; empty for the first. How many tries there were is told by the timeline alone, and 0 where that
 * is no longer kept.
 */
export function tryWords({ runId, batch }: Pick<Run, 'runId' | 'batch'>, attempt: number): string {
  if (runId === batch) return '';
  return attempt > 1 ? `${ordinal(attempt)} try of run ${batch}` : `tries run ${batch} again`;
}

export function ordinal(count: number): string {
  const teens = count % 100 >= 11 && count % 100 <= 13;
  const ending = teens ? 'th' : (['th', 'st', 'nd', 'rd'][count % 10] ?? 'th');
  return `${count}${ending}`;
}

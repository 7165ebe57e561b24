import type { Run, RunOutcome, RunState } from '@muster/sdk';

const stateTexts: Readonly<Record<Exclude<RunState, 'ENDED'>, string>> = {
  STARTING: 'starting',
  RUNNING: 'working',
  STOPPING: 'stopping',
};
const outcomeTexts: Readonly<Record<RunOutcome, string>> = {
  COMPLETED: 'completed',
  INTERRUPTED: 'interrupted',
  KILLED: 'killed',
  FAILED: 'failed',
  LOST: 'lost: runner disconnected',
  PARKED: 'rate limited',
  HANDED_BACK: 'handed back by runner',
};

export const isLiveRun = ({ state }: Pick<Run, 'state'>): boolean => state !== 'ENDED';

/** An outcome that this page does not know is shown as it is: the service may be newer. */
export const outcomeText = (outcome: string): string =>
  outcomeTexts[outcome as RunOutcome] ?? outcome.replaceAll('_', ' ').toLowerCase();

export function runText({ state, outcome }: Pick<Run, 'state' | 'outcome'>): string {
  if (state !== 'ENDED') return stateTexts[state];
  return outcome === '' ? 'ended' : outcomeText(outcome);
}

/** `2nd attempt of run 4`; empty for a first attempt. The number is 0 if its timeline entry was removed. */
export function attemptText({ runId, batch }: Pick<Run, 'runId' | 'batch'>, attempt: number): string {
  if (runId === batch) return '';
  return attempt > 1 ? `${ordinal(attempt)} attempt of run ${batch}` : `retry of run ${batch}`;
}

export function ordinal(count: number): string {
  const isTeen = count % 100 >= 11 && count % 100 <= 13;
  const ending = isTeen ? 'th' : (['th', 'st', 'nd', 'rd'][count % 10] ?? 'th');
  return `${count}${ending}`;
}

import type { AgentStatus, PhaseReason, Run, RunOutcome, RunState } from '@muster/sdk';
import { clock } from '@muster/sdk/contract';
import { plural } from '../../parts/model/text.ts';

type StatusFields = Pick<
  AgentStatus,
  'phase' | 'phaseReason' | 'needsInput' | 'tasks' | 'error' | 'model' | 'wakesAt'
>;

const you = 'waiting for you';
const automatic = 'continues automatically';

const needsTexts: Readonly<Partial<Record<PhaseReason, string>>> = {
  NO_RUNNER: 'needs a runner',
  POOL_FULL: automatic,
  RESTING: you,
  QUESTION: you,
  TASKS_UNFINISHED: you,
  BLOCKED: you,
  INTERRUPTED: you,
  DEFERRED: automatic,
  CHILDREN: automatic,
  PROVIDER_LIMIT: automatic,
  RETRYING: automatic,
};

/** What the agent needs to continue; empty while it works and after it ended. */
export const needsText = ({ phaseReason }: StatusFields): string => needsTexts[phaseReason] ?? '';

/** Why the agent has its status, and what to do about it. */
export function explanationOf(status: StatusFields): string {
  const { wakesAt, model, error } = status;
  const atWakeTime = wakesAt ? ` at ${clock(wakesAt)}` : '';
  switch (status.phaseReason) {
    case 'NO_RUNNER':
      return `No connected runner can run ${model}. Start one for the agent's pool with "muster runner"; the agent then starts automatically.`;
    case 'POOL_FULL':
      return 'The pool is at capacity. The agent starts when another run ends. To add capacity, start another runner, or raise the limits of the pool: maxRuns for each runner, maxRunsTotal for all.';
    case 'STARTING':
      return status.phase === 'PHASE_RUNNING'
        ? 'The runner is preparing the workspace.'
        : 'The agent is about to start.';
    case 'WORKING':
      return 'Working.';
    case 'STOPPING':
      return 'The turn is stopping. If this takes too long, kill the turn.';
    case 'RESTING':
      return 'The turn is complete. Send a message to start the next one.';
    case 'QUESTION':
      return 'The agent needs an answer to continue.';
    case 'TASKS_UNFINISHED':
      return `The agent stopped with ${plural(openTasks(status), 'open task')}. Send a message to continue.`;
    case 'BLOCKED':
      return `Blocked: ${status.needsInput.replace(/^The /, 'the ')}`;
    case 'INTERRUPTED':
      return 'The turn was stopped. Send a message to continue.';
    case 'DEFERRED':
      return `The next message is due${atWakeTime}. Send a message to start earlier.`;
    case 'CHILDREN':
      return 'The agent is waiting for its children. It continues when one needs input or fails, or when none is working. Send a message to continue now.';
    case 'PROVIDER_LIMIT':
      return `The provider of ${model} limits requests. The agent retries automatically${atWakeTime}.`;
    case 'RETRYING':
      return error
        ? `${error.message} The agent retries the same messages${atWakeTime}.`
        : 'The last run was lost because its runner disconnected or shut down. The agent retries the same messages.';
    case 'FINISHED':
      return 'The agent declared itself finished.';
    case 'ERROR':
      return error?.message || 'The agent failed and gave no reason.';
    case 'KILLED':
      return 'The agent was killed.';
    case 'PARENT_KILLED':
      return 'The agent was killed together with its parent.';
  }
}

const openTasks = ({ tasks }: Pick<StatusFields, 'tasks'>): number =>
  tasks.filter(({ status }) => /PENDING|IN_PROGRESS/.test(status)).length;

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

export const isLiveRun = (run: Pick<Run, 'state'> | null): boolean => run !== null && run.state !== 'ENDED';

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

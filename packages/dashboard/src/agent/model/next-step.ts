import type { AgentStatus } from '@muster/sdk';
import { clock } from '@muster/sdk/contract';
import { plural } from '../../parts/model/text.ts';

export interface NextStep {
  /** What the agent needs to continue, in a few words; empty while it works and after it ended. */
  readonly needs: string;
  /** Why the agent has its status, and what to do about it. */
  readonly explanation: string;
}

type StatusFields = Pick<
  AgentStatus,
  'phase' | 'phaseReason' | 'needsInput' | 'tasks' | 'error' | 'model' | 'wakesAt'
>;

const you = 'waiting for you';
const nothing = 'continues automatically';

const step = (needs: string, explanation: string): NextStep => ({ needs, explanation });

export function nextStepOf(status: StatusFields): NextStep {
  const { wakesAt, model, error } = status;
  const atWakeTime = wakesAt ? ` at ${clock(wakesAt)}` : '';
  switch (status.phaseReason) {
    case 'NO_RUNNER':
      return step(
        'needs a runner',
        `No connected runner can run ${model}. Start one for the agent's pool with "muster runner"; the agent then starts automatically.`,
      );
    case 'POOL_FULL':
      return step(
        nothing,
        'The pool is at capacity. The agent starts when another run ends. To add capacity, start another runner or raise maxRuns of the pool.',
      );
    case 'STARTING':
      return step(
        '',
        status.phase === 'PHASE_RUNNING'
          ? 'The runner is preparing the workspace.'
          : 'The agent is about to start.',
      );
    case 'WORKING':
      return step('', 'Working.');
    case 'STOPPING':
      return step('', 'The turn is stopping. If this takes too long, kill the turn.');
    case 'RESTING':
      return step(you, 'The turn is complete. Send a message to start the next one.');
    case 'QUESTION':
      return step(you, 'The agent needs an answer to continue.');
    case 'TASKS_UNFINISHED':
      return step(
        you,
        `The agent stopped with ${plural(openTasks(status), 'open task')}. Send a message to continue.`,
      );
    case 'BLOCKED':
      return step(you, `Blocked: ${status.needsInput.replace(/^The /, 'the ')}`);
    case 'INTERRUPTED':
      return step(you, 'The turn was stopped. Send a message to continue.');
    case 'DEFERRED':
      return step(nothing, `The next message is due${atWakeTime}. Send a message to start earlier.`);
    case 'CHILDREN':
      return step(
        nothing,
        'The agent is waiting for its children. It continues when one needs input or fails, or when none is working. Send a message to continue now.',
      );
    case 'PROVIDER_LIMIT':
      return step(
        nothing,
        `The provider of ${model} limits requests. The agent retries automatically${atWakeTime}.`,
      );
    case 'RETRYING':
      return step(
        nothing,
        error
          ? `${error.message} The agent retries the same messages${atWakeTime}.`
          : 'The last run was lost because its runner disconnected or shut down. The agent retries the same messages.',
      );
    case 'FINISHED':
      return step('', 'The agent declared itself finished.');
    case 'ERROR':
      return step('', error?.message || 'The agent failed and gave no reason.');
    case 'KILLED':
      return step('', 'The agent was killed.');
    case 'PARENT_KILLED':
      return step('', 'The agent was killed together with its parent.');
  }
}

const openTasks = ({ tasks }: Pick<StatusFields, 'tasks'>): number =>
  tasks.filter(({ status }) => /PENDING|IN_PROGRESS/.test(status)).length;

import type { AgentStatus } from '@muster/sdk';
import { clock } from '@muster/sdk/contract';

export interface NextStep {
  /** Who moves it on, in a few words; empty while it moves by itself, and when it has ended. */
  readonly mover: string;
  /** Why it stands where it stands, and what would help. */
  readonly sentence: string;
}

type Standing = Pick<
  AgentStatus,
  'phase' | 'phaseReason' | 'needsInput' | 'tasks' | 'error' | 'model' | 'wakesAt'
>;

const you = 'your move';
const itself = 'goes on by itself';

const step = (mover: string, sentence: string): NextStep => ({ mover, sentence });

export function nextStepOf(status: Standing): NextStep {
  const { wakesAt } = status;
  switch (status.phaseReason) {
    case 'NO_RUNNER':
      return step(
        'needs a runner',
        `No runner is connected that can run ${status.model}. Start one for its pool with "muster runner"; the agent then starts by itself.`,
      );
    case 'POOL_FULL':
      return step(
        itself,
        'Every place in its pool is taken, and it starts when another run ends. A further runner, or a higher maxRuns of the pool, makes more places.',
      );
    case 'STARTING':
      return step(
        '',
        status.phase === 'PHASE_RUNNING' ? 'A runner prepares its workspace.' : 'It is about to start.',
      );
    case 'WORKING':
      return step('', 'It works.');
    case 'STOPPING':
      return step('', 'It was told to stop and comes to rest. If that takes too long, kill the turn.');
    case 'RESTING':
      return step(you, 'Its turn is done. A message starts the next one.');
    case 'QUESTION':
      return step(you, 'It needs an answer to go on.');
    case 'TASKS_UNFINISHED':
      return step(you, `It stopped, and ${openTasks(status)}. A message lets it go on.`);
    case 'BLOCKED':
      return step(you, `Blocked: ${status.needsInput.replace(/^The /, 'the ')}`);
    case 'INTERRUPTED':
      return step(you, 'Its turn was stopped. A message lets it go on.');
    case 'DEFERRED':
      return step(
        itself,
        `It sleeps until its next message is due${wakesAt ? `, at ${clock(wakesAt)}` : ''}. A message now wakes it before.`,
      );
    case 'CHILDREN':
      return step(
        itself,
        'It waits for its children, and goes on when one asks or fails, or when none works any more. A message wakes it now.',
      );
    case 'PROVIDER_LIMIT':
      return step(
        itself,
        `The provider of ${status.model} takes no more work for now. It tries again by itself${wakesAt ? ` at ${clock(wakesAt)}` : ''}.`,
      );
    case 'RETRYING':
      return step(
        itself,
        status.error
          ? `${status.error.message} The same messages are tried again${wakesAt ? ` at ${clock(wakesAt)}` : ''}.`
          : 'Its last run broke off, because its runner vanished or was shut down. The same messages are tried again.',
      );
    case 'FINISHED':
      return step('', 'It declared itself finished.');
    case 'ERROR':
      return step('', status.error?.message || 'It failed, and no reason was given.');
    case 'KILLED':
      return step('', 'Somebody killed it.');
    case 'PARENT_KILLED':
      return step('', 'It was killed with an agent above it.');
  }
}

function openTasks({ tasks }: Pick<Standing, 'tasks'>): string {
  const open = tasks.filter(({ status }) => /PENDING|IN_PROGRESS/.test(status)).length;
  return open === 1 ? 'one task is open' : `${open} tasks are open`;
}

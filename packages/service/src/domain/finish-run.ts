import {
  faultOf,
  limits,
  type RunOutcome,
  reasonRow,
  retriedForMs,
  retryDelayMs,
} from '@muster/sdk/contract';
import { type AgentError, type ChildView, noFaults, works } from './agent.ts';
import { abandonBatch, dropEphemeral } from './batch.ts';
import type { Draft } from './draft.ts';
import { block, end, noteError, pend, settle } from './settle.ts';

export interface FinishedRun {
  readonly outcome: RunOutcome;
  readonly error?: AgentError | undefined;
  readonly question?: string | undefined;
  readonly finished?: boolean | undefined;
  readonly limitUntil?: string | undefined;
  readonly limitAccount?: string | undefined;
  readonly awaits?: string | undefined;
  /** A process may be left that has to be confirmed dead before another run starts. */
  readonly processLeft?: boolean;
}

/** Ends the live run and applies the rules that depend on how it ended; `settle` has those that do not. */
export function finishRun(draft: Draft, ending: FinishedRun, children: readonly ChildView[]): void {
  const { run, now } = draft;
  if (!run) return;
  const wasStopped = run.stop !== '' && ending.outcome !== 'KILLED';
  const declared = ending.outcome === 'COMPLETED' ? draft.agent.memory.failure : '';
  const { budget } = draft.agent.memory;
  // Its harness may call a refused request a failure.
  const isOutOfBudget = budget !== undefined && /^(INTERRUPTED|FAILED)$/.test(ending.outcome) && !declared;
  const ended = isOutOfBudget ? 'PARKED' : ending.outcome;
  const outcome = wasStopped ? 'INTERRUPTED' : declared ? 'FAILED' : ended;
  draft.endRun(outcome, ending.processLeft ? null : now);
  draft.set({ result: { ...draft.agent.result, error: null }, progressAt: now });
  const { batch, preemptedBy, question: asked, finished, wasFinished } = draft.agent.memory;
  // Questions and declarations count only if the run ended by itself.
  const completed = outcome === 'COMPLETED';
  const question = completed ? ending.question || asked : '';
  draft.remember({
    interrupted: outcome === 'INTERRUPTED' || outcome === 'KILLED',
    question,
    finished: completed && (ending.finished || finished || (wasFinished ?? false)),
    lostInARow: outcome === 'LOST' ? draft.agent.memory.lostInARow + 1 : 0,
    failure: '',
    preemptedBy: null,
  });
  switch (outcome) {
    case 'LOST':
      if (draft.agent.memory.lostInARow >= limits.lostRunsInARow) {
        return block(draft, {
          code: 'RUNNER_LOST',
          message: `its runner vanished ${limits.lostRunsInARow} times in a row`,
        });
      }
      return retry(draft, preemptedBy, children);
    case 'HANDED_BACK':
      return retry(draft, preemptedBy, children);
    case 'PARKED':
      if (!budget)
        draft.remember({ limitUntil: ending.limitUntil ?? now, limitAccount: ending.limitAccount });
      return retry(draft, preemptedBy, children);
    case 'FAILED': {
      const error = declared
        ? { code: 'AGENT_FAILED', message: declared }
        : (ending.error ?? { code: 'FAILED', message: 'the run failed' });
      return failed(draft, error, { ...ending, preemptedBy }, children);
    }
    default:
      dropEphemeral(draft, batch);
      draft.remember({ batch: null, budget: undefined, ...noFaults });
      if (question) draft.log('QUESTION', { runId: run.number, text: question });
      return settle(draft, children);
  }
}

/** Retries the batch, unless a preempting message replaces it. */
function retry(draft: Draft, preemptedBy: string | null, children: readonly ChildView[]): void {
  if (preemptedBy !== null && draft.agent.queued > 0) {
    abandonBatch(draft, preemptedBy);
    return settle(draft, children);
  }
  pend(draft, 'RETRYING');
}

/** A fault ends the agent, is retried later, or blocks the agent until a person fixes it. */
function failed(
  draft: Draft,
  error: AgentError,
  { preemptedBy, awaits }: Pick<FinishedRun, 'awaits'> & { readonly preemptedBy: string | null },
  children: readonly ChildView[],
): void {
  const fault = faultOf(error.code);
  if (fault.class === 'final') {
    dropEphemeral(draft, draft.agent.memory.batch);
    noteError(draft, error);
    return end(draft, 'PHASE_FAILED', 'ERROR', `${error.code}: ${error.message}`);
  }
  if (fault.class === 'fixable') return block(draft, error);
  const { memory } = draft.agent;
  const attempt = memory.passingFaults + 1;
  const failingSince = memory.failingSince ?? draft.now;
  const nowMs = Date.parse(draft.now);
  const inAttempt = { ...error, message: `${error.message} (attempt ${attempt})` };
  if (nowMs - Date.parse(failingSince) >= retriedForMs) return block(draft, inAttempt);
  const retryAt = new Date(nowMs + retryDelayMs(attempt)).toISOString();
  noteError(draft, inAttempt, { attempt, retryAt });
  draft.remember({ passingFaults: attempt, failingSince, retryAt, awaits });
  retry(draft, preemptedBy, children);
}

/**
 * Tells a parent that a child became idle or ended. A parent that waits for its children is woken when one needs input
 * or fails, and when none is working any more. A parent with a live run sees it at the end of that run.
 */
export function childSettled(parent: Draft, child: ChildView, children: readonly ChildView[]): void {
  if (parent.agent.endedAt !== null) return;
  parent.log('CHILD_SETTLED', {
    text: child.path.join('/'),
    data: { child: child.path, phase: child.phase, reason: child.reason },
  });
  if (parent.agent.phase === 'PHASE_RUNNING') {
    parent.remember({
      unseenChildren: [...parent.agent.memory.unseenChildren.filter((id) => id !== child.id), child.id],
    });
    return;
  }
  if (parent.agent.phase !== 'PHASE_PENDING' || !parent.agent.memory.forChildren) return;
  const needsInput = reasonRow({ phaseReason: child.reason }).needsInput !== undefined;
  const wakes = needsInput || child.phase === 'PHASE_FAILED' || !children.some(works);
  if (!wakes) return;
  parent.remember({ prefaceDue: true });
  // With a queued message it runs anyway; if that is removed, `prefaceDue` still wakes it.
  if (parent.agent.reason === 'CHILDREN') pend(parent);
}

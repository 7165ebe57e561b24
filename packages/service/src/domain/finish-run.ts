import { faultOf, limits, type RunOutcome, retryDelaysMs } from '@muster/sdk/contract';
import { type AgentError, type ChildView, works } from './agent.ts';
import { abandonBatch, dropEphemeral } from './batch.ts';
import type { Draft } from './draft.ts';
import { block, end, noteError, pend, settle } from './settle.ts';

export interface RunEnd {
  readonly outcome: RunOutcome;
  readonly error?: AgentError | undefined;
  readonly question?: string | undefined;
  readonly finished?: boolean | undefined;
  readonly limitUntil?: string | undefined;
  /** A process may be left that has to be confirmed dead before another run starts. */
  readonly processLeft?: boolean;
}

/** Ends the live run and applies the rules that depend on how it ended; `settle` has those that do not. */
export function finishRun(draft: Draft, ending: RunEnd, children: readonly ChildView[]): void {
  const { run, now } = draft;
  if (!run) return;
  const wasStopped = run.stop !== '' && ending.outcome !== 'KILLED';
  const declared = ending.outcome === 'COMPLETED' ? draft.agent.memory.failure : '';
  const outcome = wasStopped ? 'INTERRUPTED' : declared ? 'FAILED' : ending.outcome;
  draft.endRun(outcome, ending.processLeft ? null : now);
  draft.set({ result: { ...draft.agent.result, error: null }, progressAt: now });
  const { batch, preemptedBy, question: asked, finished } = draft.agent.memory;
  // Questions and declarations count only if the run ended by itself.
  const completed = outcome === 'COMPLETED';
  const question = completed ? ending.question || asked : '';
  draft.remember({
    interrupted: outcome === 'INTERRUPTED' || outcome === 'KILLED',
    question,
    finished: completed && (ending.finished || finished),
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
      draft.remember({ limitUntil: ending.limitUntil ?? now });
      return retry(draft, preemptedBy, children);
    case 'FAILED': {
      const error = declared
        ? { code: 'AGENT_FAILED', message: declared }
        : (ending.error ?? { code: 'FAILED', message: 'the run failed' });
      return failed(draft, error, preemptedBy, children);
    }
    default:
      dropEphemeral(draft, batch);
      draft.remember({ batch: null, passingFaults: 0 });
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
  preemptedBy: string | null,
  children: readonly ChildView[],
): void {
  const fault = faultOf(error.code);
  if (fault.class === 'final') {
    dropEphemeral(draft, draft.agent.memory.batch);
    noteError(draft, error);
    return end(draft, 'PHASE_FAILED', 'ERROR', `${error.code}: ${error.message}`);
  }
  const { passingFaults } = draft.agent.memory;
  const delayMs = fault.class === 'passing' ? retryDelaysMs[passingFaults] : undefined;
  if (delayMs === undefined) return block(draft, error);
  noteError(draft, error);
  const retryAt = new Date(Date.parse(draft.now) + delayMs).toISOString();
  draft.remember({ passingFaults: passingFaults + 1, retryAt });
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
  const needsInput = child.reason === 'QUESTION' || child.reason === 'BLOCKED';
  const wakes = needsInput || child.phase === 'PHASE_FAILED' || !children.some(works);
  if (!wakes) return;
  parent.remember({ prefaceDue: true });
  // With a queued message it runs anyway; if that is removed, `prefaceDue` still wakes it.
  if (parent.agent.reason === 'CHILDREN') pend(parent);
}

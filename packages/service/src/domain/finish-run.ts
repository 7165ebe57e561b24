import { limits, type RunOutcome } from '@muster/sdk/contract';
import { type ChildView, type Result, works } from './agent.ts';
import { abandonBatch, dropEphemeral } from './batch.ts';
import type { Draft } from './draft.ts';
import { end, pend, settle } from './settle.ts';

export interface RunEnd {
  readonly outcome: RunOutcome;
  readonly error?: Result['error'];
  readonly question?: string;
  readonly finished?: boolean;
  readonly limitUntil?: string | null;
  /** A process may be left that has to be confirmed dead before another run starts. */
  readonly processLeft?: boolean;
}

/** Ends the live run and applies the rules that depend on how it ended; `settle` has those that do not. */
export function finishRun(draft: Draft, ending: RunEnd, children: readonly ChildView[]): void {
  const { run, now } = draft;
  if (!run) return;
  const told = run.stop !== '' && ending.outcome !== 'KILLED';
  const outcome = told ? 'INTERRUPTED' : ending.outcome;
  draft.log('RUN_ENDED', { runId: run.number, text: outcome, data: { outcome } });
  draft.setRun({
    state: 'ENDED',
    outcome,
    endedAt: now,
    goneAt: ending.processLeft ? null : now,
    currentAction: '',
  });
  draft.set({ result: { ...draft.agent.result, error: null }, progressAt: now });
  const { batch, preemptedBy, question: asked, finished } = draft.agent.memory;
  // What it asked or declared counts only of a run that came to its own end: any other is over, or tried again.
  const completed = outcome === 'COMPLETED';
  const question = completed ? ending.question || asked : '';
  draft.remember({
    interrupted: outcome === 'INTERRUPTED' || outcome === 'KILLED',
    question,
    finished: completed && (ending.finished || finished),
    lostInARow: outcome === 'LOST' ? draft.agent.memory.lostInARow + 1 : 0,
    preemptedBy: null,
  });
  switch (outcome) {
    case 'LOST':
      if (draft.agent.memory.lostInARow >= limits.lostRunsInARow) {
        return fail(draft, 'RUNNER_LOST', `its runner vanished ${limits.lostRunsInARow} times in a row`);
      }
      return retry(draft, preemptedBy, children);
    case 'HANDED_BACK':
      return retry(draft, preemptedBy, children);
    case 'PARKED':
      draft.remember({ limitUntil: ending.limitUntil ?? now });
      return retry(draft, preemptedBy, children);
    case 'FAILED':
      dropEphemeral(draft, batch);
      return fail(draft, ending.error?.code ?? 'FAILED', ending.error?.message ?? 'the run failed');
    default:
      dropEphemeral(draft, batch);
      draft.remember({ batch: null });
      if (question) draft.log('QUESTION', { runId: run.number, text: question });
      return settle(draft, children);
  }
}

/** The same batch again, unless a preempting message took its place. */
function retry(draft: Draft, preemptedBy: string | null, children: readonly ChildView[]): void {
  if (preemptedBy !== null && draft.agent.queued > 0) {
    abandonBatch(draft, preemptedBy);
    return settle(draft, children);
  }
  pend(draft, 'RETRYING');
}

export function fail(draft: Draft, code: string, message: string): void {
  draft.produce({ error: { code, message } });
  draft.log('ERROR', { text: message, data: { code } });
  end(draft, 'PHASE_FAILED', 'ERROR', `${code}: ${message}`);
}

/**
 * Tells a parent that a child came to rest or ended. A parent that waits for its children is woken when one asks or
 * fails, and when none works any more; one that is at work learns it at the end of its run.
 */
export function noticeChild(parent: Draft, child: ChildView, children: readonly ChildView[]): void {
  if (parent.agent.endedAt !== null) return;
  parent.log('CHILD_SETTLED', {
    text: child.path.join('/'),
    data: { child: child.path, phase: child.phase, reason: child.reason },
  });
  if (parent.agent.phase === 'PHASE_RUNNING') {
    parent.remember({ news: [...parent.agent.memory.news.filter((id) => id !== child.id), child.id] });
    return;
  }
  if (parent.agent.phase !== 'PHASE_PENDING' || !parent.agent.memory.forChildren) return;
  const wakes = child.reason === 'QUESTION' || child.phase === 'PHASE_FAILED' || !children.some(works);
  if (!wakes) return;
  parent.remember({ prefaceDue: true });
  // With a message in its queue it is about to run anyway; should that be taken back, this still wakes it.
  if (parent.agent.reason === 'CHILDREN') pend(parent);
}

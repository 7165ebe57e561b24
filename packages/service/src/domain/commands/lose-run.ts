import { isLive } from '../agent.ts';
import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { finishRun } from '../finish-run.ts';
import { processGone } from './report-run.ts';

export interface LoseRun {
  readonly type: 'lose';
  readonly runId: number;
}

/** The lease under which a run was held has ended: nobody acts on it any more. */
export const loseRun: Decide<LoseRun, boolean> = (loaded, { runId }, state) => {
  const { run } = state;
  if (!run || run.number !== runId || run.goneAt !== null) return unchanged(false);
  if (!isLive(run))
    return decided(loaded, true, [processGone(state, loaded.now, 'the lease of its runner ended')]);
  const draft = Draft.of(state, loaded.now);
  finishRun(draft, { outcome: 'LOST' }, loaded.children(draft.agent.id));
  return decided(loaded, true, [draft]);
};

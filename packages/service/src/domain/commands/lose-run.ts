import { type AgentState, isLive } from '../agent.ts';
import { type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { finishRun } from '../finish-run.ts';
import type { World } from '../world.ts';
import { processGone } from './report-run.ts';

export interface LoseRun {
  readonly type: 'lose';
  readonly runId: number;
}

/** The lease under which a run was held has ended: nobody acts on it any more. */
export function loseRun(world: World, { runId }: LoseRun, state: AgentState): Decision<boolean> {
  const { run } = state;
  if (!run || run.number !== runId || run.goneAt !== null) return unchanged(false);
  if (!isLive(run))
    return decided(world, true, [processGone(state, world.now, 'the lease of its runner ended')]);
  const draft = Draft.of(state, world.now);
  finishRun(draft, { outcome: 'LOST' }, world.children(draft.agent.id));
  return decided(world, true, [draft]);
}

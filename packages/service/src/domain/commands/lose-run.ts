import { type AgentState, isLive } from '../agent.ts';
import { type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { finishRun } from '../finish-run.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { processGone } from './report-run.ts';

export interface LoseRun {
  readonly type: 'lose';
  readonly runId: number;
}

/** The lease under which a run was held has ended: nobody acts on it any more. */
export function loseRun(loaded: LoadedAgents, { runId }: LoseRun, state: AgentState): Decision<boolean> {
  const { run } = state;
  if (!run || run.number !== runId || run.goneAt !== null) return unchanged(false);
  if (!isLive(run))
    return decided(loaded, true, [processGone(state, loaded.now, 'the lease of its runner ended')]);
  const draft = Draft.of(state, loaded.now);
  finishRun(draft, { outcome: 'LOST' }, loaded.children(draft.agent.id));
  return decided(loaded, true, [draft]);
}

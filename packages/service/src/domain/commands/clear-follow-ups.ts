import type { AgentState } from '../agent.ts';
import { type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { resettle } from '../settle.ts';

export interface ClearFollowUps {
  readonly type: 'clear';
}

/** Discards what is queued. Deferred messages stay. */
export function clearFollowUps(
  loaded: LoadedAgents,
  _command: ClearFollowUps,
  state: AgentState,
): Decision<{ cleared: number }> {
  const draft = Draft.of(state, loaded.now);
  const queue = draft.queue();
  if (queue.length === 0) return unchanged({ cleared: 0 });
  for (const followUp of queue) {
    draft.moveFollowUp(followUp, 'CLEARED', { text: 'cleared', data: { reason: 'CLEARED' } });
  }
  draft.remember({ preemptedBy: null });
  resettle(draft, loaded.children(draft.agent.id));
  return decided(loaded, { cleared: queue.length }, [draft]);
}

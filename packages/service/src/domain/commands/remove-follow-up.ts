import type { AgentState } from '../agent.ts';
import { type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { resettle } from '../settle.ts';

export interface RemoveFollowUp {
  readonly type: 'remove';
  readonly followUpId: string;
}

/** Takes back one undelivered follow-up; its id is free again. */
export function removeFollowUp(
  loaded: LoadedAgents,
  { followUpId }: RemoveFollowUp,
  state: AgentState,
): Decision<{ removed: boolean }> {
  const followUp = state.followUps.get(followUpId);
  if (!followUp || (followUp.state !== 'QUEUED' && followUp.state !== 'DEFERRED')) {
    return unchanged({ removed: false });
  }
  const draft = Draft.of(state, loaded.now);
  draft.moveFollowUp(followUp, 'REMOVED');
  if (draft.agent.memory.preemptedBy === followUpId) draft.remember({ preemptedBy: null });
  resettle(draft, loaded.children(draft.agent.id));
  return decided(loaded, { removed: true }, [draft]);
}

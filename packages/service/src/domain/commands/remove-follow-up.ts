import type { AgentState } from '../agent.ts';
import { type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { resettle } from '../settle.ts';
import type { World } from '../world.ts';

export interface RemoveFollowUp {
  readonly type: 'remove';
  readonly followUpId: string;
}

/** Takes back one undelivered follow-up; its id is free again. */
export function removeFollowUp(
  world: World,
  { followUpId }: RemoveFollowUp,
  state: AgentState,
): Decision<{ removed: boolean }> {
  const followUp = state.followUps.get(followUpId);
  if (!followUp || (followUp.state !== 'QUEUED' && followUp.state !== 'DEFERRED')) {
    return unchanged({ removed: false });
  }
  const draft = Draft.of(state, world.now);
  draft.moveFollowUp(followUp, 'REMOVED');
  if (draft.agent.memory.preemptedBy === followUpId) draft.remember({ preemptedBy: null });
  resettle(draft, world.children(draft.agent.id));
  return decided(world, { removed: true }, [draft]);
}

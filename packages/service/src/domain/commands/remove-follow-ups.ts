import { isUndelivered } from '../agent.ts';
import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { discardFollowUp } from '../review.ts';
import { resettle } from '../settle.ts';

export interface RemoveFollowUp {
  readonly type: 'remove';
  readonly followUpId: string;
}

/** Takes back one undelivered follow-up; its id is free again. */
export const removeFollowUp: Decide<RemoveFollowUp, { removed: boolean }> = (
  loaded,
  { followUpId },
  state,
) => {
  const followUp = state.followUps.get(followUpId);
  if (!followUp || !isUndelivered(followUp)) return unchanged({ removed: false });
  const draft = Draft.of(state, loaded.now);
  discardFollowUp(draft, followUp, 'REMOVED');
  if (draft.agent.memory.preemptedBy === followUpId) draft.remember({ preemptedBy: null });
  resettle(draft, loaded.children(draft.agent.id));
  return decided(loaded, { removed: true }, [draft]);
};

export interface ClearFollowUps {
  readonly type: 'clear';
}

/** Discards what is queued. Deferred messages stay. */
export const clearFollowUps: Decide<ClearFollowUps, { cleared: number }> = (loaded, _command, state) => {
  const draft = Draft.of(state, loaded.now);
  const queue = draft.queue();
  if (queue.length === 0) return unchanged({ cleared: 0 });
  for (const followUp of queue) {
    discardFollowUp(draft, followUp, 'CLEARED', { text: 'cleared', data: { reason: 'CLEARED' } });
  }
  draft.remember({ preemptedBy: null });
  resettle(draft, loaded.children(draft.agent.id));
  return decided(loaded, { cleared: queue.length }, [draft]);
};

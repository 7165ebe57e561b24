import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { continueKept } from '../settle.ts';

export interface EndBudgetWait {
  readonly type: 'endBudgetWait';
}

/** The budget that stopped the agent has enough left, or is gone. False: the agent does not wait for one. */
export const endBudgetWait: Decide<EndBudgetWait, boolean> = (loaded, _command, state) => {
  const { reason, claimableAt } = state.agent;
  if (reason !== 'BUDGET' || (claimableAt !== null && claimableAt <= loaded.now)) return unchanged(false);
  const draft = Draft.of(state, loaded.now);
  draft.set({ claimableAt: null });
  continueKept(draft, loaded.children(state.agent.id));
  return decided(loaded, true, [draft]);
};

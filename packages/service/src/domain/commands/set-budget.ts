import { isTerminal, usd } from '@muster/sdk/contract';
import { budgetKeyOf, isOfAgent, leftOf, titleOf } from '../budget.ts';
import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { invalid, precondition, type Refusal } from '../refusal.ts';

export interface SetBudget {
  readonly type: 'setBudget';
  readonly budgetUsd: number | null;
}

/** Sets the own budget of an agent. What it has stopped continues by itself where that is enough. */
export const setBudget: Decide<SetBudget, { budgetUsd: number | null }> = (loaded, command, state) => {
  const { agent } = state;
  const { budgetUsd } = command;
  const path = agent.path.join('/');
  if (isTerminal(agent.phase)) return precondition('AGENT_ENDED', path, `the agent ${path} has ended`);
  if (budgetUsd === agent.budgetUsd) return unchanged({ budgetUsd });
  const more = (budgetUsd ?? 0) - (agent.budgetUsd ?? 0);
  const refused = refuseAllotted(loaded, agent.id, more, 'budgetUsd', budgetKeyOf(agent.id));
  if (refused) return refused;
  const draft = Draft.of(state, loaded.now);
  draft.set({ budgetUsd });
  draft.log('SETTINGS_CHANGED', { data: { budgetUsd } });
  return decided(loaded, { budgetUsd }, [draft]);
};

/** An agent may be allotted what is left of the budgets of the agents above it, and no more. */
export function refuseAllotted(
  loaded: LoadedAgents,
  agent: string,
  amountUsd: number,
  field: string,
  own = '',
): Refusal | null {
  const tight = loaded
    .budgets(agent)
    .find((budget) => isOfAgent(budget) && budget.key !== own && amountUsd > leftOf(budget));
  return tight
    ? invalid(field, `must be at most what the ${titleOf(tight)} has left, ${usd(leftOf(tight))}`)
    : null;
}

import type { AgentStatus } from '@muster/sdk';
import { type AgentBudget, agentPage, isTerminal, pathOf } from '@muster/sdk/contract';
import { useState } from 'react';
import { Link } from 'wouter';
import { leftUsd, tightest, usd } from '../../../budget/model/budget.ts';
import { BudgetItem } from '../../../budget/view/budget-item.tsx';
import { AmountDialog, RaiseButton } from '../../../budget/view/raise-dialog.tsx';
import { mayCommand } from '../../../live/model/allowed-actions.ts';
import { Button } from '../../../parts/button.tsx';
import { useSignedIn } from '../../../session/session.ts';
import { Panel, useIsLinked } from './panel.tsx';

/** All budgets that limit the agent: its own, those of the agents above it, and those of the catalog. */
export function Budgets({ status }: { readonly status: AgentStatus }) {
  const { agentId, phase, budgets } = status;
  const { caller } = useSignedIn();
  const isLinked = useIsLinked();
  const own = (budget: AgentBudget) =>
    budget.agentId !== null && agentPage(budget.agentId) === agentPage(agentId);
  const mayAdd = mayCommand(caller, agentId) && !isTerminal(phase) && !budgets.some(own);
  const least = tightest(budgets);
  if (!least && !mayAdd) return null;
  return (
    <Panel title="Budgets" summary={least ? `${usd(leftUsd(least))} left` : 'none'}>
      {budgets.length > 0 && (
        <ul className="stack">
          {budgets.map((budget) => (
            <BudgetItem
              key={budget.agentId ? agentPage(budget.agentId) : budget.name}
              budget={budget}
              name={isLinked && !own(budget) ? <BudgetLink budget={budget} /> : budget.name}
            >
              {own(budget) && <span className="secondary">with children</span>}
              <RaiseButton budget={budget} effect={effectOn(status)} />
            </BudgetItem>
          ))}
        </ul>
      )}
      {mayAdd && <SetBudget status={status} />}
    </Panel>
  );
}

const BudgetLink = ({ budget: { name, agentId } }: { readonly budget: AgentBudget }) => (
  <Link href={agentId ? agentPage(agentId) : `/catalog/budget/${encodeURIComponent(name)}`}>{name}</Link>
);

/** What continues when a budget of the agent is raised. */
export const effectOn = ({ phaseReason }: Pick<AgentStatus, 'phaseReason'>): string =>
  phaseReason === 'BUDGET'
    ? 'The agent continues automatically when enough is left.'
    : 'Agents that wait for this budget continue automatically when enough is left.';

function SetBudget({ status }: { readonly status: AgentStatus }) {
  const { agentId } = status;
  const [isOpen, setOpen] = useState(false);
  return (
    <div>
      <Button onClick={() => setOpen(true)}>Set budget</Button>
      {isOpen && (
        <AmountDialog
          name={pathOf(agentId)}
          agentId={agentId}
          budget={null}
          effect="At the limit, the agent stops and waits until the budget is raised."
          onClose={() => setOpen(false)}
        />
      )}
    </div>
  );
}

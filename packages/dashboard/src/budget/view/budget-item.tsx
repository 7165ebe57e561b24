import type { AgentBudget } from '@muster/sdk/contract';
import type { ReactNode } from 'react';
import { Countdown } from '../../parts/times.tsx';
import { amountsText, leftUsd, partOf } from '../model/budget.ts';
import '../budget.css';

interface BudgetItemProps {
  readonly budget: AgentBudget;
  readonly name: ReactNode;
  /** Behind the name. */
  readonly children?: ReactNode;
}

/** A budget with its bar: what is spent, what is reserved, what is left, and when it resets. */
export const BudgetItem = ({ budget, name, children }: BudgetItemProps) => (
  <li className="budget stack">
    <div className="budget-head wrap">
      <strong>{name}</strong>
      {children}
    </div>
    <BudgetBar budget={budget} />
    <p className="secondary wrap">
      <span>{amountsText(budget)}</span>
      {budget.resetsAt !== null && (
        <span>
          resets <Countdown to={budget.resetsAt} />
        </span>
      )}
    </p>
  </li>
);

const percent = (part: number): string => `${100 * part}%`;

/** The text below it has the same numbers. */
function BudgetBar({ budget }: Pick<BudgetItemProps, 'budget'>) {
  const { warnAt } = budget;
  const spent = partOf(budget.spentUsd, budget);
  const used = partOf(budget.spentUsd + budget.reservedUsd, budget);
  const state = leftUsd(budget) === 0 ? 'spent' : used >= warnAt ? 'warned' : 'fine';
  return (
    <svg className="budget-bar" height="10" data-state={state} aria-hidden="true">
      <rect className="budget-amount" y="1" width="100%" height="8" rx="4" />
      <rect className="budget-reserved" y="1" width={percent(used)} height="8" rx="4" />
      <rect className="budget-spent" y="1" width={percent(spent)} height="8" rx="4" />
      {warnAt < 1 && <line className="budget-warning" x1={percent(warnAt)} x2={percent(warnAt)} y2="10" />}
    </svg>
  );
}

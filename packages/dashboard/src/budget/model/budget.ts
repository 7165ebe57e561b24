import type { Caller } from '@muster/sdk';
import { type AgentBudget, type BudgetState, dollars } from '@muster/sdk/contract';
import { isAdmin, mayCommand } from '../../live/model/allowed-actions.ts';

type Amounts = Pick<AgentBudget, 'amountUsd' | 'spentUsd' | 'reservedUsd'>;

/** Sums of amounts that are no binary fractions differ in the last digits. */
const roundingUsd = 1e-9;

export const leftUsd = ({ amountUsd, spentUsd, reservedUsd }: Amounts): number => {
  const left = amountUsd - spentUsd - reservedUsd;
  return left > roundingUsd ? left : 0;
};

/** `$0`, `$1.20`, `<$0.001`. */
export const usd = (amount: number): string => (amount === 0 ? '$0' : dollars(amount));

/** `$1.20 spent, $0.50 reserved, $3.30 left of $5.00`. */
export function amountsText(budget: Amounts): string {
  const { amountUsd, spentUsd, reservedUsd } = budget;
  const reserved = reservedUsd > roundingUsd ? `, ${usd(reservedUsd)} reserved` : '';
  return `${usd(spentUsd)} spent${reserved}, ${usd(leftUsd(budget))} left of ${usd(amountUsd)}`;
}

/** A part of the amount, from 0 to 1. */
export const partOf = (usdOfIt: number, { amountUsd }: Amounts): number =>
  amountUsd === 0 ? 1 : Math.min(1, usdOfIt / amountUsd);

export const isWarned = (budget: Amounts & { readonly warnAt: number }): boolean =>
  budget.spentUsd + budget.reservedUsd >= budget.warnAt * budget.amountUsd;

/** The budget that has the least left. */
export const tightest = <Budget extends Amounts>(budgets: readonly Budget[]): Budget | undefined =>
  budgets.toSorted((a, b) => leftUsd(a) - leftUsd(b))[0];

/** Those that agents wait for first, then those with the largest part used. */
export const byUrgency = (budgets: readonly BudgetState[]): BudgetState[] =>
  budgets.toSorted((a, b) => b.waiting - a.waiting || partLeft(a) - partLeft(b));

const partLeft = (budget: Amounts): number => partOf(leftUsd(budget), budget) * Math.sign(budget.amountUsd);

/** The same rule as in the service: admins raise those of the catalog, and who may command an agent raises its own. */
export const mayRaise = (caller: Caller, { agentId }: Pick<AgentBudget, 'agentId'>): boolean =>
  agentId ? mayCommand(caller, agentId) : isAdmin(caller);

const windowTexts: Readonly<Record<string, string>> = {
  total: 'in total',
  day: 'per day',
  month: 'per month',
};

/** `workspace shop · ada · per month`; of an agent, that it includes the agents below it. */
export function scopeText({ agentId, workspace, account, window }: BudgetState): string {
  const scope = agentId
    ? ['with children']
    : [workspace && `workspace ${workspace}`, account].filter(Boolean);
  const every = windowTexts[window] ?? `every ${window.replace(/h$/, ' hours')}`;
  return [...(scope.length === 0 ? ['all agents'] : scope), every].join(' · ');
}

import { type BudgetDocument, usd } from '@muster/sdk/contract';
import type { BudgetStop, Instant } from './agent.ts';
import { windowOf } from './budget-window.ts';
import type { DomainEvent } from './events.ts';

/** A budget over an agent, as it is stored. */
export interface StoredBudget {
  /** `budget/NAME` of one in the catalog, `agent/ID` of the own one of an agent. */
  readonly key: string;
  /** Its name in the catalog, or the path of its agent. */
  readonly name: string;
  readonly document: BudgetDocument & { readonly createdAt?: Instant };
  /** Null before anything of it was taken. */
  readonly ledger: Ledger | null;
}

/** What is taken of a budget in one window: spent, or reserved for runs that are live. */
export interface Ledger {
  readonly startsAt: Instant;
  readonly takenUsd: number;
}

/** The same at one moment. */
export interface Budget {
  readonly key: string;
  readonly name: string;
  readonly amountUsd: number;
  readonly takenUsd: number;
  readonly startsAt: Instant;
  readonly resetsAt: Instant | null;
  readonly warnAt: number;
  readonly allowsUnpriced: boolean;
  /** Whether the ledger is that of this window. If not, nothing may be taken before what was spent is counted. */
  readonly isCounted: boolean;
}

export const budgetKeyOf = (agent: string): string => `agent/${agent}`;
export const isOfAgent = ({ key }: Pick<Budget, 'key'>): boolean => key.startsWith('agent/');

/** Where its document does not say it. */
export const usualBudget = { window: 'total', zone: 'UTC', warnAt: 0.8 } as const;

export function budgetAt({ key, name, document, ledger }: StoredBudget, now: Instant): Budget {
  const { amountUsd = 0, warnAt = usualBudget.warnAt, unpriced, createdAt = now } = document;
  const zone = document.zone ?? usualBudget.zone;
  const window = windowOf(document.window ?? usualBudget.window, zone, createdAt, now);
  const isCounted = ledger?.startsAt === window.startsAt;
  return {
    ...{ key, name, amountUsd, isCounted, ...window },
    takenUsd: isCounted ? ledger.takenUsd : 0,
    warnAt,
    allowsUnpriced: unpriced === 'allow',
  };
}

/** Sums of amounts that are no binary fractions differ in the last digits. */
export const roundingUsd = 1e-9;

export const leftOf = ({ amountUsd, takenUsd }: Budget): number => Math.max(0, amountUsd - takenUsd);
export const isSpent = (budget: Budget): boolean => leftOf(budget) <= roundingUsd;
export const isNearlySpent = ({ takenUsd, warnAt, amountUsd }: Budget): boolean =>
  amountUsd > 0 && takenUsd >= warnAt * amountUsd;

/** A stop because too little is left. What is left changes until somebody reads it, so the text does not say it. */
export function stopBy(budget: Budget, needUsd: number): BudgetStop {
  const { key, resetsAt } = budget;
  const why = isSpent(budget)
    ? 'is spent'
    : `has too little left: the next request may cost up to ${usd(needUsd)} more than is reserved for this run`;
  const reset = resetsAt === null ? '' : ` Its next window begins at ${resetsAt}.`;
  const who = isOfAgent(budget) ? 'The owner of the agent or an admin' : 'An admin';
  const message = `The ${titleOf(budget)} of ${usd(budget.amountUsd)} ${why}.${reset} ${who} can raise it.`;
  return { key, needUsd, until: resetsAt, message };
}

/** A stop because nobody knows what the request costs. */
export const stopUnpriced = (budget: Budget, model: string): BudgetStop => ({
  key: budget.key,
  needUsd: 0,
  until: null,
  isUnpriced: true,
  message: `The price of the model ${JSON.stringify(model)} is unknown, and the ${titleOf(budget)} allows only models with a price. An operator can add the price to the file that MUSTER_PRICES of the runner names, or send a message that changes the model.`,
});

export const titleOf = (budget: Pick<Budget, 'key' | 'name'>): string =>
  isOfAgent(budget) ? `budget of the agent ${budget.name}` : `budget "${budget.name}"`;

/** People may want to know it, once in each window. */
export const noticeOf = (
  event: 'budget.warned' | 'budget.spent',
  { key, name, startsAt }: Budget,
  text: string,
): DomainEvent => ({ type: 'budgetNoticed', event, key, name, startsAt, text });

/** Lines for an agent about its own budget with its first run, and about each budget once that is nearly spent. */
export function budgetLines(
  budgets: readonly Budget[],
  agent: string,
  isFirst: boolean,
  told: readonly string[],
): { readonly lines: string[]; readonly told: string[] } {
  const near = budgets.filter(isNearlySpent);
  const lines = budgets.flatMap((budget) => {
    const left = `${usd(leftOf(budget))} of ${usd(budget.amountUsd)} is left`;
    if (near.includes(budget) && !told.includes(noteOf(budget)))
      return [`The ${titleOf(budget)} is nearly spent: ${left}.`];
    return isFirst && budget.key === budgetKeyOf(agent)
      ? [`Your budget, for you and the agents that you spawn: ${left}.`]
      : [];
  });
  return { lines, told: near.map(noteOf) };
}

const noteOf = ({ key, startsAt }: Budget): string => `${key}@${startsAt}`;

import { type CreditReply, type CreditRequest, usd } from '@muster/sdk/contract';
import { type BudgetStop, isLive } from '../agent.ts';
import {
  type Budget,
  isNearlySpent,
  isSpent,
  leftOf,
  noticeOf,
  roundingUsd,
  stopBy,
  stopUnpriced,
  titleOf,
} from '../budget.ts';
import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { aborted, fenced } from '../refusal.ts';

export interface CreditRun extends Omit<CreditRequest, 'agentKey'> {
  readonly type: 'credit';
}

/** A run gets some more than it needs, so that it need not ask for each request: this part of what is left, at most so much. */
const spare = { part: 1 / 16, mostUsd: 0.5 } as const;

/**
 * Reserves money for the next request of a run in every budget above it, or in none. How much a run is covered up to is
 * kept with the run, by budget: the end of the run returns what it did not spend.
 */
export const creditRun: Decide<CreditRun, CreditReply> = (loaded, command, state) => {
  const { run, agent } = state;
  const { upToUsd, unpricedModel } = command;
  if (!isLive(run) || run.number !== command.runId || run.runnerId !== command.runnerId)
    return fenced(`run ${command.runId} is not the current run of ${agent.path.join('/')}`);
  const budgets = loaded.budgets(agent.id);
  if (budgets.length === 0) return unchanged({ coveredUsd: run.usage.cost, unlimited: true, refusal: '' });
  if (!budgets.every(({ isCounted }) => isCounted))
    return aborted('NOT_COUNTED', 'what is spent of a budget has to be counted first');

  const draft = Draft.of(state, loaded.now);
  const coveredBy = ({ key }: Budget): number => run.credits?.[key] ?? run.usage.cost;
  const needOf = (budget: Budget): number => Math.max(0, upToUsd - coveredBy(budget));
  const stop = stopOf(budgets, needOf, unpricedModel);
  if (stop) {
    if (agent.memory.budget?.message !== stop.message) draft.log('WARNING', { text: stop.message });
    draft.remember({ budget: stop });
    const spent = unpricedModel === undefined && budgets.find(({ key }) => key === stop.key);
    if (spent) draft.events.push(noticeOf('budget.spent', spent, stop.message));
    return decided(loaded, { coveredUsd: run.usage.cost, unlimited: false, refusal: stop.message }, [draft]);
  }
  const need = Math.max(...budgets.map(needOf));
  const more = need > 0 ? Math.min(...budgets.map((budget) => spareOf(budget, needOf(budget)))) : 0;
  const coveredUsd = need > 0 ? upToUsd + more : Math.min(...budgets.map(coveredBy));
  const taken = budgets.flatMap((budget) => {
    const amount = coveredUsd - coveredBy(budget);
    return amount > 0 ? [{ budget, amount }] : [];
  });
  const reply = { coveredUsd, unlimited: false, refusal: '' };
  if (taken.length === 0 && !agent.memory.budget) return unchanged(reply);
  draft.remember({ budget: undefined });
  draft.setRun({
    credits: { ...run.credits, ...Object.fromEntries(taken.map(({ budget }) => [budget.key, coveredUsd])) },
  });
  for (const { budget, amount } of taken) {
    const { key, amountUsd, startsAt } = budget;
    const within = { mostUsd: amountUsd + roundingUsd, startsAt };
    draft.events.push({ type: 'taken', key, usd: amount, within });
    const after = { ...budget, takenUsd: budget.takenUsd + amount };
    if (isNearlySpent(after) && !isNearlySpent(budget)) {
      const text = warningOf(after);
      draft.log('WARNING', { text });
      draft.events.push(noticeOf('budget.warned', budget, text));
    }
  }
  return decided(loaded, reply, [draft]);
};

/** The first budget that does not allow the request. */
function stopOf(
  budgets: readonly Budget[],
  needOf: (budget: Budget) => number,
  unpricedModel: string | undefined,
): BudgetStop | null {
  for (const budget of budgets) {
    if (unpricedModel !== undefined && !budget.allowsUnpriced) return stopUnpriced(budget, unpricedModel);
    if (needOf(budget) > leftOf(budget) + roundingUsd) return stopBy(budget, needOf(budget));
    // Without a price nothing is reserved, but a budget that is spent allows nothing at all.
    if (unpricedModel !== undefined && isSpent(budget)) return stopBy(budget, 0);
  }
  return null;
}

const spareOf = (budget: Budget, needUsd: number): number =>
  Math.min(spare.mostUsd, Math.max(0, leftOf(budget) - needUsd) * spare.part);

const warningOf = (budget: Budget): string =>
  `The ${titleOf(budget)} is nearly spent: ${usd(budget.takenUsd)} of ${usd(budget.amountUsd)} is spent or reserved.`;

import { describe, expect, test } from 'vitest';
import { budgetAt, isNearlySpent, isSpent, leftOf, type StoredBudget, stopBy } from './budget.ts';

const daily = (ledger: StoredBudget['ledger'] = null): StoredBudget => ({
  key: 'budget/all',
  name: 'all',
  document: { amountUsd: 10, window: 'day', createdAt: '2026-03-01T00:00:00.000Z' },
  ledger,
});
const taken = (startsAt: string, takenUsd: number) => budgetAt(daily({ startsAt, takenUsd }), noon);
const noon = '2026-03-10T12:00:00.000Z';
const today = '2026-03-10T00:00:00.000Z';

describe('a budget at one moment', () => {
  test('has what its ledger of this window has', () => {
    expect(taken(today, 4)).toMatchObject({ takenUsd: 4, isCounted: true, startsAt: today });
    expect(leftOf(taken(today, 4))).toBe(6);
  });

  test.each([
    ['the window before', '2026-03-09T00:00:00.000Z'],
    // The clock of the database was ahead when it was counted.
    ['a window that has not begun', '2026-03-11T00:00:00.000Z'],
    ['no window', '-infinity'],
  ])('has to be counted when its ledger is of %s', (_, startsAt) => {
    expect(taken(startsAt, 9)).toMatchObject({ takenUsd: 0, isCounted: false, startsAt: today });
  });

  test('has to be counted when nothing was taken yet', () => {
    expect(budgetAt(daily(), noon)).toMatchObject({ takenUsd: 0, isCounted: false });
  });

  test('that was lowered below what is taken has nothing left, and not less', () => {
    const lowered = { ...daily({ startsAt: today, takenUsd: 4 }), document: { amountUsd: 1, window: 'day' } };
    expect(leftOf(budgetAt(lowered, noon))).toBe(0);
    expect(isSpent(budgetAt(lowered, noon))).toBe(true);
  });

  test('is spent when less is left than sums differ by, and nearly spent from `warnAt` on', () => {
    expect(isSpent(taken(today, 10 - 1e-12))).toBe(true);
    expect(isSpent(taken(today, 9.99))).toBe(false);
    expect([7.99, 8, 10].map((usd) => isNearlySpent(taken(today, usd)))).toEqual([false, true, true]);
  });

  test('of nothing is spent, and nobody is warned', () => {
    const nothing = budgetAt({ ...daily(), document: { amountUsd: 0 } }, noon);
    expect([isSpent(nothing), isNearlySpent(nothing)]).toEqual([true, false]);
  });
});

test('a stop says what is missing, until when, and who can raise the budget', () => {
  const { until, message } = stopBy(taken(today, 8), 2.5);
  expect(until).toBe('2026-03-11T00:00:00.000Z');
  expect(message).toBe(
    'The budget "all" of $10.00 has too little left: the next request may cost up to $2.50 more than is reserved for this run. Its next window begins at 2026-03-11T00:00:00.000Z. An admin can raise it.',
  );
});

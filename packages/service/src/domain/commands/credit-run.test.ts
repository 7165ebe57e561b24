import { describe, expect, test } from 'vitest';
import { DomainAgent } from '../../../../../test/support/domain-agents.ts';
import type { StoredBudget } from '../budget.ts';

const today = '2026-03-01T00:00:00.000Z';

const budget = (amountUsd: number, more: Partial<StoredBudget> = {}): StoredBudget => ({
  key: 'budget/all',
  name: 'all',
  document: { amountUsd, window: 'day' },
  ledger: { startsAt: today, takenUsd: 0 },
  ...more,
});
const started = (...budgets: readonly StoredBudget[]) => new DomainAgent().limitedBy(...budgets).start();

const covered = ({ reply }: DomainAgent): number => (reply as { coveredUsd: number }).coveredUsd;
const refusal = ({ reply }: DomainAgent): string => (reply as { refusal: string }).refusal;

describe('a run that asks', () => {
  test('is covered in every budget or in none', () => {
    const agent = started(budget(10), budget(1, { key: 'budget/small', name: 'small' }));
    expect(refusal(agent.credit(2))).toContain('"small"');
    expect(agent.taken).toEqual([0, 0]);
    expect(covered(agent.credit(0.5))).toBeGreaterThanOrEqual(0.5);
    expect(agent.taken).toEqual([covered(agent), covered(agent)]);
  });

  test('gets no more in advance than a part of what is left of the smallest', () => {
    const agent = started(budget(1000), budget(1.6, { key: 'budget/small' }));
    expect(covered(agent.credit(0.8))).toBeCloseTo(0.85);
    expect(covered(started(budget(1000)).credit(0.8))).toBeCloseTo(1.3);
  });

  test('may use all that is left, to the last digit', () => {
    const agent = started(budget(0.3))
      .credit(0.1)
      .credit(0.2)
      .credit(0.1 + 0.2);
    expect(refusal(agent)).toBe('');
    expect(agent.taken[0]).toBeCloseTo(0.3);
    expect(refusal(agent.credit(0.31))).toContain('is spent');
  });

  test('takes nothing when it is covered already, or asks again', () => {
    const agent = started(budget(10)).credit(2);
    const { taken, reply } = agent;
    expect([agent.credit(2).reply, agent.credit(1).reply]).toEqual([reply, reply]);
    expect(agent.taken).toEqual(taken);
  });

  test('pays what a request cost beyond its credit before it gets more', () => {
    const agent = started(budget(10)).credit(9);
    agent.spend(9.75);
    expect(refusal(agent.credit(10.5))).not.toBe('');
    agent.end();
    expect(agent.taken).toEqual([9.75]);
  });

  test('gets nothing of a budget that was lowered below what is spent', () => {
    const agent = started(budget(10)).credit(2).spend(2);
    const [takenUsd = 0] = agent.taken;
    agent.limitedBy(budget(1, { ledger: { startsAt: today, takenUsd } }));
    expect(refusal(agent.credit(3))).toContain('of $1.00 is spent');
    agent.end('PARKED');
    expect(agent.taken[0]).toBeCloseTo(2);
  });

  test('is told to count first when the window has changed, forwards and backwards', () => {
    const agent = started(budget(10)).credit(1);
    for (const now of ['2026-03-02T00:00:01.000Z', '2026-02-28T23:59:59.000Z'])
      expect(agent.at(now).credit(2).refusal.details).toMatchObject([{ reason: 'NOT_COUNTED' }]);
    expect(covered(agent.at('2026-03-01T23:59:59.000Z').credit(2))).toBeGreaterThanOrEqual(2);
  });

  test('is refused when its run has ended, and what it did not spend is returned once', () => {
    const agent = started(budget(10)).credit(5).spend(1).end();
    expect(agent.taken).toEqual([1]);
    expect(agent.credit(6).refused).toBe('ABORTED');
    expect(agent.end().refused).toBe('ABORTED');
    expect(agent.taken).toEqual([1]);
  });
});

test.each(['COMPLETED', 'FAILED', 'LOST', 'HANDED_BACK', 'INTERRUPTED'] as const)(
  'a run that ends as %s returns what it did not spend, in each budget what it was covered for there',
  (outcome) => {
    const agent = started(budget(10)).credit(2).spend(1);
    const [first = 0] = agent.taken;
    // This one holds since then: only what the run reserves from now on is taken of it.
    agent.limitedBy(
      budget(10, { ledger: { startsAt: today, takenUsd: first } }),
      budget(5, { key: 'budget/new', ledger: { startsAt: today, takenUsd: 1 } }),
    );
    agent.credit(4).spend(0.5).end(outcome);
    expect(agent.taken.map((usd) => usd?.toFixed(6))).toEqual(['1.500000', '1.500000']);
  },
);

describe('a model without a price', () => {
  test('is refused, also beside a budget that allows it', () => {
    const allowing = budget(10, { document: { amountUsd: 10, window: 'day', unpriced: 'allow' } });
    expect(refusal(started(allowing).credit(0, 'new'))).toBe('');
    expect(refusal(started(allowing, budget(10, { key: 'budget/strict' })).credit(0, 'new'))).toContain(
      'price of the model "new"',
    );
  });

  test('is refused too when the budget that allows it is spent', () => {
    const document = { amountUsd: 1, window: 'day', unpriced: 'allow' as const };
    const agent = started(budget(1, { document })).credit(1).spend(1);
    expect(refusal(agent.credit(1, 'new'))).toContain('is spent');
  });
});

test('agents of one batch see what the others have taken', () => {
  const agent = started(budget(1)).credit(0.9);
  const child = agent.child('child').start();
  expect(refusal(child.credit(0.2))).toContain('left');
  agent.end();
  expect(refusal(child.credit(0.2))).toBe('');
});

test('what a lost run turns out to have spent counts in the window in which the run ended', () => {
  const late = (costUsd: number) => ({
    ...{
      type: 'late' as const,
      runner: 'runner',
      pool: 'default',
      runId: 1,
      report: 9,
      parts: [],
      missing: 0,
    },
    usage: { cost: costUsd, inputTokens: 0, cachedInputTokens: 0, outputTokens: 0 },
  });
  const agent = started(budget(10)).credit(5).spend(1).end('LOST');
  expect(agent.taken).toEqual([1]);
  expect(agent.send(late(3)).taken).toEqual([3]);
  const nextDay = '2026-03-02T00:00:00.000Z';
  agent.at('2026-03-02T10:00:00.000Z').limitedBy(budget(10, { ledger: { startsAt: nextDay, takenUsd: 2 } }));
  expect(agent.send(late(4)).taken).toEqual([2]);
});

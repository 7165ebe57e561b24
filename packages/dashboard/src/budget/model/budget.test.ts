import type { BudgetState, Caller } from '@muster/sdk';
import { describe, expect, test } from 'vitest';
import {
  amountsText,
  byUrgency,
  isWarned,
  leftUsd,
  mayRaise,
  partOf,
  scopeText,
  tightest,
} from './budget.ts';

const budget = (fields: Partial<BudgetState> = {}): BudgetState => ({
  ...{ name: 'all', agentId: null, amountUsd: 10, spentUsd: 0, reservedUsd: 0, warnAt: 0.8, waiting: 0 },
  ...{ startsAt: '2026-11-01T00:00:00Z', resetsAt: null, window: 'total', zone: 'UTC' },
  ...{ workspace: '', account: '', ...fields },
});
const agentId = {
  tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' },
  ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
  account: 'ada',
  workspace: 'shop',
  agent: ['build'],
} as const satisfies BudgetState['agentId'];

test.each([
  [{}, '$0 spent, $10.00 left of $10.00'],
  [{ spentUsd: 2, reservedUsd: 0.5 }, '$2.00 spent, $0.50 reserved, $7.50 left of $10.00'],
  [{ spentUsd: 11 }, '$11.00 spent, $0 left of $10.00'],
  [{ amountUsd: 0.3, spentUsd: 0.1 + 0.2 }, '$0.30 spent, $0 left of $0.30'],
])('of %j is shown: %s', (fields, text) => expect(amountsText(budget(fields))).toBe(text));

test('a budget of nothing is used up', () => {
  const nothing = budget({ amountUsd: 0 });
  expect([leftUsd(nothing), partOf(0, nothing)]).toEqual([0, 1]);
});

test('what is reserved counts for the warning', () => {
  expect(isWarned(budget({ spentUsd: 5, reservedUsd: 3 }))).toBe(true);
  expect(isWarned(budget({ spentUsd: 5, reservedUsd: 2.9 }))).toBe(false);
});

test('the most urgent come first: those that agents wait for, then those with the smallest part left', () => {
  const budgets = [
    budget({ name: 'fine' }),
    budget({ name: 'tight', spentUsd: 9 }),
    budget({ name: 'nothing', amountUsd: 0 }),
    budget({ name: 'waited', waiting: 2, spentUsd: 1 }),
  ];
  expect(byUrgency(budgets).map(({ name }) => name)).toEqual(['waited', 'nothing', 'tight', 'fine']);
  expect(tightest(budgets)?.name).toBe('nothing');
});

test.each([
  [{}, 'all agents · in total'],
  [{ window: 'month', workspace: 'shop', account: 'ada' }, 'workspace shop · ada · per month'],
  [{ window: '6h' }, 'all agents · every 6 hours'],
  [{ agentId }, 'with children · in total'],
])('the scope of %j is "%s"', (fields, text) => expect(scopeText(budget(fields))).toBe(text));

describe('a budget is raised', () => {
  const caller = (role: string, account = 'ada') =>
    ({ role, account, ownerProvider: 'PROVIDER_CODEHOST_OAUTH' }) as Caller;

  test('by admins if it is of the catalog', () => {
    const of = (role: string) => mayRaise(caller(role), { agentId: null });
    expect(['operator', 'admin', 'member', 'viewer', 'share'].map(of)).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
  });

  test('by those who may command the agent if it is its own', () => {
    expect(mayRaise(caller('member'), { agentId })).toBe(true);
    expect(mayRaise(caller('member', 'grace'), { agentId })).toBe(false);
    expect(mayRaise(caller('viewer'), { agentId })).toBe(false);
  });
});

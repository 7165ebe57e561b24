import { expect, test } from 'vitest';
import type { Usage } from '../../harness/harness.ts';
import type { NamedAccount } from '../accounts/provider-accounts.ts';
import type { AnswerUsage } from './provider-protocols.ts';
import { UsageReport } from './usage-report.ts';

const tokens = { input: 100, cachedInput: 20, cacheWrite: 0, cacheWrite1h: 0, output: 10 };
const prices = new Map([['known', { input: 1, cachedInput: 1, output: 1 }]]);

function usageOf(model: string, account: Partial<NamedAccount> = {}): Usage {
  const usages: Usage[] = [];
  const report = new UsageReport({
    ...{ name: 'anthropic', models: [], prices },
    listener: { usage: (usage) => void usages.push(usage), item: () => {} },
  });
  const answered: AnswerUsage = { model, tokens, fast: false, tier: undefined, finishReason: undefined };
  report.report(answered, {
    model: '',
    serviceTier: undefined,
    speed: undefined,
    account: { id: 'anthropic/a', ...account } as NamedAccount,
  });
  return usages[0] as Usage;
}

test('says which model and account were used, and whether a subscription pays', () => {
  expect(usageOf('known').parts).toMatchObject([
    { model: 'known', account: 'anthropic/a', inputTokens: 120, unpricedTokens: 0, estimated: false },
  ]);
  expect(usageOf('known', { isSubscription: true }).parts).toMatchObject([{ estimated: true }]);
});

test('counts the tokens of a model without a price apart', () => {
  const { costUsd, parts } = usageOf('new');
  expect(costUsd).toBe(0);
  expect(parts).toMatchObject([{ model: 'new', costUsd: 0, unpricedTokens: 130 }]);
});

test('cuts the name of a model, which an agent may choose', () => {
  expect(usageOf('x'.repeat(1_000)).parts?.[0]?.model).toHaveLength(256);
});

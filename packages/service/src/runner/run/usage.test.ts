import { limits } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import type { Usage } from '../../harness/harness.ts';
import { noUsage, sumOf } from './usage.ts';

const used = (model: string, account: string, times: number): Usage => {
  const amounts = { inputTokens: times, cachedInputTokens: 0, outputTokens: times, costUsd: times / 4 };
  return { ...amounts, parts: [{ ...amounts, model, account, unpricedTokens: 0, estimated: false }] };
};

test('adds up by model and account', () => {
  const sum = [used('m', 'a', 1), used('n', 'a', 2), used('m', 'b', 4), used('m', 'a', 8)].reduce(
    sumOf,
    noUsage,
  );
  expect(sum).toMatchObject({ inputTokens: 15, costUsd: 3.75 });
  expect(sum.parts?.map(({ model, account, inputTokens }) => [model, account, inputTokens])).toEqual([
    ['m', 'a', 9],
    ['n', 'a', 2],
    ['m', 'b', 4],
  ]);
});

test('an agent that names many models does not make reports larger, and everything counts', () => {
  const sum = Array.from({ length: 100 }, (_, i) => used(`m${i}`, 'a', 1)).reduce(sumOf, noUsage);
  expect(sum.inputTokens).toBe(100);
  expect(sum.parts).toHaveLength(limits.usageParts);
});

import { describe, expect, test } from 'vitest';
import { batchReads } from './batch-reads.ts';
import { FairShare, OverloadedError } from './fair-share.ts';

const takeAll = (share: FairShare, tenant: number): number => {
  let taken = 0;
  while (share.take(tenant)) taken += 1;
  return taken;
};

describe('tenants that share places', () => {
  test('get half of them alone, a third each if they are two, and never all', () => {
    expect(takeAll(new FairShare(100), 1)).toBe(50);
    const share = new FairShare(90);
    let isOver = false;
    while (!isOver) isOver = [share.take(1), share.take(2)].every((taken) => !taken);
    expect(takeAll(share, 3)).toBeGreaterThan(10);
  });

  test('get back what they release', () => {
    const share = new FairShare(10);
    const taken = takeAll(share, 1);
    for (let i = 0; i < taken; i += 1) share.release(1);
    expect(takeAll(share, 2)).toBe(taken);
  });
});

describe('batched reads', () => {
  test('are refused beyond their share while a query is slow, and others are not', async () => {
    let answer: () => void = () => {};
    const slow = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const read = batchReads<{ tenant: number; n: number }, number>(
      async (keys) => {
        await slow;
        return keys.map(({ n }) => n);
      },
      { tenantOf: ({ tenant }) => tenant, maxWaiting: 100 },
    );
    const reads = Array.from({ length: 80 }, (_, n) => read({ tenant: 1, n }));
    const refused = Promise.allSettled(reads);
    const other = read({ tenant: 2, n: 7 });
    answer();
    expect(await other).toBe(7);
    const results = await refused;
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(50);
    expect(results.at(-1)).toMatchObject({ status: 'rejected', reason: expect.any(OverloadedError) });
    expect(await read({ tenant: 1, n: 8 })).toBe(8);
  });
});

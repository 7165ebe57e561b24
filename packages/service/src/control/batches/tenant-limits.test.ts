import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { shareQueries } from './shared-queries.ts';
import { FairShare, OverloadedError, TenantTurns } from './tenant-limits.ts';

const takeAll = (share: FairShare, tenant: number): number => {
  let taken = 0;
  while (share.take(tenant)) taken += 1;
  return taken;
};

describe('tenants that share places', () => {
  test('get half of the places if alone, a third each if they are two, and never all', () => {
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
    const read = shareQueries<{ tenant: number; n: number }, number>(
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

  test('of the same id share one value in a query, and each gets its own', async () => {
    const queries: number[][] = [];
    const read = shareQueries<{ n: number }, string>(
      async (keys) => {
        queries.push(keys.map(({ n }) => n));
        return keys.map(({ n }) => `value ${n}`);
      },
      { concurrency: 1, idOf: ({ n }) => n },
    );
    const values = await Promise.all([3, 1, 3, 2, 1].map((n) => read({ n })));
    expect(values).toEqual(['value 3', 'value 1', 'value 3', 'value 2', 'value 1']);
    expect(queries).toEqual([[3, 1, 2]]);
    expect(await read({ n: 3 })).toBe('value 3');
    expect(queries).toHaveLength(2);
  });
});

/** Work that the test ends. */
function controlledWork(turns: TenantTurns) {
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  const start = (tenant: number, name: string): Promise<string> =>
    turns.run(tenant, async () => {
      started.push(name);
      await new Promise<void>((resolve) => ends.set(name, resolve));
      return name;
    });
  const end = async (name: string): Promise<void> => {
    ends.get(name)?.();
    await nextTurn();
  };
  return { started, start, end };
}

test('work of a tenant waits in order behind work of the same tenant only', async () => {
  const { started, start, end } = controlledWork(new TenantTurns(2, 'lists'));
  const all = [start(1, 'a'), start(1, 'b'), start(1, 'c'), start(1, 'd'), start(2, 'of another')];
  expect(started).toEqual(['a', 'b', 'of another']);
  await end('b');
  expect(started).toEqual(['a', 'b', 'of another', 'c']);
  await end('a');
  for (const name of ['c', 'd', 'of another']) await end(name);
  expect(await Promise.all(all)).toEqual(['a', 'b', 'c', 'd', 'of another']);
});

test('work that fails lets the next start, and the queue of a tenant is bounded', async () => {
  const turns = new TenantTurns(1, 'lists');
  const { started, start, end } = controlledWork(turns);
  const failed = turns.run(1, () => Promise.reject(new Error('no')));
  const waiting = Array.from({ length: 1000 }, (_, i) => start(1, String(i)));
  await expect(start(1, 'one too many')).rejects.toThrow(OverloadedError);
  await expect(failed).rejects.toThrow('no');
  await nextTurn();
  for (let i = 0; i < waiting.length; i += 1) await end(String(i));
  expect(await Promise.all(waiting)).toEqual(started);
});

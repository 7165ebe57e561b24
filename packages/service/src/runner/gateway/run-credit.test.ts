import { type MusterClient, MusterError } from '@muster/sdk';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { FakeBudget, spent } from '../../../../../test/support/credit.ts';
import type { Reservation } from '../../harness/harness.ts';
import { silentLog } from '../../lib/log.ts';
import { askCredit, RunCredit } from './run-credit.ts';

const never = new AbortController().signal;

function creditOf(amountUsd: number) {
  const budget = new FakeBudget(amountUsd);
  const credit = new RunCredit(budget.ask);
  return {
    budget,
    credit,
    reserve: (usd: number | undefined, signal = never, model = 'm') => credit.reserve(usd, model, signal),
    granted: async (usd: number): Promise<Reservation> => {
      const reserved = await credit.reserve(usd, 'm', never);
      if (!reserved || 'refusal' in reserved) throw new Error(`not granted: ${JSON.stringify(reserved)}`);
      return reserved;
    },
    upTo: () => budget.asked.map(({ upToUsd }) => Number(upToUsd.toFixed(6))),
  };
}

afterEach(() => void vi.useRealTimers());

describe('the credit of a run', () => {
  it('covers what it has cost and what is in progress', async () => {
    const { granted, upTo } = creditOf(10);
    const first = await granted(2);
    await granted(3);
    first.settle(0.5);
    await granted(1);
    await granted(1);
    expect(upTo()).toEqual([2, 5, 5.5]);
    // 0.5 settled, 5 reserved; the last one needed 0.5 more than the 5 that were covered.
  });

  it('is asked for only when what is covered does not suffice', async () => {
    const { budget, granted, upTo } = creditOf(10);
    budget.spareUsd = 1;
    for (let i = 0; i < 10; i++) (await granted(1)).settle(0.1);
    expect(upTo()).toEqual([1]);
  });

  it('returns what a request that cost nothing had reserved', async () => {
    const { granted, upTo } = creditOf(1);
    for (let i = 0; i < 100; i++) (await granted(1)).settle(0);
    expect(upTo()).toEqual([1]);
  });

  it('counts each reservation once, and what was not reserved', async () => {
    const { credit, granted, upTo } = creditOf(10);
    const first = await granted(1);
    first.settle(0.25);
    first.settle(5);
    credit.spent(0.5);
    await granted(1);
    expect(upTo()).toEqual([1, 1.75]);
  });

  it('counts a request that cost more than was reserved', async () => {
    const { granted, reserve } = creditOf(1);
    (await granted(0.5)).settle(2);
    expect(await reserve(0.1)).toEqual({ refusal: spent });
  });

  it('is asked for by one request at a time; the others use its answer', async () => {
    const { budget, granted, upTo } = creditOf(100);
    budget.spareUsd = 3;
    let active = 0;
    let most = 0;
    budget.before = async () => {
      active += 1;
      most = Math.max(most, active);
      await Promise.resolve();
      active -= 1;
    };
    await Promise.all(Array.from({ length: 8 }, () => granted(1)));
    expect(most).toBe(1);
    expect(upTo()).toEqual([1, 5]);
  });

  it('is never exceeded by requests at the same time', async () => {
    const { reserve } = creditOf(3.5);
    const replies = await Promise.all(Array.from({ length: 32 }, () => reserve(1)));
    expect(replies.filter((reply) => reply && 'settle' in reply)).toHaveLength(3);
    expect(replies.filter((reply) => reply && 'refusal' in reply)).toHaveLength(29);
  });

  it('stays refused once it was, whatever is settled then', async () => {
    const { budget, granted, reserve } = creditOf(1);
    const first = await granted(1);
    expect(await reserve(0.1)).toEqual({ refusal: spent });
    first.settle(0);
    expect(await reserve(0.001)).toEqual({ refusal: spent });
    expect(budget.asked).toHaveLength(2);
  });

  it('is not asked for while no budget is above the agent, for 30 seconds', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    let unlimited = true;
    let asked = 0;
    const credit = new RunCredit(async () => {
      asked += 1;
      return { coveredUsd: 0, unlimited, refusal: unlimited ? '' : spent };
    });
    for (const usd of [1, 1e12, undefined])
      expect(await credit.reserve(usd, 'm', never)).toHaveProperty('settle');
    expect(asked).toBe(1);
    unlimited = false;
    vi.setSystemTime(Date.now() + 29_000);
    expect(await credit.reserve(1, 'm', never)).toHaveProperty('settle');
    vi.setSystemTime(Date.now() + 2_000);
    expect(await credit.reserve(1, 'm', never)).toEqual({ refusal: spent });
  });

  it('counts what was reserved while there was no budget', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const asked: number[] = [];
    const credit = new RunCredit(async ({ upToUsd }) => {
      asked.push(upToUsd);
      return { coveredUsd: upToUsd, unlimited: asked.length === 1, refusal: '' };
    });
    await credit.reserve(3, 'm', never);
    credit.spent(4);
    vi.setSystemTime(Date.now() + 31_000);
    await credit.reserve(2, 'm', never);
    expect(asked).toEqual([3, 9]);
  });

  it('is refused to a model without a price, unless the budget allows that', async () => {
    const { budget, reserve } = creditOf(10);
    budget.allowsUnpriced = true;
    expect(await reserve(undefined, never, 'new')).toHaveProperty('settle');
    expect(await reserve(undefined, never, 'new')).toHaveProperty('settle');
    expect(budget.asked).toEqual([{ upToUsd: 0, unpricedModel: 'new' }]);
    budget.allowsUnpriced = false;
    expect(await reserve(undefined, never, 'x'.repeat(1_000))).toEqual({
      refusal: `${'x'.repeat(256)} has no price`,
    });
  });

  it('is asked for with an amount that the service accepts, however absurd it is', async () => {
    const { reserve, upTo } = creditOf(10);
    expect(await reserve(Number.POSITIVE_INFINITY)).toEqual({ refusal: spent });
    expect(upTo()).toEqual([1e9]);
  });
});

describe('without an answer of the service', () => {
  it('a request waits, and asks again for the same amount', async () => {
    const { budget, granted, upTo } = creditOf(10);
    let failures = 3;
    budget.before = () => {
      failures -= 1;
      if (failures >= 0) throw new Error('the reply was lost');
    };
    await granted(2);
    expect(upTo()).toEqual([2, 2, 2, 2]);
    await granted(1);
    expect(upTo().at(-1)).toBe(3);
  });

  it('a request gives up when its client leaves; the one behind it asks for itself', async () => {
    const { budget, reserve, upTo } = creditOf(10);
    budget.before = (signal) => new Promise((_, reject) => signal.addEventListener('abort', reject));
    const client = new AbortController();
    const first = reserve(9, client.signal);
    const second = reserve(2);
    const third = new AbortController();
    const leaving = reserve(3, third.signal);
    third.abort();
    expect(await leaving).toBeUndefined();
    budget.before = () => {};
    client.abort();
    expect(await first).toBeUndefined();
    expect(await second).toHaveProperty('settle');
    expect(upTo()).toEqual([9, 2]);
  });

  it('nothing is granted, even if the answer covers less than was asked for', async () => {
    let asked = 0;
    const credit = new RunCredit(async () => {
      asked += 1;
      return { coveredUsd: asked < 3 ? 0.5 : 1, unlimited: false, refusal: '' };
    });
    expect(await credit.reserve(1, 'm', never)).toHaveProperty('settle');
    expect(asked).toBe(3);
  });

  it('a request whose client has left asks nothing', async () => {
    const { budget, reserve } = creditOf(10);
    expect(await reserve(1, AbortSignal.abort())).toBeUndefined();
    expect(budget.asked).toEqual([]);
  });
});

describe('the service', () => {
  const asking = (status: number, text: string) => {
    const call = () => Promise.reject(new MusterError(status, { message: text }));
    const client = { call } as unknown as MusterClient;
    return askCredit({ client, runnerId: 'r', log: silentLog }, { agentKey: 'a', runId: 1 });
  };

  it('of an earlier version has no budgets', async () => {
    const ask = asking(404, 'there is nothing at /v1/runner/credit');
    expect(await ask({ upToUsd: 1 }, never)).toMatchObject({ unlimited: true });
  });

  it.each([404, 409, 400, 503])('that answers %d grants nothing', async (status) => {
    await expect(asking(status, 'no')({ upToUsd: 1 }, never)).rejects.toThrow('no');
  });
});

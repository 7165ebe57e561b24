import { describe, expect, it } from 'vitest';
import { HostError } from './host-error.ts';
import { Limiter } from './limiter.ts';

const limited = (retryAfterMs: number): HostError => new HostError('limited', 429, 'slow down', retryAfterMs);

const rejected = (call: Promise<unknown>): Promise<HostError> =>
  call.then(
    () => Promise.reject(new Error('the call was not rejected')),
    (error: HostError) => error,
  );

/** A call that ends when the test wants it to. */
function openCall(): { readonly call: () => Promise<void>; readonly end: () => void } {
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  return { call: () => ended, end };
}

describe('a limiter', () => {
  it('runs calls in order, and a limited number at the same time', async () => {
    const limiter = new Limiter({ concurrency: 2 });
    const started: number[] = [];
    const calls = [openCall(), openCall(), openCall(), openCall()];
    const running = calls.map(({ call }, index) =>
      limiter.run(false, () => {
        started.push(index);
        return call();
      }),
    );
    await new Promise(setImmediate);
    expect(started).toEqual([0, 1]);
    calls[1]?.end();
    await running[1];
    await new Promise(setImmediate);
    expect(started).toEqual([0, 1, 2]);
    for (const { end } of calls) end();
    await Promise.all(running);
    expect(started).toEqual([0, 1, 2, 3]);
  });

  it('refuses calls when too many wait', async () => {
    const limiter = new Limiter({ concurrency: 1, mostWaiting: 1 });
    const { call, end } = openCall();
    const running = [limiter.run(false, call), limiter.run(false, call)];
    expect(await rejected(limiter.run(false, call))).toMatchObject({ kind: 'limited', status: 0 });
    end();
    await Promise.all(running);
  });

  it('makes no call while the host asked to wait, and says how long it is', async () => {
    const limiter = new Limiter();
    await rejected(limiter.run(false, () => Promise.reject(limited(3_600_000))));
    const error = await rejected(limiter.run(false, () => Promise.reject(new Error('it was called'))));
    expect(error).toMatchObject({ kind: 'limited', status: 0 });
    expect(error.retryAfterMs).toBeGreaterThan(3_000_000);
    expect(error.retryAfterMs).toBeLessThanOrEqual(3_600_000);
  });

  it('waits for a short pause', async () => {
    const limiter = new Limiter();
    await rejected(limiter.run(false, () => Promise.reject(limited(20))));
    expect(await limiter.run(false, async () => 'done')).toBe('done');
  });

  it('waits longer each time when the host does not say how long', async () => {
    const limiter = new Limiter();
    expect(limiter.heed(limited(0))).toMatchObject({ retryAfterMs: 60_000 });
    // Of a call that was under way at the same time.
    expect((limiter.heed(limited(0)) as HostError).retryAfterMs).toBeLessThanOrEqual(60_000);
  });

  it('spaces writes after a burst, and lets reads pass', async () => {
    const limiter = new Limiter({ writeBurst: 2, writeSpacingMs: 60_000 });
    const done = async (): Promise<string> => 'done';
    expect(await limiter.run(true, done)).toBe('done');
    expect(await limiter.run(true, done)).toBe('done');
    const error = await rejected(limiter.run(true, done));
    expect(error).toMatchObject({ kind: 'limited' });
    expect(error.retryAfterMs).toBeLessThanOrEqual(60_000);
    expect(await limiter.run(false, done)).toBe('done');
  });

  it('frees the place of a call that failed', async () => {
    const limiter = new Limiter({ concurrency: 1 });
    await rejected(limiter.run(false, () => Promise.reject(new HostError('refused', 404, 'no'))));
    expect(await limiter.run(false, async () => 'done')).toBe('done');
  });
});

import { expect, test } from 'vitest';
import { ConnectionError, errorOf } from './errors.ts';
import { defaultRetries, delayMs, isPassing, mayHaveActed, pause, persist } from './persistence.ts';
import { retryAfterMs } from './retry-after.ts';

const limits = { ...defaultRetries, firstDelayMs: 1, longestDelayMs: 2 };
const unsent = new ConnectionError('refused', { isUnsent: true });
const lost = new ConnectionError('cut');

/** Fails with these in turn, then answers with how often it was asked. */
const failing = (...errors: Error[]) => {
  let asked = 0;
  return async (mayHaveHappened: boolean) => {
    asked += 1;
    const error = errors[asked - 1];
    if (error) throw error;
    return { asked, mayHaveHappened };
  };
};

test('Retry-After is read in seconds and as a date', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  expect(retryAfterMs('3', now)).toBe(3000);
  expect(retryAfterMs('Thu, 01 Jan 2026 00:00:05 GMT', now)).toBe(5000);
  expect(retryAfterMs('Thu, 01 Jan 2025 00:00:00 GMT', now)).toBe(0);
  for (const nothing of [null, '', 'soon']) expect(retryAfterMs(nothing, now)).toBeUndefined();
});

test('the delay is anything up to a bound that doubles, and never less than Retry-After', () => {
  for (let failures = 1; failures < 12; failures++) {
    const delay = delayMs(failures, defaultRetries);
    expect(delay).toBeGreaterThanOrEqual(0);
    expect(delay).toBeLessThanOrEqual(Math.min(5000, 200 * 2 ** (failures - 1)));
    expect(delayMs(failures, defaultRetries, errorOf(503, {}, 7000))).toBeGreaterThanOrEqual(7000);
  }
});

test('what passes is told from what is refused, and what may have acted from what has not', () => {
  for (const status of [408, 429, 502, 503, 504])
    expect(isPassing(errorOf(status, {})), `${status}`).toBe(true);
  for (const status of [400, 401, 403, 404, 409, 500, 501])
    expect(isPassing(errorOf(status, {})), `${status}`).toBe(false);
  expect([unsent, lost, errorOf(429, {}), errorOf(503, {})].map(mayHaveActed)).toEqual([
    false,
    true,
    false,
    true,
  ]);
});

test('what is safe is tried again, and learns that it may have happened', async () => {
  const safe = { operation: 'x', isSafe: true, limits };
  expect(await persist(safe, failing(unsent, errorOf(429, {})))).toEqual({
    asked: 3,
    mayHaveHappened: false,
  });
  expect(await persist(safe, failing(unsent, lost))).toEqual({ asked: 3, mayHaveHappened: true });
});

test('what is not safe is tried again only if it surely did nothing', async () => {
  const unsafe = { operation: 'x', isSafe: false, limits };
  expect(await persist(unsafe, failing(unsent, errorOf(429, {})))).toMatchObject({ asked: 3 });
  await expect(persist(unsafe, failing(lost))).rejects.toBe(lost);
  await expect(persist(unsafe, failing(errorOf(503, {})))).rejects.toMatchObject({ httpStatus: 503 });
});

test('tries and time are bounded', async () => {
  const many = Array.from({ length: 20 }, () => lost);
  let retries = 0;
  const counted = { operation: 'x', isSafe: true, limits, onRetry: () => retries++ };
  await expect(persist(counted, failing(...many))).rejects.toBe(lost);
  expect(retries).toBe(limits.tries - 1);
  const late = errorOf(503, {}, 60_000);
  await expect(persist(counted, failing(late))).rejects.toBe(late);
});

test('an abort ends the pause between tries', async () => {
  const abort = new AbortController();
  const waiting = persist(
    {
      operation: 'x',
      isSafe: true,
      limits: { ...limits, withinMs: 1e9 },
      signal: abort.signal,
      onRetry: () => abort.abort(new Error('enough')),
    },
    failing(errorOf(503, {}, 1e8)),
  );
  await expect(waiting).rejects.toThrow('enough');
  await expect(pause(1e8, abort.signal)).rejects.toThrow('enough');
});

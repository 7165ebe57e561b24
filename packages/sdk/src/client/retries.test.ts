import { expect, test } from 'vitest';
import { ConnectionError, errorOf, parseRetryAfter } from './errors.ts';
import { defaultRetries, delayMs, isTransient, mayHaveActed, pause, withRetries } from './retries.ts';

const limits = { ...defaultRetries, firstDelayMs: 1, longestDelayMs: 2 };
const unsent = new ConnectionError('refused', { isUnsent: true });
const lost = new ConnectionError('cut');

/** Fails with these errors in turn, then returns how often it was called. */
const failing = (...errors: Error[]) => {
  let calls = 0;
  return async (mayBeRepeated: boolean) => {
    calls += 1;
    const error = errors[calls - 1];
    if (error) throw error;
    return { calls, mayBeRepeated };
  };
};

test('Retry-After is parsed as seconds and as a date', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  expect(parseRetryAfter('3', now)).toBe(3000);
  expect(parseRetryAfter('Thu, 01 Jan 2026 00:00:05 GMT', now)).toBe(5000);
  expect(parseRetryAfter('Thu, 01 Jan 2025 00:00:00 GMT', now)).toBe(0);
  for (const nothing of [null, '', 'soon']) expect(parseRetryAfter(nothing, now)).toBeUndefined();
});

test('the delay is random up to a bound that doubles, and never less than Retry-After', () => {
  for (let failures = 1; failures < 12; failures++) {
    const delay = delayMs(failures, defaultRetries);
    expect(delay).toBeGreaterThanOrEqual(0);
    expect(delay).toBeLessThanOrEqual(Math.min(5000, 200 * 2 ** (failures - 1)));
    expect(delayMs(failures, defaultRetries, errorOf(503, {}, 7000))).toBeGreaterThanOrEqual(7000);
  }
});

test('distinguishes transient errors from refusals, and requests that may have acted from those that have not', () => {
  for (const status of [408, 429, 502, 503, 504])
    expect(isTransient(errorOf(status, {})), `${status}`).toBe(true);
  for (const status of [400, 401, 403, 404, 409, 500, 501])
    expect(isTransient(errorOf(status, {})), `${status}`).toBe(false);
  expect([unsent, lost, errorOf(429, {}), errorOf(503, {})].map(mayHaveActed)).toEqual([
    false,
    true,
    false,
    true,
  ]);
});

test('a safe request is retried, and each try learns whether an earlier one may have acted', async () => {
  const safe = { operation: 'x', isSafe: true, limits };
  expect(await withRetries(safe, failing(unsent, errorOf(429, {})))).toEqual({
    calls: 3,
    mayBeRepeated: false,
  });
  expect(await withRetries(safe, failing(unsent, lost))).toEqual({ calls: 3, mayBeRepeated: true });
});

test('an unsafe request is retried only if it surely had no effect', async () => {
  const unsafe = { operation: 'x', isSafe: false, limits };
  expect(await withRetries(unsafe, failing(unsent, errorOf(429, {})))).toMatchObject({ calls: 3 });
  await expect(withRetries(unsafe, failing(lost))).rejects.toBe(lost);
  await expect(withRetries(unsafe, failing(errorOf(503, {})))).rejects.toMatchObject({ httpStatus: 503 });
});

test('tries and time are limited', async () => {
  const many = Array.from({ length: 20 }, () => lost);
  let retries = 0;
  const counted = { operation: 'x', isSafe: true, limits, onRetry: () => retries++ };
  await expect(withRetries(counted, failing(...many))).rejects.toBe(lost);
  expect(retries).toBe(limits.tries - 1);
  const late = errorOf(503, {}, 60_000);
  await expect(withRetries(counted, failing(late))).rejects.toBe(late);
});

test('an abort ends the pause between tries', async () => {
  const abort = new AbortController();
  const waiting = withRetries(
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

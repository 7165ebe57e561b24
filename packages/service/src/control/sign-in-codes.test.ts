import { limits } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { SignInCodes } from './sign-in-codes.ts';

const minuteMs = 60_000;
const startMs = Date.parse('2026-01-31T09:00:00Z');

/** Codes whose time the test tells. */
function codesAt() {
  const clock = { nowMs: startMs };
  return { clock, codes: new SignInCodes(() => clock.nowMs) };
}

test('a code gives its key once', () => {
  const { codes } = codesAt();
  const { code } = codes.make('key');
  expect(codes.take(code)).toBe('key');
  expect(codes.take(code)).toBeNull();
});

test('each code is another, of at least 160 random bits, and says nothing of its key', () => {
  const { codes } = codesAt();
  const made = Array.from({ length: 10 }, () => codes.make('key').code);
  expect(new Set(made).size).toBe(10);
  for (const code of made) {
    expect(code).toMatch(/^[\w-]+$/);
    expect(Buffer.from(code, 'base64url').length * 8).toBeGreaterThanOrEqual(160);
  }
});

test('what was never made gives nothing, nor does a part of a code', () => {
  const { codes } = codesAt();
  const { code } = codes.make('key');
  for (const guess of ['', code.slice(1), code.slice(0, -1), `${code}x`, code.toUpperCase()])
    expect(codes.take(guess)).toBeNull();
  expect(codes.take(code)).toBe('key');
});

test('a code expires when it says so', () => {
  const { clock, codes } = codesAt();
  const first = codes.make('key');
  const second = codes.make('key');
  expect(Date.parse(first.expiresAt)).toBe(startMs + limits.signInCodeMinutes * minuteMs);
  clock.nowMs = Date.parse(first.expiresAt) - 1;
  expect(codes.take(first.code)).toBe('key');
  clock.nowMs = Date.parse(second.expiresAt);
  expect(codes.take(second.code)).toBeNull();
});

test('a code may be given longer', () => {
  const { clock, codes } = codesAt();
  const { code, expiresAt } = codes.make('key', 60);
  expect(Date.parse(expiresAt)).toBe(startMs + 60 * minuteMs);
  clock.nowMs = startMs + 59 * minuteMs;
  codes.make('key');
  expect(codes.take(code)).toBe('key');
});

test('of one key too many, the oldest goes, and no code of another key', () => {
  const { codes } = codesAt();
  const other = codes.make('other');
  const made = Array.from({ length: limits.signInCodesPerKey + 2 }, () => codes.make('key'));
  expect(made.slice(0, 2).map(({ code }) => codes.take(code))).toEqual([null, null]);
  for (const { code } of made.slice(2)) expect(codes.take(code)).toBe('key');
  expect(codes.take(other.code)).toBe('other');
});

test('a code that was used or has expired makes room', () => {
  const { clock, codes } = codesAt();
  const kept = codes.make('key', 60);
  const used = codes.make('key');
  codes.take(used.code);
  for (let i = 0; i < limits.signInCodesPerKey - 1; i++) codes.make('key');
  clock.nowMs += limits.signInCodeMinutes * minuteMs;
  for (let i = 0; i < limits.signInCodesPerKey - 1; i++) codes.make('key');
  expect(codes.take(kept.code)).toBe('key');
});

test('of all keys together too many, the oldest goes', () => {
  const { codes } = codesAt();
  const perKey = limits.signInCodesPerKey;
  const made = Array.from({ length: limits.signInCodesPerNode + 1 }, (_, i) =>
    codes.make(`key ${Math.floor(i / perKey)}`),
  );
  expect(codes.take(made[0]?.code ?? '')).toBeNull();
  expect(codes.take(made[1]?.code ?? '')).toBe('key 0');
  expect(codes.take(made.at(-1)?.code ?? '')).toBe(`key ${limits.signInCodesPerNode / perKey}`);
});

import { expect, it } from 'vitest';
import { callsPerHour, hourMs, pausedMs, spentUntilMs, waitBeforeMs } from './comparison-budget.ts';

const active = { paused: false };

it('comparisons of one change request make at most so many calls an hour, after a burst', () => {
  const calls = 20;
  let told = {};
  let made = 0;
  for (let nowMs = 0; nowMs < 10 * hourMs; nowMs += 1_000) {
    if (waitBeforeMs({ paused: false, asked: 1, told }, active, nowMs) > 0) continue;
    told = { spentUntilMs: spentUntilMs(told, calls, nowMs) };
    made += calls;
  }
  expect(made / 10).toBeLessThanOrEqual(callsPerHour * 1.1);
  expect(made / 10).toBeGreaterThan(callsPerHour * 0.9);
});

it('the host of a paused change request is asked once an hour, and when something happened to it', () => {
  let told = { asked: 1, comparedMs: 0 };
  let compared = 0;
  for (let nowMs = 0; nowMs <= 10 * hourMs; nowMs += pausedMs) {
    if (waitBeforeMs({ paused: true, asked: 1, told }, active, nowMs) > 0) continue;
    told = { asked: 1, comparedMs: nowMs };
    compared += 1;
  }
  expect(compared).toBe(10);
  expect(waitBeforeMs({ paused: true, asked: 2, told }, active, told.comparedMs + 1)).toBe(0);
  expect(waitBeforeMs({ paused: false, asked: 2, told }, { paused: true }, hourMs * 100)).toBeGreaterThan(0);
});

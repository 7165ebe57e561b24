import { expect, test } from 'vitest';
import { restartDelayMs } from './service-process.ts';

/** The delays before each restart of a worker that lives so long each time. */
const delays = (...livedMs: number[]): number[] => {
  let before = 0;
  return livedMs.map((lived) => {
    before = restartDelayMs(before, lived);
    return before;
  });
};

test('a worker that dies again and again is restarted after longer delays, up to ten seconds', () => {
  expect(delays(0, 10, 500, 0, 0, 0, 0, 0, 0)).toEqual([
    100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000,
  ]);
});

test('a worker that lived for a minute is restarted soon', () => {
  expect(delays(0, 0, 60_000, 0)).toEqual([100, 200, 100, 200]);
});

import type { UsageRow } from '@muster/sdk';
import { describe, expect, test } from 'vitest';
import { arrange, labelled, maxSeries, shareText, ticksUpTo, tickText } from './arrange.ts';

const row = (workspace: string, costUsd: number, start = '2026-11-01T00:00:00Z'): UsageRow => ({
  ...{ start, keys: { workspace }, costUsd, estimated: false, runs: 1, agents: 1 },
  ...{ inputTokens: '10', cachedInputTokens: '0', outputTokens: '1', unpricedTokens: '0' },
});
const days = [1, 2, 3].map((day) => new Date(Date.UTC(2026, 10, day)));
const names = (count: number) => Array.from({ length: count }, (_, i) => `w${i}`);

describe('groups', () => {
  test('are in the order of their cost, the most tokens first if that is equal', () => {
    const busy = { ...row('busy', 1), inputTokens: '20' };
    const { groups } = arrange([], [row('a', 1), row('b', 2), busy], 'workspace', days);
    expect(groups.map(({ value }) => value)).toEqual(['b', 'busy', 'a']);
  });

  test('have a colour of their own up to a number, and are one group beyond it', () => {
    const totals = names(maxSeries + 3).map((name, i) => row(name, 100 - i));
    const rows = totals.map((total) => ({ ...total, start: days[1]?.toISOString() ?? '' }));
    const { groups, series, otherUsd, bars } = arrange(rows, totals, 'workspace', days);
    expect(series).toHaveLength(maxSeries);
    expect(groups.slice(maxSeries).map((group) => group.series)).toEqual(['other', 'other', 'other']);
    expect(otherUsd).toBe(94 + 93 + 92);
    expect(bars[1]?.costs).toEqual([100, 99, 98, 97, 96, 95, 279]);
  });

  test('never leave a single one behind the name "other"', () => {
    const totals = names(maxSeries + 1).map((name) => row(name, 1));
    expect(arrange([], totals, 'workspace', days)).toMatchObject({
      otherUsd: null,
      series: totals.map(() => ({})),
    });
  });
});

test('bars add up what begins in them, have the sums of their groups, and exist without usage', () => {
  const rows = [
    row('a', 1, '2026-11-01T00:00:00Z'),
    row('a', 2, '2026-11-03T00:00:00Z'),
    row('b', 4, '2026-11-03T00:00:00Z'),
    // An hour that the service rounded down to lies before the first bar.
    row('b', 8, '2026-10-31T23:30:00Z'),
  ];
  const { bars, ticks } = arrange(rows, [row('b', 12), row('a', 3)], 'workspace', days);
  expect(bars.map(({ costUsd }) => costUsd)).toEqual([9, 0, 6]);
  expect(bars.map(({ costs }) => costs)).toEqual([
    [8, 1, 0],
    [0, 0, 0],
    [4, 2, 0],
  ]);
  expect(ticks).toEqual([0, 5, 10]);
});

test.each([
  [0, [0]],
  [0.003, [0, 0.001, 0.002, 0.003]],
  [1, [0, 0.5, 1]],
  [343, [0, 100, 200, 300, 400]],
  [8200, [0, 5000, 10_000]],
])('the axis up to %d dollars has the ticks %j', (max, expected) => {
  const ticks = ticksUpTo(max);
  expect(ticks).toHaveLength(expected.length);
  for (const [i, tick] of ticks.entries()) expect(tick).toBeCloseTo(expected[i] ?? Number.NaN);
});

test.each([
  [0, '$0'],
  [0.005, '$0.005'],
  [2500, '$2.5K'],
])('the tick at %d dollars is %s', (usd, text) => expect(tickText(usd)).toBe(text));

test.each([
  [1, 3, '33%'],
  [1, 1000, '<1%'],
  [0, 3, '–'],
  [0, 0, '–'],
])('the share of %d of %d is %s', (part, whole, text) => expect(shareText(part, whole)).toBe(text));

test('labels have equal distances and fit', () => {
  expect(labelled(3, 5)).toEqual([0, 1, 2]);
  expect(labelled(7, 5)).toEqual([1, 3, 5]);
  expect(labelled(90, 5)).toHaveLength(5);
});

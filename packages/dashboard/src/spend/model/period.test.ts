import { describe, expect, test } from 'vitest';
import { periodNames, periodUntil, spendUrl, spendViewOf } from './period.ts';

const now = new Date(2026, 10, 19, 13, 45, 10);

describe('a period', () => {
  test.each([
    ['24h', 24, new Date(2026, 10, 18, 14), new Date(2026, 10, 19, 13)],
    ['7d', 7, new Date(2026, 10, 13), new Date(2026, 10, 19)],
    ['30d', 30, new Date(2026, 9, 21), new Date(2026, 10, 19)],
    ['90d', 90, new Date(2026, 7, 22), new Date(2026, 10, 19)],
    ['month', 19, new Date(2026, 10, 1), new Date(2026, 10, 19)],
    ['12mo', 12, new Date(2025, 11, 1), new Date(2026, 10, 1)],
  ] as const)('%s has %d bars', (name, count, first, last) => {
    const { starts } = periodUntil(name, now);
    expect([starts.length, starts[0], starts.at(-1)]).toEqual([count, first, last]);
  });

  test('has bars that begin one after the other, at the beginning of a local hour, day or month', () => {
    // The months of the year have all changes of the clock.
    for (let month = 0; month < 12; month += 1)
      for (const name of periodNames) {
        const { starts } = periodUntil(name, new Date(2026, month, 28, 1, 30));
        expect(starts).toEqual(starts.toSorted((a, b) => a.getTime() - b.getTime()));
        expect(starts.every((start) => start.getMinutes() === 0 && start.getSeconds() === 0)).toBe(true);
      }
  });
});

describe('the address', () => {
  test.each([
    ['/spend', { period: '30d', by: 'workspace', top: 'agent' }],
    ['/spend?period=7d&by=label:team&top=root', { period: '7d', by: 'label:team', top: 'root' }],
  ] as const)('%s is written and read', (url, view) => {
    expect(spendUrl(view)).toBe(url);
    expect(spendViewOf(url.split('?')[1] ?? '')).toEqual(view);
  });

  test('with unknown values is the default', () => {
    expect(spendUrl(spendViewOf('period=2y&by=moon&top=all'))).toBe('/spend');
  });
});

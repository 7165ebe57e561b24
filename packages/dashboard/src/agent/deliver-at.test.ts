import { expect, it } from 'vitest';
import { localMinute, quickTimes } from './deliver-at.ts';

const now = new Date(2030, 11, 31, 23, 55, 20);
const chosen = (words: string): string => {
  const [, of] = quickTimes.find(([name]) => name === words) ?? [];
  return of ? localMinute(of(now)) : '';
};

it('writes a time as an input takes it, never an earlier one', () => {
  expect(localMinute(new Date(2030, 0, 2, 3, 4))).toBe('2030-01-02T03:04');
  expect(localMinute(new Date(2030, 0, 2, 3, 4, 1))).toBe('2030-01-02T03:05');
});

it('knows the times that one often means, across the end of a year too', () => {
  expect(chosen('In 10 minutes')).toBe('2031-01-01T00:06');
  expect(chosen('In 1 hour')).toBe('2031-01-01T00:56');
  expect(chosen('Tomorrow 9:00')).toBe('2031-01-01T09:00');
});

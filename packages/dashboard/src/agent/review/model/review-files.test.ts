import { expect, test } from 'vitest';
import { changeStops, fileStops, nextStop, reviewFiles } from './review-files.ts';

const file = (path: string, text: string) =>
  ({ repo: '', path, oldPath: '', change: 'changed', insertions: 1, deletions: 0, text }) as const;
const files = reviewFiles(
  [file('a', '@@ -1,3 +1,4 @@\n+x\n a\n+y'), file('b', ''), file('c', '@@ -1 +1 @@\n-a\n+b')],
  false,
);
const places = (stops: ReturnType<typeof changeStops>) => stops.map((stop) => `${stop.file}:${stop.line}`);

test('changes, and files, follow each other and begin again after the last one', () => {
  const stops = changeStops(files);
  expect(places(stops)).toEqual(['0:1', '0:3', '2:1']);
  const [first, second, last] = stops;
  expect(nextStop(stops, null, 1)).toBe(first);
  expect(nextStop(stops, first ?? null, 1)).toBe(second);
  expect(nextStop(stops, { file: 1, line: -1, thread: '' }, 1)).toBe(last);
  expect(nextStop(stops, last ?? null, 1)).toBe(first);
  expect(nextStop(stops, { file: 0, line: 2, thread: '' }, -1)).toBe(first);
  expect(nextStop([], null, 1)).toBeUndefined();
  expect(places(fileStops(files))).toEqual(['0:-1', '1:-1', '2:-1']);
});

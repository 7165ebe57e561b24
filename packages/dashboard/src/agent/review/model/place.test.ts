import { expect, test } from 'vitest';
import { diffLinesOf } from './diff-lines.ts';
import { fileAt, lineAt, placeIn, placeQuery } from './place.ts';

const file = (path: string, repo: string) =>
  ({ repo, path, oldPath: '', change: 'changed', insertions: 0, deletions: 0, text: '' }) as const;

test('an address leads to a thread, a file or a line, and back', () => {
  const place = { thread: '', repo: 'https://git/x', path: 'a b/ü&.ts', side: 'OLD', line: 12 } as const;
  expect(placeIn(new URLSearchParams(placeQuery(place)))).toEqual(place);
  expect(placeQuery({ thread: 't1', changes: 'working-tree' })).toBe('?changes=working-tree&thread=t1');
  expect(placeQuery({})).toBe('');
  expect(placeIn(new URLSearchParams('line=x&file=a'))).toMatchObject({ path: 'a', line: 0, side: 'NEW' });
});

test('a place is found in the diff', () => {
  const files = [file('a', 'r'), file('b', 'r'), file('b', 's')];
  expect(fileAt(files, { repo: '', path: 'b' })).toBe(1);
  expect(fileAt(files, { repo: 's', path: 'b' })).toBe(2);
  expect(fileAt(files, { repo: '', path: '' })).toBe(-1);
  const lines = diffLinesOf('@@ -3,1 +5,1 @@\n-a\n+b');
  expect(lineAt(lines, { side: 'OLD', line: 3 })).toBe(1);
  expect(lineAt(lines, { side: 'NEW', line: 5 })).toBe(2);
  expect(lineAt(lines, { side: 'NEW', line: 0 })).toBe(-1);
});

import { describe, expect, it } from 'vitest';
import { diffLinesOf } from './diff-lines.ts';
import { changesIn, type DiffRow, rowsOf, unfolded } from './diff-rows.ts';

const same = (from: number, count: number) => Array.from({ length: count }, (_, at) => ` line ${from + at}`);
const lines = diffLinesOf(
  [
    '@@ -1,24 +1,25 @@ f()',
    ...same(1, 20),
    '-old',
    '+new',
    '+more',
    ...same(22, 3),
    '@@ -90,1 +91,1 @@',
    '-a',
    '+b',
  ].join('\n'),
);
const text = (row: DiffRow): string => {
  switch (row.kind) {
    case 'line':
      return String(row.line);
    case 'pair':
      return `${row.left}|${row.right}`;
    case 'fold':
      return `fold ${row.from}-${row.to}`;
    case 'hunk':
      return `hunk ${row.line}`;
  }
};
const rows = (options: Partial<Parameters<typeof rowsOf>[1]> = {}) =>
  rowsOf(lines, { isSplit: false, noted: [], opened: [], ...options });

describe('the rows of a diff', () => {
  it('fold what is far from a change, with the header of the hunk', () => {
    expect(rows().map(text).join(' ')).toBe('fold 1-18 18 19 20 21 22 23 24 25 26 hunk 27 28 29');
    expect(rows()[0]).toMatchObject({ hunk: 0, isAfterLine: false, isBeforeLine: true });
  });

  it('show lines that were unfolded or have notes, and no fold of a single line', () => {
    expect(
      rows({ opened: [{ from: 1, to: 21 }] })
        .map(text)
        .slice(0, 3),
    ).toEqual(['hunk 0', '1', '2']);
    expect(
      rows({ noted: [8] })
        .map(text)
        .slice(0, 10),
    ).toEqual([...['fold 1-5', '5', '6', '7', '8', '9', '10', '11', 'fold 12-18', '18']]);
    expect(rows({ noted: [13] }).map(text)[9]).toBe('18');
  });

  it('have lines that replace others beside them', () => {
    expect(rows({ isSplit: true }).map(text).join(' ')).toBe(
      'fold 1-18 18|18 19|19 20|20 21|22 -1|23 24|24 25|25 26|26 hunk 27 28|29',
    );
  });
});

it('a fold opens at its beginning, its end or as a whole', () => {
  expect(unfolded({ from: 1, to: 60 }, 'first')).toEqual({ from: 1, to: 21 });
  expect(unfolded({ from: 1, to: 60 }, 'last')).toEqual({ from: 40, to: 60 });
  expect(unfolded({ from: 1, to: 60 }, 'all')).toEqual({ from: 1, to: 60 });
});

it('a change begins with its first line', () => {
  expect(changesIn(lines)).toEqual([21, 28]);
});

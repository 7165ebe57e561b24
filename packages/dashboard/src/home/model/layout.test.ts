import { describe, expect, test } from 'vitest';
import { Layout, scrollShift } from './layout.ts';

const sizes = { row: 50, header: 30 };
const layout = (...sections: string[][]) =>
  new Layout(
    sections.map((pages, at) => ({ id: at === 0 ? 'failed' : 'working', pages })),
    sizes,
  );

describe('a layout', () => {
  const two = layout(['a', 'b'], ['c', 'd', 'e']);

  test('positions rows below the header of their section', () => {
    expect(two.rows.map((page) => two.topOf(two.indexOf(page) ?? -1))).toEqual([30, 80, 160, 210, 260]);
    expect(two.sections.map(({ first, top, height }) => ({ first, top, height }))).toEqual([
      { first: 0, top: 0, height: 130 },
      { first: 2, top: 130, height: 180 },
    ]);
  });

  test('includes the header in the first row, so that all rows together are as high as the list', () => {
    const all = two.rows.reduce((sum, _, index) => sum + two.heightOf(index), 0);
    expect(all).toBe(two.sections.reduce((sum, { height }) => sum + height, 0));
  });

  test('finds the rows that are completely in view', () => {
    expect(two.rowsWithin(0, 310)).toEqual({ from: 0, to: 5 });
    expect(two.rowsWithin(31, 210)).toEqual({ from: 1, to: 3 });
    expect(two.rowsWithin(31, 209)).toEqual({ from: 1, to: 2 });
    expect(two.rowsWithin(1000, 2000)).toEqual({ from: 5, to: 5 });
  });

  test('has no index for an agent that is not in the list', () => {
    expect(two.indexOf('z')).toBeUndefined();
    expect(two.indexOf(null)).toBeUndefined();
    expect(layout().rowsWithin(0, 100)).toEqual({ from: 0, to: 0 });
  });
});

describe('the scroll shift', () => {
  test('is the movement of most rows in view', () => {
    const before = layout(['a'], ['b', 'c', 'd', 'e']);
    // One row was added above, and one of the rows in view moved to the top.
    const after = layout(['x', 'd', 'a'], ['b', 'c', 'e']);
    expect(scrollShift(before, after, { from: 1, to: 5 })).toBe(100);
  });

  test('is zero when all rows in view are gone', () => {
    expect(scrollShift(layout(['a', 'b']), layout(['c']), { from: 0, to: 2 })).toBe(0);
  });
});

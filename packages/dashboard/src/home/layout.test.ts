import { describe, expect, test } from 'vitest';
import { driftOf, Layout } from './layout.ts';

const sizes = { row: 50, header: 30 };
const layout = (...sections: string[][]) =>
  new Layout(
    sections.map((pages, at) => ({ attention: at === 0 ? 'failed' : 'working', pages })),
    sizes,
  );

describe('a layout', () => {
  const two = layout(['a', 'b'], ['c', 'd', 'e']);

  test('puts rows below the header of their section', () => {
    expect(two.rows.map((page) => two.topOf(two.placeOf(page) ?? -1))).toEqual([30, 80, 160, 210, 260]);
    expect(two.sections.map(({ first, top, height }) => ({ first, top, height }))).toEqual([
      { first: 0, top: 0, height: 130 },
      { first: 2, top: 130, height: 180 },
    ]);
  });

  test('counts the header to the first row, so that all rows together are as high as the list', () => {
    const all = two.rows.reduce((sum, _, place) => sum + two.sizeOf(place), 0);
    expect(all).toBe(two.sections.reduce((sum, { height }) => sum + height, 0));
  });

  test('knows which rows are wholly in view', () => {
    expect(two.within(0, 310)).toEqual({ from: 0, to: 5 });
    expect(two.within(31, 210)).toEqual({ from: 1, to: 3 });
    expect(two.within(31, 209)).toEqual({ from: 1, to: 2 });
    expect(two.within(1000, 2000)).toEqual({ from: 5, to: 5 });
  });

  test('knows nobody who is not in it', () => {
    expect(two.placeOf('z')).toBeUndefined();
    expect(two.placeOf(null)).toBeUndefined();
    expect(layout().within(0, 100)).toEqual({ from: 0, to: 0 });
  });
});

describe('what was in view', () => {
  test('has moved as far as most of it has', () => {
    const before = layout(['a'], ['b', 'c', 'd', 'e']);
    // One came in above, and one of those in view went to the top.
    const after = layout(['x', 'd', 'a'], ['b', 'c', 'e']);
    expect(driftOf(before, after, { from: 1, to: 5 })).toBe(100);
  });

  test('has not moved when all of it is gone', () => {
    expect(driftOf(layout(['a', 'b']), layout(['c']), { from: 0, to: 2 })).toBe(0);
  });
});

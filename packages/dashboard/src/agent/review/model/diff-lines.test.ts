import { describe, expect, it } from 'vitest';
import { diffLinesOf, indexOfRange, possibleStarts, rangeOf, rangeText, withStart } from './diff-lines.ts';

const lines = diffLinesOf(`@@ -3,4 +3,5 @@ class A
 three
-four
+vier
+fünf
 six
\\ No newline at end of file
@@ -20,2 +21,2 @@
 twenty
--- a
+++ b`);

describe('the lines of a diff', () => {
  it('have their numbers before and after the change', () => {
    expect(lines.map(({ side, oldLine, newLine }) => [side, oldLine, newLine])).toEqual([
      ['hunk', 0, 0],
      ['same', 3, 3],
      ['removed', 4, 0],
      ['added', 0, 4],
      ['added', 0, 5],
      ['same', 5, 6],
      ['hunk', 0, 0],
      ['hunk', 0, 0],
      ['same', 20, 21],
      ['removed', 21, 0],
      ['added', 0, 22],
    ]);
  });
});

describe('a range', () => {
  it('of one line is that line', () => {
    expect(rangeOf(lines, 3, 3)).toEqual({ side: 'NEW', startLine: 4, line: 4, quote: 'vier' });
  });

  it('of removed lines is in the old file', () => {
    expect(rangeOf(lines, 2, 2)).toEqual({ side: 'OLD', startLine: 4, line: 4, quote: 'four' });
    expect(rangeOf(lines, 1, 2)).toEqual({ side: 'OLD', startLine: 3, line: 4, quote: 'three\nfour' });
  });

  it('with added lines is in the new file, in either order', () => {
    const range = { side: 'NEW', startLine: 3, line: 5, quote: 'three\nvier\nfünf' };
    expect(rangeOf(lines, 1, 4)).toEqual(range);
    expect(rangeOf(lines, 4, 1)).toEqual(range);
  });

  it('of a header alone is none', () => {
    expect(rangeOf(lines, 0, 0)).toBeNull();
    expect(rangeOf(lines, 6, 7)).toBeNull();
  });

  it('quotes at most what the service takes', () => {
    const long = diffLinesOf(`@@ -0,0 +1,1 @@\n+${'x'.repeat(5000)}`);
    const range = rangeOf(long, 1, 1);
    expect(range?.quote).toHaveLength(2000);
    expect(range && indexOfRange(long, range)).toBe(1);
  });

  it('can start at another line of its hunk', () => {
    const range = rangeOf(lines, 4, 4);
    if (!range) throw new Error('no range');
    expect(possibleStarts(lines, range)).toEqual([5, 4, 3]);
    expect(withStart(lines, range, 3)).toEqual({ ...range, startLine: 3, quote: 'three\nvier\nfünf' });
    expect(possibleStarts(lines, { side: 'NEW', line: 22 })).toEqual([22, 21]);
  });

  it('is named', () => {
    expect(rangeText({ side: 'NEW', startLine: 4, line: 4 })).toBe('line 4');
    expect(rangeText({ side: 'OLD', startLine: 3, line: 4 })).toBe('lines 3 to 4 before the change');
  });
});

describe('a commented range in a newer diff', () => {
  const commented = { side: 'NEW', startLine: 4, line: 5, quote: 'vier\nfünf' } as const;

  it('is where it was if its lines are the same', () => {
    expect(indexOfRange(lines, commented)).toBe(4);
  });

  it('is found where its lines moved to', () => {
    const moved = diffLinesOf('@@ -1,1 +1,5 @@\n+a\n+b\n+c\n+d\n+e\n+vier\n+fünf');
    expect(indexOfRange(moved, commented)).toBe(7);
  });

  it('is not found if its lines changed, or are there several times', () => {
    expect(indexOfRange(diffLinesOf('@@ -1,1 +4,2 @@\n+vier\n+five'), commented)).toBe(-1);
    const twice = diffLinesOf('@@ -1,1 +10,4 @@\n+vier\n+fünf\n+vier\n+fünf');
    expect(indexOfRange(twice, commented)).toBe(-1);
  });

  it('without a quote is found by its number', () => {
    expect(indexOfRange(lines, { ...commented, quote: '' })).toBe(4);
    expect(indexOfRange(lines, { ...commented, line: 99, quote: '' })).toBe(-1);
  });

  it('of a whole file has no line', () => {
    expect(indexOfRange(lines, { ...commented, startLine: 0, line: 0 })).toBe(-1);
  });
});

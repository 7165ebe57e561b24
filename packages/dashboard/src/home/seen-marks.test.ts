import { describe, expect, test, vi } from 'vitest';
import { SeenMarks } from './seen-marks.ts';

/** As a browser's, which counts and names its items. */
class Shelf implements Storage {
  readonly items = new Map<string, string>();
  isFull = false;

  get length(): number {
    return this.items.size;
  }
  key(at: number): string | null {
    return [...this.items.keys()][at] ?? null;
  }
  getItem(key: string): string | null {
    return this.items.get(key) ?? null;
  }
  setItem(key: string, value: string): void {
    if (this.isFull) throw new DOMException('full', 'QuotaExceededError');
    this.items.set(key, value);
  }
  removeItem(key: string): void {
    this.items.delete(key);
  }
  clear(): void {
    this.items.clear();
  }
}

const born = '2026-03-01T12:00:00.000Z';
const at = (sequence: string, createdAt = born) => ({ sequence, createdAt });

describe('a mark', () => {
  test('says that an agent was seen up to there, and no further', () => {
    const marks = new SeenMarks(new Shelf());
    expect(marks.isSeen('/agents/a', at('9'))).toBe(false);
    marks.mark([['/agents/a', at('9')]]);
    expect(marks.isSeen('/agents/a', at('9'))).toBe(true);
    expect(marks.isSeen('/agents/a', at('8'))).toBe(true);
    expect(marks.isSeen('/agents/a', at('10'))).toBe(false);
    expect(marks.isSeen('/agents/b', at('1'))).toBe(false);
  });

  test('is not moved back by who saw less', () => {
    const marks = new SeenMarks(new Shelf());
    marks.mark([['/agents/a', at('10')]]);
    marks.mark([['/agents/a', at('9')]]);
    expect(marks.isSeen('/agents/a', at('10'))).toBe(true);
  });

  test('does not hold for another agent that has the address later', () => {
    const marks = new SeenMarks(new Shelf());
    marks.mark([['/agents/a', at('9')]]);
    const later = at('2', '2026-03-02T12:00:00.000Z');
    expect(marks.isSeen('/agents/a', later)).toBe(false);
    marks.mark([['/agents/a', later]]);
    expect(marks.isSeen('/agents/a', later)).toBe(true);
  });

  test('can be taken away', () => {
    const shelf = new Shelf();
    const marks = new SeenMarks(shelf);
    marks.mark([['/agents/a', at('9')]]);
    marks.forget('/agents/a');
    expect(marks.isSeen('/agents/a', at('9'))).toBe(false);
    expect(shelf.length).toBe(0);
  });
});

describe('the storage', () => {
  test('brings the marks back, and leaves what is not ours alone', () => {
    const shelf = new Shelf();
    shelf.setItem('muster.theme', 'dark');
    new SeenMarks(shelf).mark([['/agents/a', at('9')]]);
    expect(new SeenMarks(shelf).isSeen('/agents/a', at('9'))).toBe(true);
    expect(shelf.getItem('muster.theme')).toBe('dark');
  });

  test.each([
    '',
    'yes',
    '{"sequence":9}',
    '9',
    '9 9',
    `-9 1 ${born}`,
    `9 x ${born}`,
    `9 1 ${'x'.repeat(99)}`,
  ])('may hold garbage: %j costs that one mark', (garbage) => {
    const shelf = new Shelf();
    new SeenMarks(shelf).mark([['/agents/a', at('9')]]);
    shelf.setItem('muster.seen /agents/b', garbage);
    const marks = new SeenMarks(shelf);
    expect(marks.isSeen('/agents/a', at('9'))).toBe(true);
    expect(marks.isSeen('/agents/b', at('9'))).toBe(false);
    expect(shelf.getItem('muster.seen /agents/b')).toBeNull();
  });

  test('may be full: the marks then last as long as the page', () => {
    const shelf = new Shelf();
    const marks = new SeenMarks(shelf);
    shelf.isFull = true;
    marks.mark([['/agents/a', at('9')]]);
    expect(marks.isSeen('/agents/a', at('9'))).toBe(true);
    expect(shelf.length).toBe(0);
  });

  test('is bounded: the mark that was made first goes first', () => {
    vi.useFakeTimers();
    try {
      const shelf = new Shelf();
      const marks = new SeenMarks(shelf, 3);
      for (const name of ['a', 'b', 'c']) {
        vi.advanceTimersByTime(1000);
        marks.mark([[`/agents/${name}`, at('1')]]);
      }
      vi.advanceTimersByTime(1000);
      marks.mark([['/agents/a', at('2')]]);
      marks.mark([['/agents/d', at('1')]]);
      const seen = (which: SeenMarks) =>
        ['a', 'b', 'c', 'd'].filter((name) => which.isSeen(`/agents/${name}`, at('1')));
      expect(seen(marks)).toEqual(['a', 'c', 'd']);
      expect(seen(new SeenMarks(shelf, 3))).toEqual(['a', 'c', 'd']);
      expect(seen(new SeenMarks(shelf, 2))).toEqual(['a', 'd']);
      expect(shelf.length).toBe(2);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('another tab', () => {
  const value = `9 1 ${born}`;

  test('makes marks and takes them away', () => {
    const marks = new SeenMarks(new Shelf());
    const told = vi.fn();
    marks.subscribe(told);
    marks.learn('muster.seen /agents/a', value);
    expect(marks.isSeen('/agents/a', at('9'))).toBe(true);
    marks.learn('muster.seen /agents/a', null);
    expect(marks.isSeen('/agents/a', at('9'))).toBe(false);
    expect(told).toHaveBeenCalledTimes(2);
  });

  test('may empty the whole storage', () => {
    const shelf = new Shelf();
    const marks = new SeenMarks(shelf);
    marks.mark([['/agents/a', at('9')]]);
    shelf.clear();
    marks.learn(null, null);
    expect(marks.isSeen('/agents/a', at('9'))).toBe(false);
  });

  test('tells nothing new by what is not ours, and writes no garbage here', () => {
    const marks = new SeenMarks(new Shelf());
    const told = vi.fn();
    marks.subscribe(told);
    marks.learn('muster.theme', 'dark');
    expect(told).not.toHaveBeenCalled();
    marks.learn('muster.seen /agents/a', 'garbage');
    expect(marks.isSeen('/agents/a', at('9'))).toBe(false);
  });
});

test('who listens is told of many marks once, and not of marks that say nothing new', () => {
  const marks = new SeenMarks(new Shelf());
  const told = vi.fn();
  marks.subscribe(told);
  marks.mark([
    ['/agents/a', at('9')],
    ['/agents/b', at('9')],
  ]);
  marks.mark([['/agents/a', at('9')]]);
  expect(told).toHaveBeenCalledTimes(1);
});

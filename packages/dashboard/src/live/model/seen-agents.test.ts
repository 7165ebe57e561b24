import { describe, expect, test, vi } from 'vitest';
import { SeenAgents } from './seen-agents.ts';

class MemoryStorage implements Storage {
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

const createdAt = '2026-03-01T12:00:00.000Z';
const at = (sequence: string, created = createdAt) => ({ sequence, createdAt: created });

describe('a seen mark', () => {
  test('applies up to its sequence', () => {
    const seen = new SeenAgents(new MemoryStorage());
    expect(seen.isSeen('/agents/a', at('9'))).toBe(false);
    seen.mark([['/agents/a', at('9')]]);
    expect(seen.isSeen('/agents/a', at('9'))).toBe(true);
    expect(seen.isSeen('/agents/a', at('8'))).toBe(true);
    expect(seen.isSeen('/agents/a', at('10'))).toBe(false);
    expect(seen.isSeen('/agents/b', at('1'))).toBe(false);
  });

  test('is not moved back by an older sequence', () => {
    const seen = new SeenAgents(new MemoryStorage());
    seen.mark([['/agents/a', at('10')]]);
    seen.mark([['/agents/a', at('9')]]);
    expect(seen.isSeen('/agents/a', at('10'))).toBe(true);
  });

  test('does not apply to a later agent with the same path', () => {
    const seen = new SeenAgents(new MemoryStorage());
    seen.mark([['/agents/a', at('9')]]);
    const later = at('2', '2026-03-02T12:00:00.000Z');
    expect(seen.isSeen('/agents/a', later)).toBe(false);
    seen.mark([['/agents/a', later]]);
    expect(seen.isSeen('/agents/a', later)).toBe(true);
  });

  test('can be removed', () => {
    const storage = new MemoryStorage();
    const seen = new SeenAgents(storage);
    seen.mark([['/agents/a', at('9')]]);
    seen.unmark('/agents/a');
    expect(seen.isSeen('/agents/a', at('9'))).toBe(false);
    expect(storage.length).toBe(0);
  });
});

describe('the storage', () => {
  test('restores the marks and leaves other items alone', () => {
    const storage = new MemoryStorage();
    storage.setItem('muster.theme', 'dark');
    new SeenAgents(storage).mark([['/agents/a', at('9')]]);
    expect(new SeenAgents(storage).isSeen('/agents/a', at('9'))).toBe(true);
    expect(storage.getItem('muster.theme')).toBe('dark');
  });

  test.each([
    '',
    'yes',
    '{"sequence":9}',
    '9',
    '9 9',
    `-9 1 ${createdAt}`,
    `9 x ${createdAt}`,
    `9 1 ${'x'.repeat(99)}`,
  ])('loses only the mark that is unreadable: %j', (garbage) => {
    const storage = new MemoryStorage();
    new SeenAgents(storage).mark([['/agents/a', at('9')]]);
    storage.setItem('muster.seen /agents/b', garbage);
    const seen = new SeenAgents(storage);
    expect(seen.isSeen('/agents/a', at('9'))).toBe(true);
    expect(seen.isSeen('/agents/b', at('9'))).toBe(false);
    expect(storage.getItem('muster.seen /agents/b')).toBeNull();
  });

  test('may be full: the marks then last until the page is closed', () => {
    const storage = new MemoryStorage();
    const seen = new SeenAgents(storage);
    storage.isFull = true;
    seen.mark([['/agents/a', at('9')]]);
    expect(seen.isSeen('/agents/a', at('9'))).toBe(true);
    expect(storage.length).toBe(0);
  });

  test('is bounded: the oldest mark is removed first', () => {
    vi.useFakeTimers();
    try {
      const storage = new MemoryStorage();
      const seen = new SeenAgents(storage, 3);
      for (const name of ['a', 'b', 'c']) {
        vi.advanceTimersByTime(1000);
        seen.mark([[`/agents/${name}`, at('1')]]);
      }
      vi.advanceTimersByTime(1000);
      seen.mark([['/agents/a', at('2')]]);
      seen.mark([['/agents/d', at('1')]]);
      const seenIn = (which: SeenAgents) =>
        ['a', 'b', 'c', 'd'].filter((name) => which.isSeen(`/agents/${name}`, at('1')));
      expect(seenIn(seen)).toEqual(['a', 'c', 'd']);
      expect(seenIn(new SeenAgents(storage, 3))).toEqual(['a', 'c', 'd']);
      expect(seenIn(new SeenAgents(storage, 2))).toEqual(['a', 'd']);
      expect(storage.length).toBe(2);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('another tab', () => {
  const value = `9 1 ${createdAt}`;

  test('adds and removes marks', () => {
    const seen = new SeenAgents(new MemoryStorage());
    const listener = vi.fn();
    seen.subscribe(listener);
    seen.applyStorageEvent('muster.seen /agents/a', value);
    expect(seen.isSeen('/agents/a', at('9'))).toBe(true);
    seen.applyStorageEvent('muster.seen /agents/a', null);
    expect(seen.isSeen('/agents/a', at('9'))).toBe(false);
    expect(listener).toHaveBeenCalledTimes(2);
  });

  test('may clear the whole storage', () => {
    const storage = new MemoryStorage();
    const seen = new SeenAgents(storage);
    seen.mark([['/agents/a', at('9')]]);
    storage.clear();
    seen.applyStorageEvent(null, null);
    expect(seen.isSeen('/agents/a', at('9'))).toBe(false);
  });

  test('does not notify for other items, and an unreadable item makes no mark', () => {
    const seen = new SeenAgents(new MemoryStorage());
    const listener = vi.fn();
    seen.subscribe(listener);
    seen.applyStorageEvent('muster.theme', 'dark');
    expect(listener).not.toHaveBeenCalled();
    seen.applyStorageEvent('muster.seen /agents/a', 'garbage');
    expect(seen.isSeen('/agents/a', at('9'))).toBe(false);
  });
});

test('listeners are notified once per call, and not when nothing changed', () => {
  const seen = new SeenAgents(new MemoryStorage());
  const listener = vi.fn();
  seen.subscribe(listener);
  seen.mark([
    ['/agents/a', at('9')],
    ['/agents/b', at('9')],
  ]);
  seen.mark([['/agents/a', at('9')]]);
  expect(listener).toHaveBeenCalledTimes(1);
});

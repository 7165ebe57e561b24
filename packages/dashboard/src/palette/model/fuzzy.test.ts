import { describe, expect, test } from 'vitest';
import { rank, searchable } from './fuzzy.ts';

const named = (...names: string[]) => names.map((name) => ({ name, text: searchable(name) }));
const best = (query: string, ...names: string[]) =>
  rank(named(...names), query, 10).items.map(({ name }) => name);

describe('the palette', () => {
  test('finds letters in order, whole words and starts of words first', () => {
    expect(best('inbox', 'Go to agents', 'Go to inbox')).toEqual(['Go to inbox']);
    expect(best('chk', 'checkout', 'catalog', 'c-h-k')).toEqual(['c-h-k', 'checkout']);
    expect(best('web', 'build/cobweb', 'build/web')).toEqual(['build/web', 'build/cobweb']);
    expect(best('nwagt', 'manage', 'New agent')).toEqual(['New agent']);
    expect(best('che', 'c/h/long/names/e', 'checkout')).toEqual(['checkout']);
    expect(best('kill web', 'Kill build/web', 'Kill api', 'web')).toEqual(['Kill build/web']);
    expect(best('xyz', 'Go to agents')).toEqual([]);
    expect(best('', 'b', 'a')).toEqual(['b', 'a']);
    expect(best('ÜBER', 'über uns')).toEqual(['über uns']);
  });

  test('is linear and bounded, however long the names and the query are', () => {
    const long = 'a'.repeat(100_000);
    const hostile = named(...Array.from({ length: 3_000 }, () => long));
    const started = performance.now();
    const { items, total } = rank(hostile, `${'a'.repeat(70)}b`, 50);
    expect([items.length, total]).toEqual([0, 0]);
    expect(rank(hostile, 'a'.repeat(100_000), 50).items.length).toBe(50);
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});

import { randomInt } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { ValueMask } from './value-mask.ts';

const token = 'npm_0123456789';
const key = '-----BEGIN KEY-----\n  aGVsbG8gd29ybGQ=\nshort\n-----END KEY-----\n';

describe('the values of secrets', () => {
  test('are replaced wherever they occur', () => {
    const mask = new ValueMask([token]);
    expect(mask.text(`a ${token} b ${token}${token}`)).toBe('a *** b ******');
    expect(mask.text('nothing')).toBe('nothing');
    expect(mask.text('')).toBe('');
  });

  test('are not replaced if they have fewer than 8 characters', () => {
    expect(new ValueMask(['1234567', '']).text('1234567')).toBe('1234567');
    expect(new ValueMask(['12345678']).text('x12345678x')).toBe('x***x');
    expect(new ValueMask().isEmpty).toBe(true);
  });

  test('are found in bytes, wherever a part of the search ends, without holding up other work', async () => {
    const values = [token, 'pässwörd €'];
    const mask = new ValueMask(values);
    const chunk = 256 * 1024;
    for (const value of values.map((text) => Buffer.from(text)))
      for (const end of [value.length, chunk, chunk + 1, chunk + value.length - 1, 2 * chunk + 3]) {
        const image = Buffer.alloc(2 * chunk + 3, 0xe2);
        value.copy(image, end - value.length);
        expect(await mask.occursIn(image), `${value} until ${end}`).toBe(true);
        image[end - 1] = 0;
        expect(await mask.occursIn(image), `${value} changed at ${end}`).toBe(false);
      }
    expect(await new ValueMask().occursIn(Buffer.from(token))).toBe(false);

    // The slowest to search: almost the value, again and again.
    const almost = Buffer.alloc(8 * chunk, token.slice(0, -1));
    let turns = 0;
    let isDone = false;
    const count = () => {
      turns += 1;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    expect(await mask.occursIn(almost)).toBe(false);
    isDone = true;
    expect(turns).toBeGreaterThanOrEqual(7);
  });

  test('are replaced line by line too, except for short lines', () => {
    const mask = new ValueMask([key]);
    expect(mask.text(`1: ${key}`)).toBe('1: ***\n');
    expect(mask.text('x aGVsbG8gd29ybGQ= y short z')).toBe('x *** y short z');
    expect(mask.text(JSON.stringify(key))).not.toMatch(/BEGIN|aGVs|END/);
  });

  test('are replaced where they are escaped as in JSON', () => {
    const value = 'pass"word\\1';
    expect(new ValueMask([value]).text(JSON.stringify({ value }))).toBe('{"value":"***"}');
  });

  test('are replaced as a whole where they overlap', () => {
    const mask = new ValueMask(['abcdefgh12', 'gh12345678', 'fgh12345']);
    expect(mask.text('-abcdefgh12345678-')).toBe('-***-');
    expect(new ValueMask(['aaaaaaaa']).text('a'.repeat(20))).toBe('***');
  });

  test('are replaced where a text was cut in the middle of one', () => {
    const mask = new ValueMask([token, 'xyz_npm_01234']);
    expect(mask.text(`cut: ${token.slice(0, -1)}`)).toBe('cut: ***');
    expect(mask.text(`cut: ${token.slice(0, 7)}`)).toBe(`cut: ${token.slice(0, 7)}`);
    expect(mask.text('xyz_npm_012345678')).toBe('***');
  });

  test('are replaced in every text of a JSON value', () => {
    const mask = new ValueMask([token]);
    const value = { [token]: [`${token}!`, 1, null, { deep: { deeper: token } }], ok: true };
    expect(mask.value(value)).toEqual({ '***': ['***!', 1, null, { deep: { deeper: '***' } }], ok: true });
    const nested = JSON.parse(`${'['.repeat(10_000)}${']'.repeat(10_000)}`);
    expect(() => mask.value(nested)).not.toThrow();
  });

  test('are replaced in a text that arrives in parts, however it is divided', () => {
    const values = [token, key, 'abcdefgh12', 'gh12345678', '12345678'];
    const mask = new ValueMask(values);
    const words = [...values, 'plain text ', 'npm_', '-----BEGIN KEY-----\n', 'abcdefgh1', 'aaaaaaaaaaaa'];
    for (let round = 0; round < 300; round++) {
      const text = Array.from({ length: 8 }, () => words[randomInt(words.length)]).join('');
      const stream = mask.stream();
      let shown = '';
      for (let from = 0; from < text.length; ) {
        const to = from + randomInt(1, 12);
        shown += stream.add(text.slice(from, to));
        from = to;
      }
      shown += stream.end();
      expect(shown, text).toBe(mask.text(text));
      for (const value of values) expect(shown).not.toContain(value.trim());
    }
  });

  test('are found in the same places as by a search for each', () => {
    const letters = () => Array.from({ length: randomInt(8, 12) }, () => 'ab'[randomInt(2)]).join('');
    for (let round = 0; round < 200; round++) {
      const values = Array.from({ length: randomInt(1, 6) }, letters);
      const text = Array.from({ length: 40 }, () => 'ab'[randomInt(2)]).join('');
      // The end of a text that was cut is another test.
      const masked = new ValueMask(values).text(`${text}.`);
      const hidden = new Set<number>();
      for (const value of values)
        for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + 1))
          for (let i = at; i < at + value.length; i++) hidden.add(i);
      const expected = [...`${text}.`].map((letter, i) => (hidden.has(i) ? '\0' : letter)).join('');
      expect(masked.replaceAll('***', '\0')).toBe(joined(expected, values, text));
    }
  });
});

/** Values that only touch each other are replaced one by one. */
function joined(marked: string, values: readonly string[], text: string): string {
  const ends = (at: number) =>
    !values.some((value) => {
      for (let from = Math.max(0, at - value.length + 1); from < at; from++)
        if (text.startsWith(value, from) && from + value.length > at) return true;
      return false;
    });
  let result = '';
  for (let i = 0; i < marked.length; i++) {
    const isHidden = marked[i] === '\0';
    if (!isHidden || i === 0 || marked[i - 1] !== '\0' || ends(i)) result += marked[i];
  }
  return result;
}

import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { seal, unseal } from './sealing.ts';

const key = randomBytes(32);

describe('what is sealed', () => {
  test.each(['', 'a value', '\u{1f511} ünïcode'])('can be opened with its key and context: %j', (content) => {
    expect(unseal(key, 'context', seal(key, 'context', content))?.toString()).toBe(content);
  });

  test('does not contain its content, and is different each time', () => {
    const [one, other] = [seal(key, 'context', 'a long value'), seal(key, 'context', 'a long value')];
    expect(one.includes('value')).toBe(false);
    expect(one.equals(other)).toBe(false);
  });

  test('can be opened neither with another key or context nor after a change', () => {
    const sealed = seal(key, 'context', 'value');
    expect(unseal(randomBytes(32), 'context', sealed)).toBeNull();
    expect(unseal(key, 'contexT', sealed)).toBeNull();
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(unseal(key, 'context', changed), `byte ${at}`).toBeNull();
    }
    for (const length of [0, 12, 27]) expect(unseal(key, 'context', sealed.subarray(0, length))).toBeNull();
  });
});

import { describe, expect, it } from 'vitest';
import { bounded, jsonBytes, storable, storableValue } from './wire-text.ts';

describe('texts for the wire', () => {
  it('lose NUL and lone surrogates, and nothing else', () => {
    expect(storable('a\0b\ud83dc\ude00d')).toBe('a\ufffdb\ufffdc\ufffdd');
    expect(storable('é 😀 \u0001\n')).toBe('é 😀 \u0001\n');
  });

  it('are cleaned at every depth of a value', () => {
    expect(storableValue({ 'k\0': ['\0', { n: 1, t: null }] })).toEqual({
      'k\ufffd': ['\ufffd', { n: 1, t: null }],
    });
  });

  it('are cut to a number of characters, not through one', () => {
    expect(bounded('abc', 3)).toBe('abc');
    expect(bounded('abcdefghij', 8)).toBe('abcd […]');
    expect(bounded('😀'.repeat(10), 9)).toMatch(/^😀😀\ufffd? \[…\]$/u);
  });

  it('are cut to a number of bytes as JSON', () => {
    const text = bounded('\u0001'.repeat(1000), 1000, 900);
    expect(jsonBytes(text)).toBeLessThanOrEqual(900);
    expect(text.length).toBeGreaterThan(50);
  });
});

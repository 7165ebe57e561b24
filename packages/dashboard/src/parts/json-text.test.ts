import { expect, test } from 'vitest';
import { jsonText } from './json-text.ts';
import { visibleControls } from './visible-controls.ts';

test('a value is written with indentation', () => {
  expect(jsonText({ a: [1] })).toBe('{\n  "a": [\n    1\n  ]\n}');
  expect(jsonText(undefined)).toBe('');
});

test('a deep value is written on one line, and is not multiplied by its depth', () => {
  const text = '['.repeat(3_000) + ']'.repeat(3_000);
  expect(jsonText(JSON.parse(text))).toBe(text);
});

test('characters that turn text around are written out', () => {
  expect(visibleControls('a\u202Eb\u2066c')).toBe('a[U+202E]b[U+2066]c');
});

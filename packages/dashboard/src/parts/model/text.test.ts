import { expect, test } from 'vitest';
import { jsonText, unpushedNote, visibleControls } from './text.ts';

test('the unpushed note counts commits and files, and leaves out zeros', () => {
  expect(unpushedNote({ commits: 2, files: 1 })).toBe('unpushed: 2 commits, 1 file');
  expect(unpushedNote({ commits: 1, files: 0 })).toBe('unpushed: 1 commit');
  expect(unpushedNote({ commits: 0, files: 3 })).toBe('unpushed: 3 files');
});

test('the unpushed note is empty when everything is pushed, and before the first check', () => {
  expect(unpushedNote({ commits: 0, files: 0 })).toBe('');
  expect(unpushedNote(null)).toBe('');
});

test('JSON is indented', () => {
  expect(jsonText({ a: [1] })).toBe('{\n  "a": [\n    1\n  ]\n}');
  expect(jsonText(undefined)).toBe('');
});

test('deeply nested JSON is written on one line', () => {
  const text = '['.repeat(3_000) + ']'.repeat(3_000);
  expect(jsonText(JSON.parse(text))).toBe(text);
});

test('characters that reorder text are written out', () => {
  expect(visibleControls('a\u202Eb\u2066c')).toBe('a[U+202E]b[U+2066]c');
});

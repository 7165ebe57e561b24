import { expect, test } from 'vitest';
import { browserName, jsonText, sentence, unpushedNote, visibleControls } from './text.ts';

test('the unpushed note counts commits and files, and leaves out zeros', () => {
  expect(unpushedNote({ commits: 2, files: 1, isSaved: true })).toBe('unpushed: 2 commits, 1 file');
  expect(unpushedNote({ commits: 1, files: 0, isSaved: true })).toBe('unpushed: 1 commit');
  expect(unpushedNote({ commits: 0, files: 3, isSaved: true })).toBe('unpushed: 3 files');
});

test('the unpushed note is empty when everything is pushed, and before the first check', () => {
  expect(unpushedNote({ commits: 0, files: 0, isSaved: true })).toBe('');
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

test.each([
  ['Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'Firefox on Linux'],
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0',
    'Edge on Windows',
  ],
  [
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15',
    'Safari on macOS',
  ],
  ['curl/8.5.0', 'Unknown browser'],
  ['', 'Unknown browser'],
])('%s is shown as %s', (userAgent, name) => {
  expect(browserName(userAgent)).toBe(name);
});

test('an error becomes a sentence with curly quotes', () => {
  expect(sentence('names the pool "gpu", which does not exist')).toBe(
    'Names the pool “gpu”, which does not exist.',
  );
  expect(sentence('Is it?')).toBe('Is it?');
});

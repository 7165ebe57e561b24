import { expect, test } from 'vitest';
import { fileDiff } from './timeline.ts';

const hunk = { oldStart: 1, oldLines: 1, newStart: 1, newLines: 1, lines: ['-a', '+b'] };

test('a change is a unified diff', () => {
  expect(fileDiff({ structuredPatch: [hunk, { ...hunk, oldStart: 9, newStart: 9 }] }, 'x')).toBe(
    '--- x\n+++ x\n@@ -1,1 +1,1 @@\n-a\n+b\n@@ -9,1 +9,1 @@\n-a\n+b',
  );
});

test('a new file has only added lines', () => {
  expect(fileDiff({ type: 'create', content: 'a\n\nb', structuredPatch: [] }, 'x')).toBe(
    '--- /dev/null\n+++ x\n@@ -0,0 +1,3 @@\n+a\n+\n+b',
  );
});

test('a long diff is cut between lines, and says so', () => {
  const lines = Array.from({ length: 3_000 }, (_, i) => `+${'é'.repeat(20)} ${i}`);
  const diff = fileDiff({ structuredPatch: [{ ...hunk, lines }] }, 'x') ?? '';
  expect(Buffer.byteLength(JSON.stringify(diff))).toBeLessThan(50_000);
  const shown = diff.split('\n');
  expect(shown.slice(3, -1)).toEqual(lines.slice(0, shown.length - 4));
  expect(shown.at(-1)).toBe(`… and ${lines.length + 4 - shown.length} more lines`);
});

test.each([
  [undefined],
  ['Error: not in it'],
  [null],
  [{}],
  [{ structuredPatch: [] }],
  [{ type: 'create', content: '' }],
  [{ type: 'create', content: 7 }],
  [{ structuredPatch: 'lines' }],
  [{ structuredPatch: [null, 1, {}, { lines: 'a' }, { lines: [{}] }] }],
])('%j is not a change', (result) => expect(fileDiff(result, 'x')).toBeUndefined());

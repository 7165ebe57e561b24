import { expect, test } from 'vitest';
import { ignored } from '../../../../../test/support/harness-session.ts';
import type { CommandOutput } from './command-output.ts';
import { fileDiff } from './file-diff.ts';
import { Timeline } from './timeline.ts';

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

test('a text that was begun is withdrawn when the provider is asked again', () => {
  const reported: string[] = [];
  const listener = {
    ...ignored,
    partial: ({ key, text }: { key: string; text: string }) => reported.push(`${key} ${text}`),
    discardPartial: (key: string) => reported.push(`-${key}`),
    item: ({ type, data }: { type: string; data?: Record<string, unknown> }) =>
      reported.push(`${type} ${data?.key}`),
  };
  const timeline = new Timeline(listener as never, '/work', {} as CommandOutput);
  const stream = (event: object) => timeline.addPiece({ event, parent_tool_use_id: null } as never);
  const begin = (id: string, text: string) => {
    stream({ type: 'message_start', message: { id } });
    stream({ type: 'content_block_start', index: 0, content_block: { type: 'text' } });
    stream({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } });
  };
  begin('m1', 'Let');
  timeline.add({ type: 'system', subtype: 'api_retry', attempt: 1, max_retries: 4 } as never);
  begin('m2', 'Let me');
  begin('m3', 'Done.');
  const message = { usage: {}, content: [{ type: 'text', text: 'Done.' }] };
  timeline.add({ type: 'assistant', parent_tool_use_id: null, message } as never);
  stream({ type: 'content_block_stop', index: 0 });
  begin('m4', 'More');
  expect(reported).toEqual([
    ...['m1/0 Let', '-m1/0', 'WARNING undefined', 'm2/0 Let me', '-m2/0', 'm3/0 Done.', 'MESSAGE m3/0'],
    'm4/0 More',
  ]);
});

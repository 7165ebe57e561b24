import type { TimelineEntry } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { type RowOf, Rows } from './rows.ts';
import {
  diffOfChanges,
  diffOfEdits,
  editsOf,
  resultText,
  terminalText,
  toolName,
  toolOutcome,
  toolSummary,
} from './tool-call.ts';

const entry = (
  type: 'TOOL_CALL' | 'TOOL_RESULT',
  text: string,
  data: TimelineEntry['data'],
): Omit<TimelineEntry, 'sequence'> => ({
  at: '2026-01-01T00:00:00.000Z',
  runId: '1',
  type,
  followUpId: '',
  text,
  data,
});

function tool(
  text: string,
  data: TimelineEntry['data'],
  result?: { readonly text: string; readonly data?: TimelineEntry['data'] },
): RowOf<'tool'> {
  const entries = [
    entry('TOOL_CALL', text, data),
    ...(result ? [entry('TOOL_RESULT', result.text, { ...data, ...result.data })] : []),
  ].map((each, at) => ({ ...each, sequence: String(at + 1) }));
  const [row] = new Rows().update(entries);
  if (row?.kind !== 'tool') throw new Error(`expected a tool row, got ${row?.kind}`);
  return row;
}

describe('a tool call', () => {
  it.each([
    ['Bash', 'npm test', tool('npm test', { tool: 'Bash', id: 'a', input: { command: 'npm test' } })],
    ['Read', 'src/a.ts', tool('Read src/a.ts', { tool: 'Read', id: 'a' })],
    ['shell', 'ls -la && pwd', tool('ls -la\n&& pwd', { tool: 'shell', id: 'a' })],
    ['apply_patch', 'a.ts, b.ts', tool('Edit a.ts, b.ts', { tool: 'apply_patch', files: ['a.ts', 'b.ts'] })],
    ['ask', 'Which one?', tool('ask', { tool: 'mcp__muster__ask', input: { question: 'Which one?' } })],
    [
      'github.create_issue',
      'Broken',
      tool('mcp__github__create_issue', { tool: 'mcp__github__create_issue', input: { title: 'Broken' } }),
    ],
    ['TodoWrite', 'a 1, b true', tool('TodoWrite', { tool: 'TodoWrite', input: { a: 1, b: true, c: [] } })],
    ['tool', '', tool('', {})],
  ])('is shown as %s %s', (name, summary, row) => {
    expect(toolName(row)).toBe(name);
    expect(toolSummary(row)).toBe(summary);
  });

  it.each([
    ['running', 'running', tool('ls', { tool: 'Bash' })],
    ['ok', 'done', tool('ls', { tool: 'Bash' }, { text: 'a' })],
    ['ok', 'done', tool('ls', { tool: 'shell' }, { text: 'a', data: { exitCode: 0, signal: null } })],
    ['failed', 'exit 2', tool('ls', { tool: 'shell' }, { text: 'a', data: { exitCode: 2 } })],
    ['failed', 'SIGKILL', tool('ls', { tool: 'shell' }, { text: 'a', data: { signal: 'SIGKILL' } })],
    ['failed', 'failed', tool('ls', { tool: 'Bash' }, { text: 'no', data: { error: true } })],
    ['ok', 'done', tool('weather', { tool: 'web_search' })],
  ])('has the outcome %s, %s', (state, text, row) => {
    expect(toolOutcome(row)).toEqual({ state, text });
  });

  it('shows its result without terminal escapes', () => {
    expect(resultText(tool('ls', { tool: 'Bash' }, { text: '\u001b[32mok\u001b[0m\n' }))).toBe('ok');
  });
});

describe('the diff of an edit', () => {
  it('is made of the replacement that Claude Code requested', async () => {
    const input = { file_path: '/work/src/a.ts', old_string: 'one\ntwo\nthree', new_string: 'one\n2\nthree' };
    const edits = editsOf(tool('Edit src/a.ts', { tool: 'Edit', input }));
    expect(await diffOfEdits(edits)).toBe('--- src/a.ts\n+++ src/a.ts\n one\n-two\n+2\n three');
  });

  it('contains each of several replacements', async () => {
    const edits = [
      { old_string: 'a', new_string: 'b' },
      { old_string: 'c', new_string: '' },
    ];
    const row = tool('MultiEdit', { tool: 'MultiEdit', input: { file_path: 'x', edits } });
    expect(await diffOfEdits(editsOf(row))).toBe('--- x\n+++ x\n@@ 1 of 2 @@\n-a\n+b\n@@ 2 of 2 @@\n-c');
  });

  it('adds every line of a written file', async () => {
    const row = tool('Write x', { tool: 'Write', input: { file_path: 'x', content: 'a\nb\n' } });
    expect(await diffOfEdits(editsOf(row))).toBe('--- x\n+++ x\n+a\n+b');
  });

  it('is empty for other tools, whatever their arguments', () => {
    expect(editsOf(tool('x', { tool: 'Bash', input: { old_string: 'a' } }))).toEqual([]);
    expect(editsOf(tool('x', { tool: 'MultiEdit', input: { edits: 'none' } }))).toEqual([]);
  });

  it('is made of the changes that Codex reports', () => {
    const row = tool('Edit a.ts, new.md, old.md', {
      tool: 'apply_patch',
      files: ['src/a.ts', 'new.md', 'old.md'],
    });
    const text = [
      'update /work/src/a.ts',
      '@@ -1,2 +1,2 @@',
      ' one',
      '-two',
      '+2',
      'add /work/new.md',
      'hello',
      'delete /work/old.md',
      'bye',
      '',
    ].join('\n');
    expect(diffOfChanges(row, text)).toBe(
      [
        '--- src/a.ts',
        '+++ src/a.ts',
        '@@ -1,2 +1,2 @@',
        ' one',
        '-two',
        '+2',
        '--- /dev/null',
        '+++ new.md',
        '@@ -0,0 +1,1 @@',
        '+hello',
        '--- old.md',
        '+++ /dev/null',
        '@@ -1,1 +0,0 @@',
        '-bye',
      ].join('\n'),
    );
    expect(diffOfChanges(row, 'patch rejected')).toBeUndefined();
    expect(diffOfChanges(tool('ls', { tool: 'shell' }), text)).toBeUndefined();
  });
});

describe('terminal output', () => {
  it('loses colors, titles, links and cursor movement', () => {
    expect(terminalText('\u001b[1;31mred\u001b[0m \u001b[2Kand\u001b[?25l plain\u001b(B')).toBe(
      'red and plain',
    );
    expect(terminalText('\u001b]0;a title\u0007\u001b]8;;https://x\u001b\\link\u001b]8;;\u001b\\')).toBe(
      'link',
    );
  });

  it('keeps the last version of an overwritten line', () => {
    expect(terminalText('10 %\r50 %\r100 %\nnext\r\nlast\r')).toBe('100 %\nnext\nlast');
    expect(terminalText('ab\bc')).toBe('ac');
  });

  it('keeps tabs and line breaks, and loses other control characters', () => {
    expect(terminalText('a\tb\n\u0000c\u0007')).toBe('a\tb\nc');
  });
});

import type { TimelineEntry } from '@muster/sdk/contract';
import { type RowOf, stringIn } from './rows.ts';

export interface ToolOutcome {
  readonly state: 'running' | 'ok' | 'none' | 'failed';
  readonly text: string;
}

export type Fields = Readonly<Record<string, unknown>>;

/** Codex reports these tools once, when they are done, without a result. */
const toolsWithoutResult: ReadonlySet<string> = new Set(['web_search', 'view_image']);

export function toolName({ call, results }: RowOf<'tool'>): string {
  const tool = stringIn((call ?? results[0])?.data ?? {}, 'tool');
  const plain = tool.replace(/^mcp__muster__/, '').replace(/^mcp__([^_]+(?:_[^_]+)*)__/, '$1.');
  return plain || 'tool';
}

export function inputOf({ call }: RowOf<'tool'>): Fields {
  const input = call?.data.input;
  return typeof input === 'object' && input !== null && !Array.isArray(input) ? (input as Fields) : {};
}

/** One line about the call: its command, file or most telling argument. */
export function toolSummary(row: RowOf<'tool'>): string {
  const { call } = row;
  if (!call) return 'the call is further up';
  const names = ['', toolName(row), stringIn(call.data, 'tool')];
  const text = oneLine(call.text.replace(/^(Read|Write|Edit|Search) (?=.)/, ''));
  return names.includes(text) ? argumentSummary(inputOf(row)) : text;
}

const summaryFields = ['description', 'subject', 'title', 'query', 'url', 'path', 'name', 'question', 'text'];

function argumentSummary(input: Fields): string {
  const field = summaryFields.find((name) => typeof input[name] === 'string' && input[name] !== '');
  if (field) return oneLine(String(input[field]));
  return Object.entries(input)
    .filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value))
    .map(([name, value]) => `${name} ${oneLine(String(value))}`)
    .join(', ');
}

const maxLineLength = 240;
const oneLine = (text: string): string => {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > maxLineLength ? `${line.slice(0, maxLineLength - 1)}…` : line;
};

export function toolOutcome(row: RowOf<'tool'>): ToolOutcome {
  const { results, hasRunEnded, call } = row;
  if (results.length === 0) {
    if (toolsWithoutResult.has(stringIn(call?.data ?? {}, 'tool'))) return { state: 'ok', text: 'done' };
    return hasRunEnded ? { state: 'none', text: 'no result' } : { state: 'running', text: 'running' };
  }
  const failure = results.map(failureText).find((text) => text !== '');
  return failure === undefined ? { state: 'ok', text: 'done' } : { state: 'failed', text: failure };
}

function failureText({ data }: TimelineEntry): string {
  const { exitCode } = data;
  if (typeof exitCode === 'number' && exitCode !== 0) return `exit ${exitCode}`;
  const signal = stringIn(data, 'signal');
  if (signal !== '') return signal;
  return data.error === true ? 'failed' : '';
}

export const resultText = ({ results }: RowOf<'tool'>): string =>
  terminalText(results.map(({ text }) => text.replace(/\n$/, '')).join('\n'));

export const lineCount = (text: string): number => (text === '' ? 0 : text.split('\n').length);

const escapes = new RegExp(
  [
    // Colors and cursor movement.
    '(?:\\u001b\\[|\\u009b)[0-9;:?<=>]*[ -/]*[@-~]',
    // Titles, links and the clipboard, up to their terminator if they have one.
    '(?:\\u001b\\]|\\u009d)[^\\u0007\\u001b\\u009c]*(?:\\u0007|\\u001b\\\\|\\u009c)',
    '\\u001b[()*+][0-9A-Za-z]',
    '\\u001b[ -~]?',
  ].join('|'),
  'g',
);
// biome-ignore lint/suspicious/noControlCharactersInRegex: removes control characters.
const erased = /[^\n\u0008]\u0008/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: removes control characters.
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Program output as a terminal would show it: without escape sequences, and with overwritten lines resolved. */
export function terminalText(text: string): string {
  return text
    .replace(escapes, '')
    .replace(/\r+\n/g, '\n')
    .replace(/^.*\r(?=[^\r\n])/gm, '')
    .replace(erased, '')
    .replace(controls, '');
}

export interface Edit {
  readonly path: string;
  readonly before: string;
  readonly after: string;
}

const textIn = (fields: Fields, name: string): string =>
  typeof fields[name] === 'string' ? fields[name] : '';

/** The replacements that an editing tool of Claude Code requests; none for other tools. */
export function editsOf(row: RowOf<'tool'>): readonly Edit[] {
  const input = inputOf(row);
  const path = workspacePath(row) || textIn(input, 'file_path') || textIn(input, 'notebook_path');
  switch (stringIn(row.call?.data ?? {}, 'tool')) {
    case 'Edit':
      return [editIn(path, input)];
    case 'MultiEdit':
      return Array.isArray(input.edits)
        ? input.edits.map((edit) => editIn(path, (edit ?? {}) as Fields))
        : [];
    case 'Write':
      return [{ path, before: '', after: textIn(input, 'content') }];
    case 'NotebookEdit':
      return [{ path, before: '', after: textIn(input, 'new_source') }];
    default:
      return [];
  }
}

const editIn = (path: string, fields: Fields): Edit => ({
  path,
  before: textIn(fields, 'old_string'),
  after: textIn(fields, 'new_string'),
});

/** The runner shows paths relative to the workspace. */
const workspacePath = ({ call }: RowOf<'tool'>): string =>
  /^(?:Edit|Write) (.+)$/s.exec(call?.text ?? '')?.[1] ?? '';

/** Comparing takes quadratic time, so texts that differ in more lines are shown as a full replacement. */
const maxEditLength = 2_000;

/** The edits as one unified diff. The diff library is loaded on first use. */
export async function diffOfEdits(edits: readonly Edit[]): Promise<string> {
  const { diffLines } = await import('diff');
  const lines = edits.flatMap(({ before, after }, at) => [
    ...(edits.length > 1 ? [`@@ ${at + 1} of ${edits.length} @@`] : []),
    ...(
      diffLines(before, after, { maxEditLength }) ?? [
        { value: before, added: false, removed: true },
        { value: after, added: true, removed: false },
      ]
    ).flatMap(({ value, added, removed }) => withSign(value, added ? '+' : removed ? '-' : ' ')),
  ]);
  const path = edits[0]?.path ?? '';
  return [`--- ${path}`, `+++ ${path}`, ...lines].join('\n');
}

const withSign = (text: string, sign: string): string[] =>
  text === ''
    ? []
    : text
        .replace(/\n$/, '')
        .split('\n')
        .map((line) => `${sign}${line}`);

/**
 * The file changes that Codex reports, as one unified diff. Codex sends per file a line with the kind and the path, then
 * its hunks, or the whole text of a new or deleted file. Undefined for any other text.
 */
export function diffOfChanges(row: RowOf<'tool'>, text: string): string | undefined {
  const { data } = row.call ?? {};
  if (data?.tool !== 'apply_patch' || !Array.isArray(data.files)) return undefined;
  const changes: Change[] = [];
  for (const line of text.replace(/\n$/, '').split('\n')) {
    const change = changeIn(line, data.files);
    if (change) changes.push(change);
    else changes.at(-1)?.lines.push(line);
  }
  return changes.length === 0 ? undefined : changes.flatMap(hunksOf).join('\n');
}

interface Change {
  readonly kind: string;
  readonly file: string;
  readonly lines: string[];
}

function changeIn(line: string, files: readonly unknown[]): Change | undefined {
  const [, kind = '', path = ''] = /^(add|update|delete) (.+)$/.exec(line) ?? [];
  const file = files.find((name) => path === name || path.endsWith(`/${name}`));
  return typeof file === 'string' && path !== '' ? { kind, file, lines: [] } : undefined;
}

function hunksOf({ kind, file, lines }: Change): string[] {
  const head = [
    `--- ${kind === 'add' ? '/dev/null' : file}`,
    `+++ ${kind === 'delete' ? '/dev/null' : file}`,
  ];
  // Codex may also send a new file as a hunk.
  if (kind === 'update' || lines.some((line) => line.startsWith('@@ '))) return [...head, ...lines];
  const range = kind === 'add' ? `-0,0 +1,${lines.length}` : `-1,${lines.length} +0,0`;
  return [...head, `@@ ${range} @@`, ...lines.map((line) => `${kind === 'add' ? '+' : '-'}${line}`)];
}

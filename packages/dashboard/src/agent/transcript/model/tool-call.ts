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

import type { TimelineEntry } from '@muster/sdk/contract';
import { type RowOf, stringIn } from './rows.ts';
import { terminalText } from './terminal-text.ts';

export type ToolOutcome =
  | { readonly state: 'running' | 'ok' | 'none'; readonly words: string }
  | { readonly state: 'failed'; readonly words: string };

export type Fields = Readonly<Record<string, unknown>>;

/** Codex tells of these when they are done, and of nothing else. */
const toldWhole: ReadonlySet<string> = new Set(['web_search', 'view_image']);

export function toolName({ call, results }: RowOf<'tool'>): string {
  const tool = stringIn((call ?? results[0])?.data ?? {}, 'tool');
  const plain = tool.replace(/^mcp__muster__/, '').replace(/^mcp__([^_]+(?:_[^_]+)*)__/, '$1.');
  return plain || 'tool';
}

export function inputOf({ call }: RowOf<'tool'>): Fields {
  const input = call?.data.input;
  return typeof input === 'object' && input !== null && !Array.isArray(input) ? (input as Fields) : {};
}

/** What a call is about, in one line. */
export function toolSummary(row: RowOf<'tool'>): string {
  const { call } = row;
  if (!call) return 'its call is further up';
  const names = ['', toolName(row), stringIn(call.data, 'tool')];
  const told = oneLine(call.text.replace(/^(Read|Write|Edit|Search) (?=.)/, ''));
  return names.includes(told) ? fieldSummary(inputOf(row)) : told;
}

const tellingFields = ['description', 'subject', 'title', 'query', 'url', 'path', 'name', 'question', 'text'];

function fieldSummary(input: Fields): string {
  const field = tellingFields.find((name) => typeof input[name] === 'string' && input[name] !== '');
  if (field) return oneLine(String(input[field]));
  return Object.entries(input)
    .filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value))
    .map(([name, value]) => `${name} ${oneLine(String(value))}`)
    .join(', ');
}

const lineLength = 240;
const oneLine = (text: string): string => {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > lineLength ? `${line.slice(0, lineLength - 1)}…` : line;
};

export function toolOutcome(row: RowOf<'tool'>): ToolOutcome {
  const { results, isOver, call } = row;
  if (results.length === 0) {
    if (toldWhole.has(stringIn(call?.data ?? {}, 'tool'))) return { state: 'ok', words: 'done' };
    return isOver ? { state: 'none', words: 'no result' } : { state: 'running', words: 'running' };
  }
  const failure = results.map(failureWords).find((words) => words !== '');
  return failure === undefined ? { state: 'ok', words: 'done' } : { state: 'failed', words: failure };
}

function failureWords({ data }: TimelineEntry): string {
  const { exitCode } = data;
  if (typeof exitCode === 'number' && exitCode !== 0) return `exit ${exitCode}`;
  const signal = stringIn(data, 'signal');
  if (signal !== '') return signal;
  return data.error === true ? 'failed' : '';
}

/** What came back, as it is to be read. */
export const resultText = ({ results }: RowOf<'tool'>): string =>
  terminalText(results.map(({ text }) => text.replace(/\n$/, '')).join('\n'));

export const lineCount = (text: string): number => (text === '' ? 0 : text.split('\n').length);

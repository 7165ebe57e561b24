import { type Kind, proseOf, type Schema, splitFrontMatter } from '@muster/sdk/contract';
import { stringify } from 'yaml';
import { fieldsOf, isNested, type KnownField, schemaBelow, schemaOf, valuesOf } from './document-schema.ts';

/** Replaces the range `from` to `to`, then selects a range of the new text. */
export interface Edit {
  readonly from: number;
  readonly to: number;
  readonly insert: string;
  readonly selectFrom: number;
  readonly selectTo: number;
}

const step = 2;

/** Tab: adds spaces to the next step, or indents the selected lines. */
export function indent(text: string, from: number, to: number): Edit {
  const start = lineStart(text, from);
  if (!text.slice(from, to).includes('\n')) {
    const insert = ' '.repeat(step - ((from - start) % step));
    return { from, to, insert, selectFrom: from + insert.length, selectTo: from + insert.length };
  }
  return changeLines(text, from, to, (line) => (line === '' ? line : `${' '.repeat(step)}${line}`));
}

/** Shift+Tab: outdents the selected lines. */
export const outdent = (text: string, from: number, to: number): Edit =>
  changeLines(text, from, to, (line) => line.replace(/^ {1,2}/, ''));

/** Enter: keeps the indentation of the line, one step deeper after a colon. */
export function breakLine(text: string, from: number, to: number): Edit {
  const line = text.slice(lineStart(text, from), from);
  const indentation = /^ */.exec(line)?.[0] ?? '';
  const insert = `\n${indentation}${/:\s*$/.test(line) ? ' '.repeat(step) : ''}`;
  return { from, to, insert, selectFrom: from + insert.length, selectTo: from + insert.length };
}

const lineStart = (text: string, at: number): number => text.lastIndexOf('\n', at - 1) + 1;

function changeLines(text: string, from: number, to: number, change: (line: string) => string): Edit {
  const start = lineStart(text, from);
  const end = text.indexOf('\n', Math.max(from, to - 1));
  const stop = end < 0 ? text.length : end;
  const lines = text.slice(start, stop).split('\n');
  const insert = lines.map(change).join('\n');
  const firstLineGrowth = change(lines[0] ?? '').length - (lines[0] ?? '').length;
  return {
    from: start,
    to: stop,
    insert,
    selectFrom: Math.max(start, from + firstLineGrowth),
    selectTo: Math.max(start, to + insert.length - (stop - start)),
  };
}

/** A piece of a line for syntax highlighting. */
export interface Token {
  readonly as: 'plain' | 'key' | 'comment' | 'mark' | 'heading';
  readonly text: string;
}

const keyLine = /^((?: |- )*)([^\s#'"[{&*!|>%@`-][^#]*?|"[^"]*"|'[^']*')(:)(?=\s|$)(.*)$/s;
const commentTail = /^(.*?)(\s#.*)$/s;

/** Looks at one line only, so strings over several lines may get wrong colours. */
export function highlightYaml(line: string): readonly Token[] {
  if (/^\s*#/.test(line)) return [{ as: 'comment', text: line }];
  if (/^(---|\.\.\.)\s*$/.test(line)) return [{ as: 'mark', text: line }];
  const [, lead = '', key = '', colon = '', rest = line] = keyLine.exec(line) ?? [];
  const [, value = rest, comment = ''] = commentTail.exec(rest) ?? [];
  return [
    { as: 'mark', text: lead },
    { as: 'key', text: key },
    { as: 'mark', text: colon },
    { as: 'plain', text: value },
    { as: 'comment', text: comment },
  ].filter(({ text }) => text !== '') as Token[];
}

export const highlightProse = (line: string): readonly Token[] => [
  { as: /^#{1,6} /.test(line) ? 'heading' : 'plain', text: line },
];

/** Choices for the word at the caret. */
export interface Completion {
  /** The start of the word. */
  readonly from: number;
  readonly choices: readonly Choice[];
}

export interface Choice {
  readonly word: string;
  readonly insert: string;
  readonly note: string;
}

const nameLine = /^((?: |- )*)([A-Za-z][\w-]*|)$/;
const valueLine = /^((?: |- )*)([A-Za-z][\w-]*): +([\w.:/@-]*)$/;
const entryLine = /^((?: |- )*- +)([\w.:/@-]*)$/;
const fieldLine = /^((?: |- )*)([A-Za-z][\w-]*):/;

/** The words that a value may be, beside those of its schema: names of resources and of models. */
export type Words = (field: string, schema: Schema) => readonly string[];

/**
 * Completes field names at the start of a line, and values of fields that have known ones; null elsewhere. Asked for by a
 * key, it also completes where nothing is typed.
 */
export function completionAt(
  kind: Kind,
  text: string,
  caret: number,
  words: Words = () => [],
  isAsked = false,
): Completion | null {
  const end = text.indexOf('\n', caret);
  if (text.slice(caret, end < 0 ? undefined : end).trim() !== '') return null;
  if (!isInYaml(kind, text, caret)) return null;
  const above = text.slice(0, caret).split('\n');
  const line = above.pop() ?? '';
  const values = valuesAt(kind, above, line, words);
  if (values && values.choices.length > 0) return completion(caret, values.typed, values.choices, isAsked);
  const [, lead = '', typed] = nameLine.exec(line) ?? [];
  if (typed === undefined || (typed === '' && !isAsked)) return null;
  return completion(caret, typed, nameChoices(kind, text, above, lead.length), isAsked);
}

/** The values of the field, or of the list entry, in this line. */
function valuesAt(kind: Kind, above: readonly string[], line: string, words: Words) {
  const [, lead = '', field = '', value = ''] = valueLine.exec(line) ?? [];
  const [, dash, entry = ''] = field === '' ? (entryLine.exec(line) ?? []) : [];
  if (field === '' && dash === undefined) return undefined;
  const path = parentsOf(above, field === '' ? (dash ?? '').length : lead.length);
  const name = field === '' ? (path.pop() ?? '') : field;
  const list = schemaOfPath(kind, path)?.properties?.[name];
  const schema = field === '' ? list?.items : list;
  if (!schema) return undefined;
  const all = [...valuesOf(schema), ...words(name, schema)];
  const choices = [...new Set(all)].map((word) => ({ word, insert: word, note: '' }));
  return { typed: field === '' ? entry : value, choices };
}

/** The longest list of choices: an installation may have thousands of names. */
const mostChoices = 50;

function completion(
  caret: number,
  typed: string,
  all: readonly Choice[],
  isAsked: boolean,
): Completion | null {
  const choices = all.filter(({ word }) => word.toLowerCase().startsWith(typed.toLowerCase()));
  const isComplete = !isAsked && choices.some(({ word }) => word === typed);
  return choices.length === 0 || isComplete
    ? null
    : { from: caret - typed.length, choices: choices.slice(0, mostChoices) };
}

/** False in the prose of a Markdown text. */
function isInYaml(kind: Kind, text: string, caret: number): boolean {
  if (proseOf(kind) === undefined) return true;
  const { settings, linesAbove } = splitFrontMatter(text);
  const start = text.indexOf('\n') + 1;
  return linesAbove === 1 && caret >= start && caret <= start + settings.length;
}

function nameChoices(kind: Kind, text: string, above: readonly string[], depth: number): readonly Choice[] {
  const schema = schemaOfPath(kind, parentsOf(above, depth));
  if (!schema) return [];
  const isTaken = (name: string) =>
    depth === 0 && (new RegExp(`^${name}:`, 'm').test(text) || name === proseOf(kind));
  return fieldsOf(schema)
    .filter(({ name }) => !isTaken(name))
    .map(({ name, meaning }) => ({
      word: name,
      insert: isNested(schema.properties?.[name] ?? {}) ? `${name}:` : `${name}: `,
      note: meaning,
    }));
}

/** The fields above this depth, found by the less indented lines above. */
function parentsOf(above: readonly string[], depth: number): string[] {
  const parents: string[] = [];
  let inner = depth;
  for (let at = above.length - 1; at >= 0 && inner > 0; at--) {
    const [, lead = '', name = ''] = fieldLine.exec(above[at] ?? '') ?? [];
    // The entries of a list may begin in the column of their field.
    const isParent = lead.length < inner;
    if (name === '' || !isParent) continue;
    parents.unshift(name);
    inner = lead.length;
  }
  return parents;
}

const schemaOfPath = (kind: Kind, path: readonly string[]): Schema | undefined =>
  path.reduce<Schema | undefined>((schema, name) => schema && schemaBelow(schema, name), schemaOf(kind));

/** The known field in a line of a text, counted from 0; undefined if there is none. */
export function fieldIn(kind: Kind, text: string, line: number): KnownField | undefined {
  const lines = text.split('\n');
  const offset = lines.slice(0, line).join('\n').length + (line > 0 ? 1 : 0);
  const [, lead = '', name = ''] = fieldLine.exec(lines[line] ?? '') ?? [];
  if (name === '' || !isInYaml(kind, text, offset)) return undefined;
  const schema = schemaOfPath(kind, parentsOf(lines.slice(0, line), lead.length));
  return schema && fieldsOf(schema).find((field) => field.name === name);
}

/** Inserts a text at an offset, then selects a part of it for the user to replace. */
export interface Insertion {
  readonly at: number;
  readonly text: string;
  readonly selectFrom: number;
  readonly selectTo: number;
}

/** Inserts a field with its example after the existing fields. */
export function insertField(kind: Kind, text: string, field: KnownField): Insertion {
  const prose = proseOf(kind);
  if (prose === undefined) return insertion(text, text.length, lineOf(field));
  const { settings, linesAbove } = splitFrontMatter(text);
  if (field.name === prose) return insertion(text, text.length, String(field.example));
  if (linesAbove === 0) {
    const { line, from, to } = lineOf(field);
    return { at: 0, text: `---\n${line}---\n`, selectFrom: 4 + from, selectTo: 4 + to };
  }
  return insertion(text, text.indexOf('\n') + 1 + settings.length, lineOf(field));
}

interface Line {
  readonly line: string;
  /** The range of the value. */
  readonly from: number;
  readonly to: number;
}

function lineOf({ name, example }: KnownField): Line {
  const line = stringify({ [name]: example });
  const isOneLine = line.indexOf('\n') === line.length - 1;
  return { line, from: isOneLine ? name.length + 2 : 0, to: line.length - 1 };
}

function insertion(text: string, at: number, what: Line | string): Insertion {
  const { line, from, to } = typeof what === 'string' ? { line: what, from: 0, to: what.length } : what;
  const lineBreak = at === 0 || text[at - 1] === '\n' ? '' : '\n';
  const start = at + lineBreak.length;
  return { at, text: `${lineBreak}${line}`, selectFrom: start + from, selectTo: start + to };
}

import {
  type Kind,
  kindOf,
  limits,
  proseOf,
  resourceText,
  splitFrontMatter,
  unknownFields,
} from '@muster/sdk/contract';
import { type Document, isMap, isNode, isSeq, stringify } from 'yaml';
import { type FieldPath, schemaProblems } from './document-schema.ts';
import { readSyntax } from './yaml-syntax.ts';

/** `payload.tasks[2].subject` → `['tasks', 2, 'subject']`; undefined if it is not a field of a document. */
export function payloadPath(field: string): FieldPath | undefined {
  const [, rest] = /^payload(?:\.(.*))?$/s.exec(field) ?? [];
  if (rest === undefined) return field === 'payload' ? [] : undefined;
  return [...rest.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([part, index]) =>
    index === undefined ? part : Number(index),
  );
}

type Fields = Readonly<Record<string, unknown>>;

/** Lines count from 1. */
export interface LineProblem {
  readonly line: number;
  readonly message: string;
}

export interface ReadText {
  /** Without kind and name; null if the text is invalid or belongs to another resource. */
  readonly fields: Fields | null;
  readonly problems: readonly LineProblem[];
  /** Fields that the kind does not know. They are stored as written. */
  readonly warnings: readonly LineProblem[];
  /** The line of a value, or of the value that contains it. */
  readonly lineOf: (path: FieldPath) => number;
}

export const textOf = (kind: Kind, name: string, document: Fields): string =>
  resourceText(kind, name, document, (fields) => stringify(fields));

interface Written {
  readonly document: Fields | null;
  readonly text: string;
}

/** The text as its author wrote it, or a generated one if none is stored. An older service sends none. */
export const writtenText = (kind: Kind, name: string, { document, text }: Written): string =>
  text || textOf(kind, name, document ?? {});

/** The text to send with a document; empty if it is too long to be stored. */
export const storableText = (text: string): string =>
  new TextEncoder().encode(text).length > limits.documentTextBytes ? '' : text;

/** Parses a text and reports its problems. Never throws. */
export function readText(kind: Kind, name: string, text: string): ReadText {
  const prose = proseOf(kind);
  if (prose === undefined) return readYaml(kind, name, text, 0, {});
  const { settings, body, linesAbove } = splitFrontMatter(text);
  if (linesAbove === 0 && /^---[ \t]*\r?$/m.exec(text)?.index === 0) {
    const message = 'The settings are not closed. Add a line with --- after them.';
    return { fields: null, problems: [{ line: 1, message }], warnings: [], lineOf: () => 1 };
  }
  const bodyLine = text.slice(0, text.length - body.length).split('\n').length;
  const read = readYaml(kind, name, settings, linesAbove, { [prose]: body.trim() });
  return { ...read, lineOf: (path) => (path[0] === prose ? bodyLine : read.lineOf(path)) };
}

function readYaml(kind: Kind, name: string, text: string, linesAbove: number, more: Fields): ReadText {
  const { document, broken } = readSyntax(text);
  const starts = lineStarts(text);
  const lineAt = (offset: number) => lineIn(starts, offset) + linesAbove;
  const lineOf = (path: FieldPath) => lineAt(offsetOf(document, path));
  const syntax = broken.map(({ offset, message }) => ({ line: lineAt(offset), message }));
  const failed = (message: string, line = 1): ReadText => ({
    fields: null,
    problems: [...syntax, { line, message }],
    warnings: [],
    lineOf,
  });
  if (document.errors.length > 0) return { fields: null, problems: syntax, warnings: [], lineOf };
  if (document.contents !== null && !isMap(document.contents))
    return failed('Expected fields, each on its own line: name: value', lineOf([]));
  const all = resolveAliases(document);
  if (typeof all === 'string') return failed(all);
  const { kind: writtenKind = kind, name: writtenName = name, ...fields } = { ...all, ...more };
  const mismatches = [
    ...(kindOf(String(writtenKind)) === kind
      ? []
      : [
          {
            line: lineOf(['kind']),
            message: `The kind can't be changed from ${kind}. Create a new resource.`,
          },
        ]),
    ...(writtenName === name
      ? []
      : [
          {
            line: lineOf(['name']),
            message: `The name can't be changed from ${name}. Create a new resource.`,
          },
        ]),
  ];
  const wrong = schemaProblems(kind, fields).map(({ path, message }) => ({ line: lineOf(path), message }));
  const problems = [...syntax, ...mismatches, ...wrong].sort((a, b) => a.line - b.line);
  const warnings = linesOf(
    unknownFields(kind, fields).map((warning) => ({ ...warning, field: `payload.${warning.field}` })),
    lineOf,
  );
  const isReadable = syntax.length === 0 && mismatches.length === 0;
  return { fields: isReadable ? fields : null, problems, warnings, lineOf };
}

/** Where each line of a text begins. */
const lineStarts = (text: string): readonly number[] => [
  0,
  ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1),
];

/** The line of an offset, counted from 1. */
const lineIn = (starts: readonly number[], offset: number): number =>
  Math.max(1, starts.findLastIndex((start) => start <= offset) + 1);

/** What the service says about fields of the payload, by line. */
export const linesOf = (
  violations: readonly { readonly field: string; readonly description: string }[],
  lineOf: ReadText['lineOf'],
): readonly LineProblem[] =>
  violations.flatMap(({ field, description }) => {
    const path = payloadPath(field);
    const subject = field.replace(/^payload\.?/, '') || 'The document';
    return path ? [{ line: lineOf(path), message: `${subject} ${description}` }] : [];
  });

/** The fields of a document that is a map or empty, or why its aliases can't be resolved. */
function resolveAliases(document: Document): Fields | string {
  try {
    return (document.toJS() ?? {}) as Fields;
  } catch (error) {
    return error instanceof ReferenceError && /Unresolved/.test(error.message)
      ? 'An alias (*) has no anchor (&) of its name.'
      : 'The aliases (* and &) expand to more than can be stored.';
  }
}

/** The offset of the deepest part of the path that exists in the text. */
function offsetOf(document: Document, path: FieldPath): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? (node.range?.[0] ?? 0) : 0;
  for (const part of path) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => String(isNode(key) ? key.toJSON() : key) === String(part));
      if (!pair) return offset;
      offset = (isNode(pair.key) ? pair.key.range?.[0] : undefined) ?? offset;
      node = pair.value;
    } else if (isSeq(node)) {
      node = node.items[Number(part)];
      if (!isNode(node)) return offset;
      offset = node.range?.[0] ?? offset;
    } else return offset;
  }
  return offset;
}

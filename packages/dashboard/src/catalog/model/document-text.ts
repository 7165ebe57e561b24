import {
  type Kind,
  kindOf,
  limits,
  proseOf,
  resourceText,
  sealedFieldOf,
  splitFrontMatter,
  unknownFields,
} from '@muster/sdk/contract';
import {
  type Document,
  isMap,
  isNode,
  isSeq,
  LineCounter,
  parseDocument,
  stringify,
  type YAMLParseError,
} from 'yaml';
import { type FieldPath, schemaProblems } from './document-schema.ts';

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

interface ReadText {
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

/** The text to send with a document; empty if it can't be stored: of a secret, because it may have the value. */
export const storableText = (kind: Kind, text: string): string =>
  sealedFieldOf(kind) || new TextEncoder().encode(text).length > limits.documentTextBytes ? '' : text;

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
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const lineAt = (offset: number) => Math.max(1, lines.linePos(offset).line) + linesAbove;
  const lineOf = (path: FieldPath) => lineAt(offsetOf(document, path));
  const broken = document.errors.map((error) => ({
    line: lineAt(error.pos[0]),
    message: yamlErrorText(error),
  }));
  if (broken.length > 0) return { fields: null, problems: broken, warnings: [], lineOf };
  if (document.contents !== null && !isMap(document.contents)) {
    const message = 'Expected fields, each on its own line: name: value';
    return { fields: null, problems: [{ line: lineOf([]), message }], warnings: [], lineOf };
  }
  const all = resolveAliases(document);
  if (all === null) {
    const message = 'The aliases (* and &) expand to more than can be stored.';
    return { fields: null, problems: [{ line: 1, message }], warnings: [], lineOf };
  }
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
  const problems = [...mismatches, ...wrong].sort((a, b) => a.line - b.line);
  const warnings = linesOf(
    unknownFields(kind, fields).map((warning) => ({ ...warning, field: `payload.${warning.field}` })),
    lineOf,
  );
  return { fields: mismatches.length > 0 ? null : fields, problems, warnings, lineOf };
}

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

/** The fields of a document that is a map or empty; null if its aliases expand too far. */
function resolveAliases(document: Document): Fields | null {
  try {
    return (document.toJS() ?? {}) as Fields;
  } catch {
    return null;
  }
}

/** Own texts for frequent mistakes; the parser's texts for the others. */
function yamlErrorText({ code, message }: Pick<YAMLParseError, 'code' | 'message'>): string {
  if (code === 'DUPLICATE_KEY') return 'Duplicate field.';
  if (code === 'TAB_AS_INDENT') return 'Indent with spaces, not tabs.';
  if (code === 'MULTIPLE_DOCS')
    return 'Only one document is allowed. Remove the line --- and everything after it.';
  if (message.startsWith('Implicit map keys need'))
    return 'Expected a colon after the field name, as in name: value';
  return message;
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

import { type Kind, kindOf, resourceText, splitFrontMatter } from '@muster/sdk/contract';
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
import type { FieldPath } from './field-path.ts';
import { schemaProblems } from './schema-problems.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Something wrong in a text, and on which of its lines, counted from 1. */
export interface LineProblem {
  readonly line: number;
  readonly message: string;
}

/** What a text says, as far as it can be read. */
export interface ReadText {
  /** What is to be stored, without kind and name; null when the text can't be read, or is of another resource. */
  readonly fields: Fields | null;
  readonly problems: readonly LineProblem[];
  /** The line of a value, or of what it stands in where it has none of its own. */
  readonly lineOf: (path: FieldPath) => number;
}

export const textOf = (kind: Kind, name: string, document: Fields): string =>
  resourceText(kind, name, document, (fields) => stringify(fields));

/** Takes a text apart, tells what is wrong with it, and never throws. */
export function readText(kind: Kind, name: string, text: string): ReadText {
  if (kind !== 'persona') return readYaml(kind, name, text, 0, {});
  const { settings, body, linesAbove } = splitFrontMatter(text);
  if (linesAbove === 0 && /^---[ \t]*\r?$/m.exec(text)?.index === 0) {
    const message = 'The settings have no end: put a line --- behind them.';
    return { fields: null, problems: [{ line: 1, message }], lineOf: () => 1 };
  }
  const bodyLine = text.slice(0, text.length - body.length).split('\n').length;
  const read = readYaml(kind, name, settings, linesAbove, { instructions: body.trim() });
  return { ...read, lineOf: (path) => (path[0] === 'instructions' ? bodyLine : read.lineOf(path)) };
}

function readYaml(kind: Kind, name: string, text: string, linesAbove: number, more: Fields): ReadText {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const lineAt = (offset: number) => Math.max(1, lines.linePos(offset).line) + linesAbove;
  const lineOf = (path: FieldPath) => lineAt(offsetOf(document, path));
  const broken = document.errors.map((error) => ({ line: lineAt(error.pos[0]), message: yamlWords(error) }));
  if (broken.length > 0) return { fields: null, problems: broken, lineOf };
  if (document.contents !== null && !isMap(document.contents)) {
    const message = 'A document is a list of fields, each on its own line: name: value';
    return { fields: null, problems: [{ line: lineOf([]), message }], lineOf };
  }
  const all = unfolded(document);
  if (all === null) {
    const message = 'Its references (* and &) lead to more than can be stored.';
    return { fields: null, problems: [{ line: 1, message }], lineOf };
  }
  const { kind: writtenKind = kind, name: writtenName = name, ...fields } = { ...all, ...more };
  const strays = [
    ...(kindOf(String(writtenKind)) === kind
      ? []
      : [{ line: lineOf(['kind']), message: `The kind stays ${kind}. Another kind is another resource.` }]),
    ...(writtenName === name
      ? []
      : [{ line: lineOf(['name']), message: `The name stays ${name}. Another name is another resource.` }]),
  ];
  const wrong = schemaProblems(kind, fields).map(({ path, message }) => ({ line: lineOf(path), message }));
  const problems = [...strays, ...wrong].sort((a, b) => a.line - b.line);
  return { fields: strays.length > 0 ? null : fields, problems, lineOf };
}

/** The fields of a document that is a map or empty; null when it can't be unfolded. */
function unfolded(document: Document): Fields | null {
  try {
    return (document.toJS() ?? {}) as Fields;
  } catch {
    return null;
  }
}

/** Mistakes that people make often, in their words; the others in those of the parser. */
function yamlWords({ code, message }: Pick<YAMLParseError, 'code' | 'message'>): string {
  if (code === 'DUPLICATE_KEY') return 'This field is there twice.';
  if (code === 'TAB_AS_INDENT') return 'Indent with spaces, not with tabs.';
  if (code === 'MULTIPLE_DOCS') return 'A text is one resource: take out the line --- and what follows it.';
  if (message.startsWith('Implicit map keys need'))
    return 'A field needs a colon behind its name, as in name: value';
  return message;
}

/** Where the deepest part of a path begins that the text has: a field at its name, an item at itself. */
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

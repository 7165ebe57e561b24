import { type Kind, kindOf } from './kinds.ts';
import { markdownKind, proseOf, splitFrontMatter } from './resource-text.ts';

type Fields = Readonly<Record<string, unknown>>;

interface Pair {
  key: unknown;
  value: unknown;
}

/** A parsed document of the library `yaml`, as far as it is used here. */
interface YamlDocument {
  contents: unknown;
  readonly errors: readonly { readonly message: string; readonly pos: readonly [number, number] }[];
  toJS(): unknown;
  toString(options: { readonly lineWidth: number }): string;
  createNode(value: unknown): unknown;
  createPair(key: unknown, value: unknown): unknown;
}

/** The library `yaml`. The sdk has no dependencies, so its callers pass it. */
export interface YamlLibrary {
  parseDocument(
    text: string,
    options: { readonly uniqueKeys: false; readonly logLevel: 'silent' },
  ): YamlDocument;
  isMap(node: unknown): boolean;
  isSeq(node: unknown): boolean;
  isScalar(node: unknown): boolean;
  isAlias(node: unknown): boolean;
}

interface ParsedText {
  /** With kind and name, if the text has them. */
  readonly fields: Fields;
  /** The text with these fields instead, which keeps comments; null where it can't be changed. */
  readonly withFields: (fields: Fields) => string | null;
}

/** Parses the text of a resource. What is wrong with it is named by its line and never quoted: it may have a secret. */
export function parseDocumentText(
  yaml: YamlLibrary,
  kind: Kind,
  text: string,
): ParsedText | { readonly problem: string } {
  const prose = proseOf(kind);
  const { settings, body, linesAbove } =
    prose === undefined ? { settings: text, body: '', linesAbove: 0 } : splitFrontMatter(text);
  const document = yaml.parseDocument(settings, { uniqueKeys: false, logLevel: 'silent' });
  const [error] = document.errors;
  if (error) {
    const line = settings.slice(0, error.pos[0]).split('\n').length + linesAbove;
    return { problem: `is not valid YAML in line ${line}` };
  }
  if (document.contents !== null && !yaml.isMap(document.contents))
    return { problem: 'must have fields, such as name: value' };
  if (hasDuplicates(yaml, document.contents)) return { problem: 'has the same field twice' };
  const written = (document.toJS() ?? {}) as Fields;
  return {
    fields: prose === undefined ? written : { ...written, [prose]: body.trim() },
    withFields: (fields) => {
      if (prose === undefined) return changed(yaml, document, fields);
      const { [prose]: newBody, ...rest } = fields;
      const bodyText = String(newBody ?? '').trim();
      const kept = bodyText === body.trim() ? body : `${bodyText}\n`;
      const front = Object.keys(rest).length === 0 ? '' : changed(yaml, document, rest);
      if (front === null) return null;
      return front === '' && linesAbove === 0 ? kept : `---\n${front}---\n${kept}`;
    },
  };
}

/** What the text of a resource says, without its kind and its name; or that it is about another resource. */
export function fieldsInText(
  kind: Kind,
  name: string,
  fields: Fields,
): Fields | { readonly problem: string } {
  const { kind: writtenKind = kind, name: writtenName = name, ...rest } = fields;
  if (typeof writtenKind !== 'string' || kindOf(writtenKind) !== kind)
    return { problem: `has another kind; expected ${kind}` };
  return writtenName === name ? rest : { problem: `has another name; expected ${name}` };
}

/** The fields of a text about this resource: those of its document, with the kind and the name that it says itself. */
export const withHeader = (kind: Kind, written: Fields, name: string, document: Fields): Fields => ({
  ...(('kind' in written || kind !== markdownKind) && { kind: written.kind ?? kind }),
  name,
  ...document,
});

function changed(yaml: YamlLibrary, document: YamlDocument, fields: Fields): string | null {
  if (hasAlias(yaml, document.contents)) return null;
  if (document.contents === null) document.contents = document.createNode({});
  setFields(yaml, document, document.contents as { items: Pair[] }, fields);
  return document.toString({ lineWidth: 0 });
}

/** Changes only what differs, so that comments of everything else stay. */
function setFields(yaml: YamlLibrary, document: YamlDocument, map: { items: Pair[] }, fields: Fields): void {
  const left = new Set(Object.keys(fields));
  map.items = map.items.filter((pair) => {
    const name = keyOf(yaml, pair);
    if (!left.delete(name)) return false;
    pair.value = valued(yaml, document, pair.value, fields[name]);
    return true;
  });
  for (const name of left) map.items.push(document.createPair(name, fields[name]) as Pair);
}

/** The node itself with another value where that is possible, otherwise a new one. */
function valued(yaml: YamlLibrary, document: YamlDocument, node: unknown, value: unknown): unknown {
  if (isSame(yaml, node, value)) return node;
  if (yaml.isMap(node) && isFields(value)) {
    setFields(yaml, document, node as { items: Pair[] }, value);
    return node;
  }
  if (yaml.isSeq(node) && Array.isArray(value)) {
    const seq = node as { items: unknown[] };
    seq.items = itemsWith(yaml, document, seq.items, value);
    return node;
  }
  if (yaml.isScalar(node) && (typeof value !== 'object' || value === null)) {
    const scalar = node as { value: unknown; source?: string | undefined; format?: string | undefined };
    scalar.value = value;
    // How the old value was written says nothing about the new one.
    scalar.source = undefined;
    scalar.format = undefined;
    return node;
  }
  return document.createNode(value);
}

/** Entries that are the same at the beginning and at the end stay; those in between are matched in their order. */
function itemsWith(
  yaml: YamlLibrary,
  document: YamlDocument,
  items: readonly unknown[],
  values: readonly unknown[],
): unknown[] {
  let start = 0;
  while (start < items.length && start < values.length && isSame(yaml, items[start], values[start]))
    start += 1;
  let end = 0;
  const most = Math.min(items.length, values.length) - start;
  while (end < most && isSame(yaml, items[items.length - 1 - end], values[values.length - 1 - end])) end += 1;
  const between = items.slice(start, items.length - end);
  return [
    ...items.slice(0, start),
    ...values
      .slice(start, values.length - end)
      .map((value, at) =>
        at < between.length ? valued(yaml, document, between[at], value) : document.createNode(value),
      ),
    ...items.slice(items.length - end),
  ];
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const keyOf = (yaml: YamlLibrary, { key }: Pair): string =>
  String(yaml.isScalar(key) ? (key as { value: unknown }).value : key);

function isSame(yaml: YamlLibrary, node: unknown, value: unknown): boolean {
  if (yaml.isMap(node)) {
    const { items } = node as { items: readonly Pair[] };
    return (
      isFields(value) &&
      items.length === Object.keys(value).length &&
      items.every((pair) => {
        const key = keyOf(yaml, pair);
        return Object.hasOwn(value, key) && isSame(yaml, pair.value, value[key]);
      })
    );
  }
  if (yaml.isSeq(node)) {
    const { items } = node as { items: readonly unknown[] };
    return (
      Array.isArray(value) &&
      items.length === value.length &&
      items.every((item, at) => isSame(yaml, item, value[at]))
    );
  }
  const scalar = yaml.isScalar(node) ? (node as { value: unknown }).value : node;
  return (scalar ?? null) === value;
}

/** Whether any node refers to another one: a change of one would be a change of both. */
function hasAlias(yaml: YamlLibrary, node: unknown): boolean {
  if (yaml.isAlias(node)) return true;
  return childrenOf(yaml, node).some((child) => hasAlias(yaml, child));
}

function hasDuplicates(yaml: YamlLibrary, node: unknown): boolean {
  if (yaml.isMap(node)) {
    const { items } = node as { items: readonly Pair[] };
    if (new Set(items.map((pair) => keyOf(yaml, pair))).size < items.length) return true;
  }
  return childrenOf(yaml, node).some((child) => hasDuplicates(yaml, child));
}

function childrenOf(yaml: YamlLibrary, node: unknown): readonly unknown[] {
  if (yaml.isMap(node)) return (node as { items: readonly Pair[] }).items.map(({ value }) => value);
  return yaml.isSeq(node) ? (node as { items: readonly unknown[] }).items : [];
}

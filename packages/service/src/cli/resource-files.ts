import { readdirSync, statSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import {
  type Kind,
  kindOf,
  kinds,
  kindTable,
  limits,
  markdownKind,
  proseOf,
  resourceText,
  sealedFieldOf,
  splitFrontMatter,
} from '@muster/sdk/contract';
import { Document, isMap, parseAllDocuments, stringify } from 'yaml';
import { usageError } from './errors.ts';
import { fileText, pipedText } from './input.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A catalog resource in a file: YAML, or Markdown with front matter. */
export interface ResourceFile {
  readonly kind: Kind;
  readonly name: string;
  readonly fields: Fields;
  /** As its author wrote it, with comments; empty where it can't be stored. */
  readonly text: string;
  /** The file's name, for errors. */
  readonly from: string;
}

const extensions = ['.yaml', '.yml', '.json', '.md'];

/** Reads files, folders of files, and standard input for `-`. */
export async function readResourceFiles(
  paths: readonly string[],
  signal: AbortSignal,
): Promise<ResourceFile[]> {
  const found: ResourceFile[] = [];
  for (const path of paths) {
    if (path === '-') found.push(...parseResources(await pipedText(signal), 'standard input', ''));
    else
      for (const file of filesOf(path))
        found.push(...parseResources(fileText(file), file, basename(file, extname(file))));
  }
  return found;
}

function filesOf(path: string): string[] {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) throw usageError(`${path} does not exist`);
  if (!found.isDirectory()) return [path];
  return readdirSync(path)
    .sort()
    .map((name) => join(path, name))
    .flatMap((inner) =>
      statSync(inner).isDirectory() ? filesOf(inner) : extensions.includes(extname(inner)) ? [inner] : [],
    );
}

export function parseResources(text: string, from: string, name: string): ResourceFile[] {
  if (/\.md$/.test(from)) {
    const { settings, body, linesAbove } = splitFrontMatter(text);
    const [parsed = new Document({})] = parseYaml(settings, from, linesAbove);
    const fields = fieldsOf(parsed);
    const { kind = markdownKind } = fields;
    const prose = proseOf(String(kind)) ?? 'instructions';
    const textNamed = () => `---\n${namedText(parsed, fields, name)}---\n${body}`;
    const whole = { ...fields, kind, [prose]: body.trim() };
    return [resource(whole, () => (fields.name === undefined ? textNamed() : text), from, name)];
  }
  const documents = parseYaml(text, from, 0);
  return documents.map((document) => {
    const fields = fieldsOf(document);
    const isWhole = documents.length === 1 && fields.name !== undefined && !/^---/m.test(text);
    return resource(fields, () => (isWhole ? text : namedText(document, fields, name)), from, name);
  });
}

/** The text of one of several documents, or of one that leaves out its name. */
function namedText(document: Document, fields: Fields, name: string): string {
  if (fields.name === undefined) document.set('name', name);
  return String(document).replace(/^---\n|\n\.\.\.\s*$/g, '');
}

const fieldsOf = (document: Document): Fields => (document.toJS() ?? {}) as Fields;

function parseYaml(text: string, from: string, linesAbove: number): Document[] {
  return parseAllDocuments(text, { prettyErrors: true }).flatMap((document) => {
    const [error] = document.errors;
    if (error) {
      const line = (error.linePos?.[0].line ?? 1) + linesAbove;
      throw usageError(`${from}:${line}: ${error.message.split('\n', 1)[0]}`);
    }
    // A separator after the last document.
    if (document.toJS() === null) return [];
    if (!isMap(document.contents))
      throw usageError(`${from}: expected a mapping of fields, such as kind: workspace`);
    return [document as Document];
  });
}

function resource(fields: Fields, textOf: () => string, from: string, fallback: string): ResourceFile {
  const { kind, name = fallback, ...rest } = fields;
  if (typeof kind !== 'string' || kind === '')
    throw usageError(`${from}: the field kind is missing; expected one of ${kinds.join(', ')}`);
  const known = kindOf(kind);
  if (!known) throw usageError(`${from}: unknown kind "${kind}"; expected one of ${kinds.join(', ')}`);
  if (typeof name !== 'string' || name === '')
    throw usageError(`${from}: the field name is missing; expected text, such as name: default`);
  // A file with the value of a secret is not stored, JSON has no comments, and a text is in the format of its kind.
  const isOfKind = (proseOf(known) !== undefined) === /\.md$/.test(from) && extname(from) !== '.json';
  const text = sealedFieldOf(known) || !isOfKind ? '' : withoutServerFields(known, textOf());
  const isStored = Buffer.byteLength(text) <= limits.documentTextBytes;
  return { kind: known, name, fields: rest, text: isStored ? text : '', from };
}

/** The text of a file for a stored document: as its author wrote it, if that is stored. */
export const formatResource = (kind: string, name: string, document: Fields, text = ''): string =>
  text || resourceText(kind, name, document, (fields) => stringify(fields));

/** Fields that the service sets and lists in a column, such as the address of a webhook. */
function listedServerFields(kindName: string): readonly string[] {
  const kind = kindOf(kindName);
  const { columns = {}, serverFields = [] } = kind ? kindTable[kind] : {};
  return Object.values(columns).filter((field) => serverFields.includes(field));
}

/** What the service has set of these in a document. */
export const ownServerFields = (kind: string, document: Fields): Record<string, unknown> =>
  Object.fromEntries(
    listedServerFields(kind)
      .filter((field) => field in document)
      .map((field) => [field, document[field]]),
  );

/** Without the comments that `muster get` prints above a text. */
const withoutServerFields = (kind: string, text: string): string =>
  listedServerFields(kind).reduce((left, field) => left.replace(new RegExp(`^# ${field}: .*\\n`), ''), text);

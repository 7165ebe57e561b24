import { readdirSync, statSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { type Kind, kindOf, kinds, resourceText, splitFrontMatter } from '@muster/sdk/contract';
import { isMap, parseAllDocuments, stringify } from 'yaml';
import { CommandError, exitCodes } from './exit-codes.ts';
import { fileText, pipedText } from './settings.ts';

/** A catalog resource as people keep it: YAML, or for a persona Markdown with its settings in front. */
export interface ResourceFile {
  readonly kind: Kind;
  readonly name: string;
  readonly fields: Readonly<Record<string, unknown>>;
  /** Where it came from, for messages. */
  readonly from: string;
}

const extensions = ['.yaml', '.yml', '.json', '.md'];

/** Files, folders with such files in them, or `-` for standard input. */
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
  if (!found) throw new CommandError(`${path} does not exist`, exitCodes.usage);
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
    const [fields] = parseYaml(settings, from, linesAbove);
    return [resource({ kind: 'persona', ...fields, instructions: body.trim() }, from, name)];
  }
  return parseYaml(text, from, 0).map((fields) => resource(fields, from, name));
}

function parseYaml(text: string, from: string, linesAbove: number): Record<string, unknown>[] {
  return parseAllDocuments(text, { prettyErrors: true }).flatMap((document) => {
    const [error] = document.errors;
    if (error) {
      const line = (error.linePos?.[0].line ?? 1) + linesAbove;
      throw new CommandError(`${from}:${line}: ${error.message.split('\n', 1)[0]}`, exitCodes.usage);
    }
    // Nothing but a separator, as behind the last document.
    if (document.toJS() === null) return [];
    if (!isMap(document.contents))
      throw new CommandError(`${from}: a document is a list of fields`, exitCodes.usage);
    return [document.toJS() as Record<string, unknown>];
  });
}

function resource(fields: Readonly<Record<string, unknown>>, from: string, fallback: string): ResourceFile {
  const { kind, name = fallback, ...rest } = fields;
  if (typeof kind !== 'string' || kind === '')
    throw new CommandError(`${from}: say which kind it is: kind: workspace`, exitCodes.usage);
  const known = kindOf(kind);
  if (!known)
    throw new CommandError(
      `${from}: there is no kind "${kind}"; there are ${kinds.join(', ')}`,
      exitCodes.usage,
    );
  if (typeof name !== 'string' || name === '')
    throw new CommandError(`${from}: say its name: name: default`, exitCodes.usage);
  return { kind: known, name, fields: rest, from };
}

/** A stored document as its file would be. */
export const formatResource = (
  kind: string,
  name: string,
  document: Readonly<Record<string, unknown>>,
): string => resourceText(kind, name, document, (fields) => stringify(fields));

import type { Kind } from './resource.ts';

/**
 * A catalog resource as people keep it: YAML, or for a persona Markdown with its settings in front. The command line
 * and the page write it alike; each brings its own YAML.
 */
type Fields = Readonly<Record<string, unknown>>;

/** Set by the service; they are no part of what somebody wrote. */
export const serverFields: readonly string[] = ['createdAt', 'createdBy', 'updatedAt', 'updatedBy', 'keyId'];

/** Without what the service adds. */
export const writtenFields = (document: Fields): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(document).filter(([field]) => field !== 'name' && !serverFields.includes(field)),
  );

/** A stored document as its file would be. */
export function resourceText(
  kind: Kind | (string & {}),
  name: string,
  document: Fields,
  toYaml: (fields: Fields) => string,
): string {
  const fields = writtenFields(document);
  if (kind !== 'persona') return toYaml({ kind, name, ...fields });
  const { instructions, ...settings } = fields;
  return `---\n${toYaml({ name, ...settings })}---\n${String(instructions ?? '').trim()}\n`;
}

export interface FrontMatter {
  /** YAML. */
  readonly settings: string;
  readonly body: string;
  /** How many lines stand above the settings, so that their lines can be told by the number they have in the file. */
  readonly linesAbove: number;
}

const frontMatter = /^---[ \t]*\r?\n((?:[\s\S]*?\r?\n)?)---[ \t]*(?:\r?\n|$)([\s\S]*)$/;

/** Takes the settings in front of a Markdown text apart from it; a text without any is all body. */
export function splitFrontMatter(text: string): FrontMatter {
  const [, settings = '', body = text] = frontMatter.exec(text) ?? [];
  return { settings, body, linesAbove: body === text ? 0 : 1 };
}

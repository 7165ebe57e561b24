import { type Kind, kindOf, kindTable, serverFieldsOf } from './kinds.ts';

type Fields = Readonly<Record<string, unknown>>;

/** The kind of a Markdown file that does not say its kind. */
export const markdownKind: Kind = 'persona';

/** The field that is the text of a Markdown file; undefined if files of the kind are YAML. */
export function proseOf(kindName: string): string | undefined {
  const kind = kindOf(kindName);
  return kind && kindTable[kind].prose;
}

/** The document without the fields that the service sets. */
export function writtenFields(kind: string, document: Fields): Record<string, unknown> {
  const known = kindOf(kind);
  const left = ['name', ...(known ? serverFieldsOf(known) : [])];
  return Object.fromEntries(Object.entries(document).filter(([field]) => !left.includes(field)));
}

/** The document as a file: YAML, or of a kind with prose Markdown with the other fields as front matter. */
export function resourceText(
  kind: string,
  name: string,
  document: Fields,
  toYaml: (fields: Fields) => string,
): string {
  const fields = writtenFields(kind, document);
  const prose = proseOf(kind);
  if (prose === undefined) return toYaml({ kind, name, ...fields });
  const { [prose]: body, ...settings } = fields;
  const isUsual = kind === markdownKind;
  return `---\n${toYaml({ ...(!isUsual && { kind }), name, ...settings })}---\n${String(body ?? '').trim()}\n`;
}

export interface FrontMatter {
  /** YAML. */
  readonly settings: string;
  readonly body: string;
  /** Lines of the file before the settings, to compute line numbers in errors. */
  readonly linesAbove: number;
}

const frontMatter = /^---[ \t]*\r?\n((?:[\s\S]*?\r?\n)?)---[ \t]*(?:\r?\n|$)([\s\S]*)$/;

/** Splits a Markdown text into front matter and body. */
export function splitFrontMatter(text: string): FrontMatter {
  const [, settings = '', body = text] = frontMatter.exec(text) ?? [];
  return { settings, body, linesAbove: body === text ? 0 : 1 };
}

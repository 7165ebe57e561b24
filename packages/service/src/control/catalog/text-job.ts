import { isDeepStrictEqual } from 'node:util';
import { fieldsInText, type Kind, parseDocumentText, proseOf, withHeader } from '@muster/sdk/contract';
import * as yaml from 'yaml';
import type { Document } from './document.ts';

/** Documents are JSON here, so that a job is quickly copied to its thread. */
export interface TextJob {
  readonly kind: Kind;
  readonly name: string;
  readonly text: string;
  /** What the text must say; absent for a stored text, which is changed to say what is in `document`. */
  readonly payload?: string;
  /** What the text says in the end. */
  readonly document: string;
}

/** The text is null if it can't be changed to say what the document does. */
export type TextAnswer =
  | { readonly type: 'done'; readonly text: string | null }
  | { readonly type: 'bad-text'; readonly message: string };

export function doTextJob({ kind, name, text, payload, document: json }: TextJob): TextAnswer {
  const parsed = parseDocumentText(yaml, kind, text);
  if ('problem' in parsed) return { type: 'bad-text', message: parsed.problem };
  // As JSON has it, like the payload.
  const said = fieldsInText(kind, name, JSON.parse(JSON.stringify(parsed.fields)));
  if ('problem' in said) return { type: 'bad-text', message: String(said.problem) };
  const fields = comparable(kind, said);
  if (payload !== undefined) {
    const meant = fieldsInText(kind, name, JSON.parse(payload));
    if ('problem' in meant || !isDeepStrictEqual(fields, comparable(kind, meant)))
      return { type: 'bad-text', message: 'must say the same as the payload' };
  }
  const document: Document = JSON.parse(json);
  if (isDeepStrictEqual(fields, comparable(kind, document))) return { type: 'done', text };
  return { type: 'done', text: parsed.withFields(withHeader(kind, parsed.fields, name, document)) };
}

/** White space around prose does not count: a text ends with a line break. */
function comparable(kind: Kind, fields: Readonly<Record<string, unknown>>): Document {
  const prose = proseOf(kind);
  if (prose === undefined) return fields;
  const body = fields[prose] ?? '';
  return { ...fields, [prose]: typeof body === 'string' ? body.trim() : body };
}

import { limits } from '@muster/sdk/contract';
import { invalid, type Refusal } from '../../domain/refusal.ts';
import { cutText } from '../../lib/cut-text.ts';
import { isObject, unsafePlace, unstorableNumber } from '../../lib/json.ts';

export type Document = Record<string, unknown>;

const storableNumbers =
  "integers may be from -(2^53-1) to 2^53-1, other numbers within a double's range; use a string";

const base64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

/** A payload into the document it carries. Both base64 alphabets and white space are read; empty is `{}`. */
export function decodePayload(payload: string): Document | Refusal {
  const packed = payload.replace(/\s+/g, '');
  const bare = packed.replace(/={1,2}$/, '');
  if (!base64.test(packed)) {
    const other = /[^A-Za-z0-9+/_-]/.exec(bare)?.[0] ?? '=';
    return invalid('payload', `must be base64; got the character ${shown(other)}`);
  }
  if (bare.length % 4 === 1)
    return invalid('payload', `must be base64; got ${bare.length} characters, which are incomplete`);
  const bytes = Buffer.from(bare, 'base64');
  if (bytes.length > limits.documentBytes) {
    const expected = `must be at most ${limits.documentBytes} bytes when decoded`;
    return invalid('payload', `${expected}; got ${bytes.length}`);
  }
  if (bytes.length === 0) return {};
  let document: unknown;
  let text: string | undefined;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    document = JSON.parse(text);
  } catch {
    // Not the parser's text, which quotes the document: it may have the value of a secret.
    const found = text === undefined ? 'bytes that are not UTF-8' : 'text that is not JSON';
    return invalid('payload', `must be base64 of a JSON object; got ${found}`);
  }
  if (!isObject(document))
    return invalid('payload', `must be base64 of a JSON object; got ${typeText(document)}`);
  const number = unstorableNumber(text);
  if (number !== null)
    return invalid('payload', `the number ${number} can't be kept as it is: ${storableNumbers}`);
  const unsafe = unsafePlace(document, limits.documentDepth);
  return unsafe ? invalid(unsafe.path ? `payload.${unsafe.path}` : 'payload', unsafe.problem) : document;
}

const shownLength = 100;

/** A received value, as errors show it. */
export const shown = (value: unknown): string =>
  typeof value === 'string' ? JSON.stringify(cutText(value, shownLength).text) : typeText(value);

export const typeText = (value: unknown): string => {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
};

export const encodePayload = (document: Document): string =>
  Buffer.from(JSON.stringify(document)).toString('base64');

/** The document itself if it has none of these fields, because a copy of very many fields is expensive. */
export function without(document: Document, fields: readonly string[]): Document {
  if (!fields.some((field) => Object.hasOwn(document, field))) return document;
  const left: Document = {};
  for (const field in document) if (!fields.includes(field)) left[field] = document[field];
  return left;
}

/**
 * Texts with places for values of a request: `{{body.a.b}}`, `{{header.x}}`, `{{query.x}}`. A text is split once, before a
 * request comes, so that nothing in a value is ever taken for such a place.
 */
export interface RequestValues {
  readonly body: unknown;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
}

export interface RequestPath {
  readonly root: 'body' | 'header' | 'query';
  readonly keys: readonly string[];
  /** As it is written, without braces. */
  readonly text: string;
}

export type TemplatePart = string | RequestPath;

/** What is wrong with a path or a template. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError';
}

const mostPathLength = 256;
const mostKeys = 20;
const headerName = /^[a-z0-9-]+$/;
/** Their values may prove who sent the request. */
const secretHeader = /authorization|cookie|token|signature|secret|password|api-?key/;

export const isSecretHeader = (name: string): boolean => secretHeader.test(name);

export function parsePath(given: string): RequestPath {
  const text = given.trim();
  const shown = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  const fail = (expected: string): never => {
    throw new TemplateError(`expected ${expected}; got "${shown}"`);
  };
  if (text.length > mostPathLength) fail(`at most ${mostPathLength} characters`);
  const [root, ...keys] = text.split('.');
  if (root !== 'body' && root !== 'header' && root !== 'query') return fail('body.a.b, header.x or query.x');
  if (keys.length > mostKeys) fail(`at most ${mostKeys} names after "body"`);
  if (keys.some((key) => key === '' || /[\s{}]/.test(key)))
    fail('names without white space and braces, separated by single dots');
  if (root === 'body') return { root, keys, text };
  if (keys.length !== 1) fail(`one name after "${root}"`);
  if (root === 'query') return { root, keys, text };
  const name = (keys[0] ?? '').toLowerCase();
  if (!headerName.test(name)) fail('the name of a header');
  if (isSecretHeader(name)) fail('a header without a secret: this one is not stored');
  return { root, keys: [name], text };
}

export function parseTemplate(text: string): readonly TemplatePart[] {
  const parts: TemplatePart[] = [];
  let at = 0;
  for (let open = text.indexOf('{{'); open >= 0; open = text.indexOf('{{', at)) {
    const close = text.indexOf('}}', open);
    if (close < 0) throw new TemplateError('"{{" must be closed with "}}"');
    if (open > at) parts.push(text.slice(at, open));
    parts.push(parsePath(text.slice(open + 2, close)));
    at = close + 2;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

/** What a request has there, as a text; empty if it has nothing. */
export function textAt({ body, headers, query }: RequestValues, { root, keys }: RequestPath): string {
  const start = root === 'body' ? body : root === 'header' ? headers : query;
  let value: unknown = start;
  for (const key of keys) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return '';
    value = (value as Record<string, unknown>)[key];
  }
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? jsonOf(value) : String(value);
}

/** Indenting a value of many levels could make it a hundred times as long. */
const mostIndented = 16 * 1024;

function jsonOf(value: object): string {
  const text = JSON.stringify(value);
  return text.length <= mostIndented ? JSON.stringify(value, null, 2) : text;
}

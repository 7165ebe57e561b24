import { limits } from './limits.ts';

/**
 * The TypeScript type of a JSON Schema written as an `as const` literal.
 * Supports only the keywords that this contract uses; anything else is `unknown`.
 */
export type Infer<S> = S extends { readonly const: infer C }
  ? C
  : S extends { readonly enum: readonly (infer E)[] }
    ? E
    : S extends { readonly anyOf: readonly (infer A)[] }
      ? Infer<A>
      : S extends { readonly type: readonly (infer T)[] }
        ? OfType<T, S>
        : S extends { readonly type: infer T }
          ? OfType<T, S>
          : unknown;

type OfType<T, S> = T extends 'string'
  ? string
  : T extends 'integer' | 'number'
    ? number
    : T extends 'boolean'
      ? boolean
      : T extends 'null'
        ? null
        : T extends 'array'
          ? S extends { readonly items: infer I }
            ? Infer<I>[]
            : unknown[]
          : T extends 'object'
            ? OfObject<S>
            : never;

type OfObject<S> = S extends { readonly properties: infer P }
  ? S extends { readonly required: readonly (infer R)[] }
    ? { [K in keyof P as K extends R ? K : never]: Infer<P[K]> } & {
        [K in keyof P as K extends R ? never : K]?: Infer<P[K]> | undefined;
      }
    : { [K in keyof P]?: Infer<P[K]> | undefined }
  : S extends { readonly additionalProperties: infer A }
    ? Record<string, Infer<A>>
    : Record<string, unknown>;

/** A JSON Schema of the contract; `expected` is what an error says is accepted. */
export interface Schema {
  readonly title?: string;
  readonly description?: string;
  readonly expected?: string;
  /** The text is the name of a resource of this kind of the catalog. */
  readonly names?: string;
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly additionalProperties?: boolean | Schema;
  readonly [keyword: string]: unknown;
}

/** A request: every field is optional. */
export const request = <const P extends Record<string, Schema>>(title: string, properties: P) => ({
  title,
  type: 'object' as const,
  properties,
});

/** A request of which some fields are required. */
export const requestWith = <const P extends Record<string, Schema>, const R extends keyof P>(
  title: string,
  required: readonly R[],
  properties: P,
) => ({ ...request(title, properties), required });

/** A reply: every field is always present. */
export const reply = <const P extends Record<string, Schema>>(title: string, properties: P) => ({
  ...request(title, properties),
  required: Object.keys(properties) as (keyof P)[],
});

export const list = <const S extends Schema>(items: S) => ({ type: 'array' as const, items });

/** A reply with one page of a list. */
export const pageOf = <const S extends Schema>(title: string, entries: S) =>
  reply(title, { entries: list(entries), nextPageToken: text });

/** A reply that may also be `null`. */
export const nullable = <const S extends { readonly type: 'object' }>(schema: S) => ({
  ...schema,
  type: ['object', 'null'] as const,
});

const int64Pattern = '^-?[0-9]{1,19}$';

/** A 64-bit integer in a reply: always a string. */
export const int64 = { type: 'string', pattern: int64Pattern, format: 'int64' } as const;

/** A 64-bit integer in a request: a string, or a JSON number that is a safe integer. */
export const int64In = {
  type: ['string', 'integer'],
  pattern: int64Pattern,
  format: 'int64',
  minimum: Number.MIN_SAFE_INTEGER,
  maximum: Number.MAX_SAFE_INTEGER,
  expected: 'a 64-bit integer, as a string or as a whole number',
} as const;

export const timestamp = { type: 'string', format: 'date-time' } as const;
export const timestampOrNull = { type: ['string', 'null'], format: 'date-time' } as const;
export const timestampIn = {
  type: 'string',
  format: 'date-time',
  expected: 'a date-time such as 2026-01-31T09:00:00Z (RFC 3339)',
} as const;

export const text = { type: 'string' } as const;
export const boolean = { type: 'boolean' } as const;
export const texts = list(text);

/** A name of an agent, workspace or resource: safe in URLs, file names and git refs. */
export const namePattern = '^(?!\\.{1,2}$)[A-Za-z0-9._-]{1,128}$';
export const nameExpected = '1 to 128 characters of A-Z a-z 0-9 . _ - (but not "." or "..")';

/** A name, or empty for "not given". */
export const nameIn = {
  type: 'string',
  pattern: `^$|${namePattern}`,
  expected: nameExpected,
} as const;

/** Free-form identity text (an organization, an account), or empty for "not given". */
export const accountIn = {
  type: 'string',
  maxLength: 256,
  pattern: '^[^\\u0000-\\u001f\\u007f/*]*$',
  expected: 'at most 256 characters without control characters, "/" or "*"',
} as const;

export const more = {
  type: 'boolean',
  description: `There are more entries. A page ends at the limit of the request, or at ${limits.pageBytes} bytes.`,
} as const;

export const pageIn = {
  pageSize: {
    type: 'integer',
    minimum: 0,
    maximum: limits.pageSize,
    expected: `a whole number up to ${limits.pageSize}`,
  },
  pageToken: { type: 'string', maxLength: 512 },
} as const;

import { limits } from './limits.ts';

/** The scalar shapes that every noun shares. */

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
export const texts = { type: 'array', items: text } as const;

/** A path element of an agent, a workspace, a resource: safe in a URL, a file name and a git ref. */
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

/** Of a page that a request asked for by the number of its last entry. */
export const more = {
  type: 'boolean',
  description: `More follows. A page ends after as many as were asked for, or at ${limits.pageBytes} bytes.`,
} as const;

/** Which part of a list a request asks for. */
export const pageIn = {
  pageSize: {
    type: 'integer',
    minimum: 0,
    maximum: limits.pageSize,
    expected: `a whole number up to ${limits.pageSize}`,
  },
  pageToken: { type: 'string', maxLength: 512 },
} as const;

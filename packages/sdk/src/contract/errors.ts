import type { Infer } from './schema.ts';

/** The table of status codes: name, number and HTTP status. */
export const statusCodes = {
  CANCELLED: { code: 1, http: 499 },
  UNKNOWN: { code: 2, http: 500 },
  INVALID_ARGUMENT: { code: 3, http: 400 },
  DEADLINE_EXCEEDED: { code: 4, http: 504 },
  NOT_FOUND: { code: 5, http: 404 },
  ALREADY_EXISTS: { code: 6, http: 409 },
  PERMISSION_DENIED: { code: 7, http: 403 },
  RESOURCE_EXHAUSTED: { code: 8, http: 429 },
  FAILED_PRECONDITION: { code: 9, http: 400 },
  ABORTED: { code: 10, http: 409 },
  OUT_OF_RANGE: { code: 11, http: 400 },
  UNIMPLEMENTED: { code: 12, http: 501 },
  INTERNAL: { code: 13, http: 500 },
  UNAVAILABLE: { code: 14, http: 503 },
  UNAUTHENTICATED: { code: 16, http: 401 },
} as const;

export type StatusName = keyof typeof statusCodes;

export const errorEnvelope = {
  title: 'Error',
  description: 'The body of every reply that is not 2xx.',
  type: 'object',
  properties: {
    code: { type: 'integer', description: 'The numeric status code.' },
    message: { type: 'string', description: 'The cause, for people.' },
    details: {
      type: 'array',
      description: 'Machine-readable details; usually empty.',
      items: {
        type: 'object',
        properties: { '@type': { type: 'string' } },
        required: ['@type'],
        additionalProperties: true,
      },
    },
  },
  required: ['code', 'message', 'details'],
} as const;

export type ErrorEnvelope = Infer<typeof errorEnvelope>;

export interface ErrorDetail {
  readonly '@type': string;
  readonly [field: string]: unknown;
}

const typed = (name: string, fields: Record<string, unknown>): ErrorDetail => ({
  '@type': `type.googleapis.com/google.rpc.${name}`,
  ...fields,
});

/** INVALID_ARGUMENT: which field, and what is accepted. */
export const badRequest = (field: string, description: string): ErrorDetail =>
  typed('BadRequest', { fieldViolations: [{ field, description }] });

/** FAILED_PRECONDITION: what in the current state forbids it. */
export const preconditionFailure = (type: string, subject: string, description: string): ErrorDetail =>
  typed('PreconditionFailure', { violations: [{ type, subject, description }] });

/** A machine-readable reason, where the code alone is not enough. */
export const errorInfo = (reason: string, metadata: Record<string, string> = {}): ErrorDetail =>
  typed('ErrorInfo', { reason, domain: 'muster', metadata });

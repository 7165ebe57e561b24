import type { ErrorEnvelope } from '@muster/sdk/contract';
import { expect } from 'vitest';
import { type Answer, violation } from './api.ts';

/** Written out again, because the contract's own table is under test. */
export const errorCodes = {
  CANCELLED: { code: 1, status: 499 },
  UNKNOWN: { code: 2, status: 500 },
  INVALID_ARGUMENT: { code: 3, status: 400 },
  DEADLINE_EXCEEDED: { code: 4, status: 504 },
  NOT_FOUND: { code: 5, status: 404 },
  ALREADY_EXISTS: { code: 6, status: 409 },
  PERMISSION_DENIED: { code: 7, status: 403 },
  RESOURCE_EXHAUSTED: { code: 8, status: 429 },
  FAILED_PRECONDITION: { code: 9, status: 400 },
  ABORTED: { code: 10, status: 409 },
  OUT_OF_RANGE: { code: 11, status: 400 },
  UNIMPLEMENTED: { code: 12, status: 501 },
  INTERNAL: { code: 13, status: 500 },
  UNAVAILABLE: { code: 14, status: 503 },
  UNAUTHENTICATED: { code: 16, status: 401 },
} as const;
export type ErrorCode = keyof typeof errorCodes;

const detailType = (name: string) => `type.googleapis.com/google.rpc.${name}`;
const detailTypes = ['BadRequest', 'PreconditionFailure', 'ErrorInfo'].map(detailType);

/** `tasks[0].id` and `tasks.0.id` name the same field. */
export const normalizeField = (field: string | undefined): string | undefined =>
  field?.replace(/\[(\d+)\]/g, '.$1').replace(/^\./, '');

/** The reply is an error envelope whose code and HTTP status belong together. */
export function expectErrorEnvelope(answer: Answer<unknown>): ErrorEnvelope {
  const envelope = answer.body as ErrorEnvelope;
  expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/);
  expect(envelope).toEqual({
    code: expect.any(Number),
    message: expect.stringMatching(/./),
    details: expect.any(Array),
  });
  expect(Object.values(errorCodes)).toContainEqual({ code: envelope.code, status: answer.status });
  for (const detail of envelope.details) expect(detailTypes).toContain(detail['@type']);
  return envelope;
}

/** The reply is this error and, where a field is given, its first field violation is about that field. */
export function expectError(
  answer: Answer<unknown>,
  name: ErrorCode,
  field?: string | RegExp,
): ErrorEnvelope {
  const { code, message } = answer.body as Partial<ErrorEnvelope>;
  expect({ code, status: answer.status }, message).toEqual(errorCodes[name]);
  const envelope = expectErrorEnvelope(answer);
  if (name === 'FAILED_PRECONDITION') {
    expect(envelope.details.map((detail) => detail['@type'])).toContain(detailType('PreconditionFailure'));
  }
  if (field instanceof RegExp) expect(normalizeField(violation(answer)), envelope.message).toMatch(field);
  else if (field !== undefined)
    expect(normalizeField(violation(answer)), envelope.message).toBe(normalizeField(field));
  return envelope;
}

/** The report of a run that the runner no longer holds is refused, with a reason for machines. */
export function expectRunFenced(answer: Answer<unknown>): void {
  expect(expectError(answer, 'ABORTED').details).toContainEqual(
    expect.objectContaining({ '@type': detailType('ErrorInfo'), reason: 'RUN_FENCED', domain: 'muster' }),
  );
}

export function expectOk<T>(answer: Answer<T>): T {
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
}

/** The fields that the service reports as ignored. */
export const ignoredFields = (answer: Answer<unknown>): string[] =>
  (answer.headers.get('muster-ignored-fields') ?? '')
    .split(',')
    .map((field) => field.trim())
    .filter((field) => field !== '')
    .sort();

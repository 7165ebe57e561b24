import type { ErrorEnvelope } from '@muster/sdk/contract';
import { expect } from 'vitest';
import { type Answer, violation } from './api.ts';

/** The documents' table of codes (interface 7, decisions 1), written out again: the contract's copy is under test. */
export const codeTable = {
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
export type CodeName = keyof typeof codeTable;

const detailTypes = ['BadRequest', 'PreconditionFailure', 'ErrorInfo'].map(
  (name) => `type.googleapis.com/google.rpc.${name}`,
);

/** `tasks[0].id` and `tasks.0.id` name the same field. */
export const normalField = (field: string | undefined): string | undefined =>
  field?.replace(/\[(\d+)\]/g, '.$1').replace(/^\./, '');

/** The reply is an error envelope whose code and HTTP status belong together. */
export function expectEnvelope(answer: Answer<unknown>): ErrorEnvelope {
  const envelope = answer.body as ErrorEnvelope;
  expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/);
  expect(envelope).toEqual({
    code: expect.any(Number),
    message: expect.stringMatching(/./),
    details: expect.any(Array),
  });
  expect(Object.values(codeTable)).toContainEqual({ code: envelope.code, status: answer.status });
  for (const detail of envelope.details) expect(detailTypes).toContain(detail['@type']);
  return envelope;
}

/**
 * The reply is this refusal, and where a field is given, it blames exactly that field (a pattern where the
 * documents leave its spelling open).
 */
export function expectRefusal(
  answer: Answer<unknown>,
  name: CodeName,
  field?: string | RegExp,
): ErrorEnvelope {
  const { code, message } = answer.body as Partial<ErrorEnvelope>;
  expect({ code, status: answer.status }, message).toEqual(codeTable[name]);
  const envelope = expectEnvelope(answer);
  if (field instanceof RegExp) expect(normalField(violation(answer)), envelope.message).toMatch(field);
  else if (field !== undefined) expect(normalField(violation(answer)), envelope.message).toBe(field);
  return envelope;
}

export function expectOk<T>(answer: Answer<T>): T {
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
}

/** The fields that the service says it did not read. */
export const ignoredFields = (answer: Answer<unknown>): string[] =>
  (answer.headers.get('muster-ignored-fields') ?? '')
    .split(',')
    .map((field) => field.trim())
    .filter((field) => field !== '')
    .sort();

import { expect } from 'vitest';
import type { Answer } from './api.ts';

/** The documents' table (interface 7, decisions 1), written out again so that the contract's own copy is tested too. */
const refusals = {
  INVALID_ARGUMENT: { status: 400, code: 3 },
  NOT_FOUND: { status: 404, code: 5 },
  ALREADY_EXISTS: { status: 409, code: 6 },
  PERMISSION_DENIED: { status: 403, code: 7 },
  RESOURCE_EXHAUSTED: { status: 429, code: 8 },
  FAILED_PRECONDITION: { status: 400, code: 9 },
  ABORTED: { status: 409, code: 10 },
  OUT_OF_RANGE: { status: 400, code: 11 },
  UNAVAILABLE: { status: 503, code: 14 },
  UNAUTHENTICATED: { status: 401, code: 16 },
} as const;

export type Refusal = keyof typeof refusals;

interface Envelope {
  readonly code: number;
  readonly message: string;
  readonly details: readonly {
    readonly '@type': string;
    readonly fieldViolations?: readonly { readonly field: string }[];
    readonly reason?: string;
    readonly domain?: string;
  }[];
}

const detailOf = (name: string) => `type.googleapis.com/google.rpc.${name}`;

/** The answer is the error envelope of this refusal and, where named, about this field. */
export function expectRefusal(answer: Answer<unknown>, name: Refusal, field?: string | RegExp): void {
  const body = answer.body as Envelope;
  expect({ status: answer.status, code: body.code }, JSON.stringify(body)).toEqual(refusals[name]);
  expect(body.message).toEqual(expect.stringMatching(/./));
  expect(body.details).toBeInstanceOf(Array);
  if (name === 'FAILED_PRECONDITION') {
    expect(body.details.map((detail) => detail['@type'])).toContain(detailOf('PreconditionFailure'));
  }
  if (field === undefined) return;
  const fields = body.details
    .filter((detail) => detail['@type'] === detailOf('BadRequest'))
    .flatMap((detail) => detail.fieldViolations ?? [])
    .map((violated) => violated.field);
  expect(fields, body.message).toContainEqual(
    typeof field === 'string' ? field : expect.stringMatching(field),
  );
}

/** A report for a run that is over: refused as stale, with the reason for machines. */
export function expectFenced(answer: Answer<unknown>): void {
  expectRefusal(answer, 'ABORTED');
  expect((answer.body as Envelope).details).toContainEqual(
    expect.objectContaining({ '@type': detailOf('ErrorInfo'), reason: 'RUN_FENCED', domain: 'muster' }),
  );
}

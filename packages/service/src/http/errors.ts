import { randomUUID } from 'node:crypto';
import {
  badRequest,
  type ErrorDetail,
  type ErrorEnvelope,
  limits,
  type StatusName,
  statusCodes,
} from '@muster/sdk/contract';
import type { FastifyReply } from 'fastify';
import type { Refusal } from '../control/refusal.ts';
import type { Log } from '../lib/log.ts';

/** What the edge itself refuses, before or beside the domain. */
export class EdgeError extends Error {
  override readonly name = 'EdgeError';
  readonly status: StatusName;
  readonly details: readonly ErrorDetail[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: StatusName,
    message: string,
    details: readonly ErrorDetail[] = [],
    headers: Record<string, string> = {},
  ) {
    super(message);
    this.status = status;
    this.details = details;
    this.headers = headers;
  }
}

export const invalidField = (field: string, description: string): EdgeError =>
  field
    ? new EdgeError('INVALID_ARGUMENT', `${field}: ${description}`, [badRequest(field, description)])
    : new EdgeError('INVALID_ARGUMENT', description);

/** The rest of such a body is not read. */
export const bodyTooLarge = (mostBytes: number): EdgeError =>
  new EdgeError('INVALID_ARGUMENT', `the body must be at most ${written(mostBytes)}`, [], {
    connection: 'close',
  });

export const envelope = (
  status: StatusName,
  message: string,
  details: readonly ErrorDetail[] = [],
): ErrorEnvelope => ({
  code: statusCodes[status].code,
  message,
  details: [...details],
});

/** A message may quote what was sent; a key that was sent in the wrong place must not come back. */
const anyKey = /mst_[A-Za-z0-9-]+\.[A-Za-z0-9_-]+/g;
export const withoutKeys = (text: string): string => text.replace(anyKey, 'mst_…');

export function sendError(
  reply: FastifyReply,
  error: Pick<EdgeError, 'status' | 'message' | 'details'>,
): FastifyReply {
  const retryAfter = error.status === 'RESOURCE_EXHAUSTED' && !reply.hasHeader('retry-after');
  if (retryAfter) reply.header('retry-after', '1');
  return reply
    .code(statusCodes[error.status].http)
    .header('content-type', 'application/json; charset=utf-8')
    .serializer((body: unknown) => withoutKeys(JSON.stringify(body)))
    .send(envelope(error.status, error.message, error.details));
}

export function sendEdgeError(reply: FastifyReply, error: EdgeError): FastifyReply {
  reply.headers(error.headers);
  return sendError(reply, error);
}

export const throwRefusal = (refusal: Refusal): never => {
  throw new EdgeError(refusal.status, refusal.message, refusal.details);
};

/** Errors of a database that is unavailable: the same request may work in a moment. */
const unavailable = new Set(['CommitUnknownError', 'AgentLockedError']);
/**
 * Of PostgreSQL: no connection (08), a server that is read-only because of a failover (25006), a refused login (28), a
 * missing database (3D000), no disk, memory or connections left (53), a restart (57P), an I/O error (58030).
 */
const unavailableCodes =
  /^(08|25006|28|3D000|53|57P|58030|ECONN|EPIPE|ENOENT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|EADDRNOTAVAIL)/;

/**
 * Anything thrown into what the wire may show. Fastify's own complaints about a request are the caller's to mend;
 * everything else is ours: it gets an incident number, and the cause goes to the log only.
 */
export function edgeErrorOf(error: unknown, log: Log, bodyBytes: number = limits.bodyBytes): EdgeError {
  if (error instanceof EdgeError) return error;
  const {
    code = '',
    statusCode = 500,
    name = '',
    message = '',
  } = error as {
    code?: string;
    statusCode?: number;
    name?: string;
    message?: string;
  };
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return bodyTooLarge(bodyBytes);
  if (statusCode >= 400 && statusCode < 500) {
    return new EdgeError('INVALID_ARGUMENT', describe(code, message));
  }
  if (name === 'OverloadedError') return new EdgeError('RESOURCE_EXHAUSTED', message);
  const incident = randomUUID();
  log.error({ err: error, incident }, 'a request failed');
  if (unavailable.has(name) || unavailableCodes.test(code) || /connection|terminat|timeout/i.test(message)) {
    return new EdgeError(
      'UNAVAILABLE',
      `the database is unavailable; try again in a moment (incident ${incident})`,
      [],
      {
        'retry-after': '1',
      },
    );
  }
  return new EdgeError('INTERNAL', `something went wrong on our side (incident ${incident})`);
}

function describe(code: string, message: string): string {
  if (code === 'FST_ERR_CTP_INVALID_CONTENT_LENGTH') return 'the body is not as long as Content-Length says';
  return message;
}

const written = (bytes: number): string =>
  bytes < 1024 ** 2 ? `${bytes / 1024} KiB` : `${Math.floor((bytes / 1024 ** 2) * 10) / 10} MiB`;

import { randomUUID } from 'node:crypto';
import { maxHeaderSize, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import {
  badRequest,
  type ErrorDetail,
  type ErrorEnvelope,
  limits,
  type StatusName,
  statusCodes,
} from '@muster/sdk/contract';
import type { FastifyReply } from 'fastify';
import { isRefusal, type Refusal } from '../control/refusal.ts';
import type { DatabaseDisk } from '../lib/disk-space.ts';
import { isTimeout, isUnavailable } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';

/** An error with what its reply says: the status, the message, details and headers. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
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

export const invalidField = (field: string, description: string): HttpError =>
  field
    ? new HttpError('INVALID_ARGUMENT', `${field}: ${description}`, [badRequest(field, description)])
    : new HttpError('INVALID_ARGUMENT', description);

export const throwRefusal = (refusal: Refusal): never => {
  const { status, message, details, retryAfterSeconds } = refusal;
  const headers = retryAfterSeconds ? { 'retry-after': String(retryAfterSeconds) } : {};
  throw new HttpError(status, message, details, headers);
};

export const unlessRefused = <T>(result: T | Refusal): T =>
  isRefusal(result) ? throwRefusal(result) : result;

const envelope = (
  status: StatusName,
  message: string,
  details: readonly ErrorDetail[] = [],
): ErrorEnvelope => ({
  code: statusCodes[status].code,
  message,
  details: [...details],
});

/** A message may quote the request: a key that was sent in the wrong field must not appear in the reply. */
const anyKey = /mst_[A-Za-z0-9-]+\.[A-Za-z0-9_-]+/g;
export const withoutKeys = (text: string): string => text.replace(anyKey, 'mst_…');

export function sendError(reply: FastifyReply, error: HttpError): FastifyReply {
  reply.headers(error.headers);
  const needsRetryAfter = error.status === 'RESOURCE_EXHAUSTED' && !reply.hasHeader('retry-after');
  if (needsRetryAfter) reply.header('retry-after', '1');
  return reply
    .code(statusCodes[error.status].http)
    .header('content-type', 'application/json; charset=utf-8')
    .serializer((body: unknown) => withoutKeys(JSON.stringify(body)))
    .send(envelope(error.status, error.message, error.details));
}

export interface ErrorContext {
  readonly log: Log;
  readonly databaseDisk: DatabaseDisk;
}

/**
 * The reply to anything that was thrown. Fastify's errors about a request are the caller's to fix. Every other error is
 * the service's own: it gets an incident number, and its cause is only logged.
 */
export function httpErrorOf(
  error: unknown,
  { log, databaseDisk }: ErrorContext,
  bodyBytes: number = limits.bodyBytes,
): HttpError {
  if (error instanceof HttpError) return error;
  const {
    code = '',
    statusCode = 500,
    name = '',
    message = '',
  } = error as { code?: string; statusCode?: number; name?: string; message?: string };
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE')
    // The rest of the body is not read, so the connection can't be used again.
    return new HttpError('INVALID_ARGUMENT', `the body must be at most ${sizeText(bodyBytes)}`, [], {
      connection: 'close',
    });
  if (code === 'FST_ERR_CTP_INVALID_CONTENT_LENGTH')
    return new HttpError('INVALID_ARGUMENT', 'the length of the body differs from Content-Length');
  if (statusCode >= 400 && statusCode < 500) return new HttpError('INVALID_ARGUMENT', message);
  if (name === 'OverloadedError') return new HttpError('RESOURCE_EXHAUSTED', message);
  const incident = randomUUID();
  log.error({ err: error, incident }, 'request failed');
  if (isTimeout(error))
    return new HttpError(
      'UNAVAILABLE',
      `the database took too long for this request; ask for less, or try again (incident ${incident})`,
      [],
      { 'retry-after': '1' },
    );
  const isFull = databaseDisk.note(error);
  if (!isFull && !isUnavailable(error))
    return new HttpError('INTERNAL', `internal error (incident ${incident})`);
  const problem = databaseDisk.problem() ?? 'the database is unavailable; try again in a moment';
  return new HttpError('UNAVAILABLE', `${problem} (incident ${incident})`, [], { 'retry-after': '1' });
}

const sizeText = (bytes: number): string =>
  bytes < 1024 ** 2 ? `${bytes / 1024} KiB` : `${Math.floor((bytes / 1024 ** 2) * 10) / 10} MiB`;

/** Answers what Node can't parse, on the bare socket, unless a reply has begun on it. */
export function refuseUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  const { _httpMessage: begun } = socket as Socket & { _httpMessage?: ServerResponse | null };
  if (error.code === 'ECONNRESET' || !socket.writable || begun?.headersSent) {
    socket.destroy();
    return;
  }
  const body = JSON.stringify(envelope('INVALID_ARGUMENT', problemOf(error.code ?? '')));
  socket.end(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

function problemOf(code: string): string {
  if (code === 'HPE_HEADER_OVERFLOW') return `the headers must be at most ${maxHeaderSize / 1024} KiB`;
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'the request did not arrive in time';
  return 'the request is not valid HTTP/1.1';
}

import { type ErrorDetail, type ErrorEnvelope, type StatusName, statusCodes } from '../contract/errors.ts';

/** Any reply that is not 2xx. Each status has its own class below. */
export class MusterError extends Error {
  /** The name of its class, such as `NotFoundError`. */
  override readonly name: string;
  readonly httpStatus: number;
  /** The numeric status code of the envelope. */
  readonly code: number;
  readonly details: readonly ErrorDetail[];
  /** From the header `Retry-After`. */
  readonly retryAfterMs: number | undefined;

  constructor(httpStatus: number, envelope: Partial<ErrorEnvelope>, retryAfterMs?: number) {
    super(envelope.message ?? `HTTP ${httpStatus}`);
    this.httpStatus = httpStatus;
    this.code = envelope.code ?? statusCodes.UNKNOWN.code;
    this.details = (envelope.details ?? []) as ErrorDetail[];
    this.retryAfterMs = retryAfterMs;
    const words = this.status.toLowerCase().split('_');
    this.name = `${words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')}Error`;
  }

  /** The name of the status, such as `NOT_FOUND`. */
  get status(): StatusName {
    return nameOfCode(this.code) ?? 'UNKNOWN';
  }

  /** The `google.rpc.ErrorInfo` reason, if the service gave one. */
  get reason(): string | undefined {
    return this.detail('ErrorInfo')?.reason as string | undefined;
  }

  /** Further data about the reason. */
  get metadata(): Readonly<Record<string, string>> {
    return (this.detail('ErrorInfo')?.metadata ?? {}) as Record<string, string>;
  }

  /** The first detail of this type: `BadRequest`, `PreconditionFailure` or `ErrorInfo`. */
  detail(type: string): ErrorDetail | undefined {
    return this.details.find((detail) => detail['@type'].endsWith(`.${type}`));
  }
}

export interface FieldViolation {
  readonly field: string;
  readonly description: string;
}

export interface PreconditionViolation {
  readonly type: string;
  readonly subject: string;
  readonly description: string;
}

export class InvalidArgumentError extends MusterError {
  /** Which fields are wrong, and what is accepted. */
  get fieldViolations(): readonly FieldViolation[] {
    return (this.detail('BadRequest')?.fieldViolations ?? []) as FieldViolation[];
  }
}

export class FailedPreconditionError extends MusterError {
  /** What in the current state forbids it. */
  get violations(): readonly PreconditionViolation[] {
    return (this.detail('PreconditionFailure')?.violations ?? []) as PreconditionViolation[];
  }
}

export class OutOfRangeError extends MusterError {
  /** The sequence of the first timeline entry that is still stored. */
  get firstSequence(): string | undefined {
    return this.metadata.firstSequence;
  }
}

export class CancelledError extends MusterError {}
export class UnknownError extends MusterError {}
export class DeadlineExceededError extends MusterError {}
export class NotFoundError extends MusterError {}
export class AlreadyExistsError extends MusterError {}
export class PermissionDeniedError extends MusterError {}
export class ResourceExhaustedError extends MusterError {}
export class AbortedError extends MusterError {}
export class UnimplementedError extends MusterError {}
export class InternalError extends MusterError {}
export class UnavailableError extends MusterError {}
export class UnauthenticatedError extends MusterError {}

const classes: Readonly<Record<StatusName, typeof MusterError>> = {
  CANCELLED: CancelledError,
  UNKNOWN: UnknownError,
  INVALID_ARGUMENT: InvalidArgumentError,
  DEADLINE_EXCEEDED: DeadlineExceededError,
  NOT_FOUND: NotFoundError,
  ALREADY_EXISTS: AlreadyExistsError,
  PERMISSION_DENIED: PermissionDeniedError,
  RESOURCE_EXHAUSTED: ResourceExhaustedError,
  FAILED_PRECONDITION: FailedPreconditionError,
  ABORTED: AbortedError,
  OUT_OF_RANGE: OutOfRangeError,
  UNIMPLEMENTED: UnimplementedError,
  INTERNAL: InternalError,
  UNAVAILABLE: UnavailableError,
  UNAUTHENTICATED: UnauthenticatedError,
};

const names = Object.keys(statusCodes) as StatusName[];
const nameOfCode = (code: number): StatusName | undefined =>
  names.find((name) => statusCodes[name].code === code);

/** For a reply that is not the service's own but that of a proxy in between. */
const nameOfHttpStatus = (httpStatus: number): StatusName =>
  httpStatus === 502
    ? 'UNAVAILABLE'
    : (names.find((name) => statusCodes[name].http === httpStatus) ?? 'UNKNOWN');

/** The error of a reply: by the code in its body, else by its HTTP status. */
export function errorOf(httpStatus: number, body: unknown, retryAfterMs?: number): MusterError {
  const sent = (typeof body === 'object' && body !== null ? body : {}) as Partial<ErrorEnvelope>;
  const name =
    (typeof sent.code === 'number' ? nameOfCode(sent.code) : undefined) ?? nameOfHttpStatus(httpStatus);
  const envelope = { ...sent, code: sent.code ?? statusCodes[name].code };
  return new classes[name](httpStatus, envelope, retryAfterMs);
}

/** There was no reply, or only part of one. `cause` is the platform's error. */
export class ConnectionError extends Error {
  override readonly name: string = 'ConnectionError';
  /** True when the request surely did not reach the service; otherwise it may have had an effect. */
  readonly isUnsent: boolean;

  constructor(message: string, options: { readonly cause?: unknown; readonly isUnsent?: boolean } = {}) {
    super(message, { cause: options.cause });
    this.isUnsent = options.isUnsent ?? false;
  }
}

/** Parses the header `Retry-After`, seconds or a date, into milliseconds from now. */
export function parseRetryAfter(header: string | null, nowMs: number = Date.now()): number | undefined {
  const text = header?.trim() ?? '';
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  const date = text === '' ? Number.NaN : Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs);
}

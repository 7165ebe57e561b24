import { type ErrorDetail, type ErrorEnvelope, type StatusName, statusCodes } from '../contract/errors.ts';

/** Any reply that is not 2xx. Each status has a class of its own below. */
export class MusterError extends Error {
  override readonly name: string = 'MusterError';
  readonly httpStatus: number;
  /** The numeric status code of the envelope. */
  readonly code: number;
  readonly details: readonly ErrorDetail[];
  /** What the header `Retry-After` asked for. */
  readonly retryAfterMs: number | undefined;

  constructor(httpStatus: number, envelope: Partial<ErrorEnvelope>, retryAfterMs?: number) {
    super(envelope.message ?? `HTTP ${httpStatus}`);
    this.httpStatus = httpStatus;
    this.code = envelope.code ?? statusCodes.UNKNOWN.code;
    this.details = (envelope.details ?? []) as ErrorDetail[];
    this.retryAfterMs = retryAfterMs;
  }

  /** The name of the status, such as `NOT_FOUND`. */
  get status(): StatusName {
    return nameOfCode(this.code) ?? 'UNKNOWN';
  }

  /** The `google.rpc.ErrorInfo` reason, where the service gave one. */
  get reason(): string | undefined {
    return this.detail('ErrorInfo')?.reason as string | undefined;
  }

  /** What belongs to the reason. */
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
  override readonly name: string = 'InvalidArgumentError';

  /** Which fields are wrong, and what would be right. */
  get fieldViolations(): readonly FieldViolation[] {
    return (this.detail('BadRequest')?.fieldViolations ?? []) as FieldViolation[];
  }
}

export class FailedPreconditionError extends MusterError {
  override readonly name: string = 'FailedPreconditionError';

  /** What about the state forbids it. */
  get violations(): readonly PreconditionViolation[] {
    return (this.detail('PreconditionFailure')?.violations ?? []) as PreconditionViolation[];
  }
}

export class OutOfRangeError extends MusterError {
  override readonly name: string = 'OutOfRangeError';

  /** The first timeline entry that is still kept. */
  get firstSequence(): string | undefined {
    return this.metadata.firstSequence;
  }
}

export class CancelledError extends MusterError {
  override readonly name: string = 'CancelledError';
}
export class UnknownError extends MusterError {
  override readonly name: string = 'UnknownError';
}
export class DeadlineExceededError extends MusterError {
  override readonly name: string = 'DeadlineExceededError';
}
export class NotFoundError extends MusterError {
  override readonly name: string = 'NotFoundError';
}
export class AlreadyExistsError extends MusterError {
  override readonly name: string = 'AlreadyExistsError';
}
export class PermissionDeniedError extends MusterError {
  override readonly name: string = 'PermissionDeniedError';
}
export class ResourceExhaustedError extends MusterError {
  override readonly name: string = 'ResourceExhaustedError';
}
export class AbortedError extends MusterError {
  override readonly name: string = 'AbortedError';
}
export class UnimplementedError extends MusterError {
  override readonly name: string = 'UnimplementedError';
}
export class InternalError extends MusterError {
  override readonly name: string = 'InternalError';
}
export class UnavailableError extends MusterError {
  override readonly name: string = 'UnavailableError';
}
export class UnauthenticatedError extends MusterError {
  override readonly name: string = 'UnauthenticatedError';
}

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

/** For a reply that is none of the service's own: something between it and us answered. */
const nameOfHttpStatus = (httpStatus: number): StatusName =>
  httpStatus === 502
    ? 'UNAVAILABLE'
    : (names.find((name) => statusCodes[name].http === httpStatus) ?? 'UNKNOWN');

/** The error of a reply, by its code; by its HTTP status where the body is no envelope. */
export function errorOf(httpStatus: number, body: unknown, retryAfterMs?: number): MusterError {
  const sent = (typeof body === 'object' && body !== null ? body : {}) as Partial<ErrorEnvelope>;
  const name =
    (typeof sent.code === 'number' ? nameOfCode(sent.code) : undefined) ?? nameOfHttpStatus(httpStatus);
  const envelope = { ...sent, code: sent.code ?? statusCodes[name].code };
  return new classes[name](httpStatus, envelope, retryAfterMs);
}

/** No answer, or only a part of one. `cause` has what the platform said. */
export class ConnectionError extends Error {
  override readonly name: string = 'ConnectionError';
  /** True when the request surely never reached the service; else it may have had its effect. */
  readonly isUnsent: boolean;

  constructor(message: string, options: { readonly cause?: unknown; readonly isUnsent?: boolean } = {}) {
    super(message, { cause: options.cause });
    this.isUnsent = options.isUnsent ?? false;
  }
}

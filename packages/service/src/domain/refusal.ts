import {
  badRequest,
  type ErrorDetail,
  errorInfo,
  limits,
  preconditionFailure,
  type StatusName,
} from '@muster/sdk/contract';

/** Why a command is refused. The domain returns refusals as values; `http` turns them into status codes. */
export interface Refusal {
  readonly refused: true;
  readonly status: StatusName;
  readonly message: string;
  readonly details: readonly ErrorDetail[];
  /** When the same request may succeed. */
  readonly retryAfterSeconds?: number;
}

const refusal = (status: StatusName, message: string, details: readonly ErrorDetail[] = []): Refusal => ({
  refused: true,
  status,
  message,
  details,
});

export const isRefusal = (value: unknown): value is Refusal =>
  typeof value === 'object' && value !== null && 'refused' in value;

export const invalid = (field: string, description: string): Refusal =>
  refusal('INVALID_ARGUMENT', `${field}: ${description}`, [badRequest(field, description)]);

export const notFound = (message: string): Refusal => refusal('NOT_FOUND', message);
/** For a message to an agent that has ended: no running agent has this name. */
export const agentEnded = (message: string, phase: string): Refusal =>
  refusal('NOT_FOUND', message, [errorInfo('AGENT_ENDED', { phase })]);
export const denied = (message: string): Refusal => refusal('PERMISSION_DENIED', message);
export const alreadyExists = (message: string): Refusal => refusal('ALREADY_EXISTS', message);
export const exhausted = (message: string, reason?: string): Refusal =>
  refusal('RESOURCE_EXHAUSTED', message, reason ? [errorInfo(reason)] : []);
/** Too often: the same request succeeds after this time. */
export const tooSoon = (message: string, retryAfterSeconds: number): Refusal => ({
  ...exhausted(message),
  retryAfterSeconds,
});
/** Something that the service needs of others does not answer: the same request may succeed later. */
export const unavailable = (message: string): Refusal => refusal('UNAVAILABLE', message);
export const outOfRange = (message: string, metadata: Record<string, string>): Refusal =>
  refusal('OUT_OF_RANGE', message, [errorInfo('BEFORE_FIRST_ENTRY', metadata)]);

export const precondition = (type: string, subject: string, message: string): Refusal =>
  refusal('FAILED_PRECONDITION', message, [preconditionFailure(type, subject, message)]);

export const tenantClosed = (): Refusal =>
  precondition(
    'TENANT_CLOSED',
    'tenant',
    'the tenant is closed: it moves, or has moved, to another installation; the operator knows its address',
  );

/** The run is not the agent's current one any more. */
export const fenced = (message: string): Refusal => refusal('ABORTED', message, [errorInfo('RUN_FENCED')]);
export const aborted = (reason: string, message: string): Refusal =>
  refusal('ABORTED', message, [errorInfo(reason)]);

export function refuseDescription(text: string, field: string): Refusal | null {
  const bytes = Buffer.byteLength(text);
  return bytes > limits.descriptionBytes
    ? invalid(field, `must be at most ${limits.descriptionBytes} bytes; got ${bytes}`)
    : null;
}

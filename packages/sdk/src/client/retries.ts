import type { RouteName } from '../contract/routes.ts';
import { ConnectionError, MusterError } from './errors.ts';

/** The operations that the client has a method for. */
export type Operation = Exclude<RouteName, `runner${string}` | `${string}ByGet` | 'signIn'>;

/**
 * Whether an operation is sent again when its reply was lost, so that it may or may not have acted.
 *
 *   safe     yes: a read, or a mutation that its id, key, generation or run number makes idempotent
 *   unsent   no: only when the request surely had no effect, because the connection was refused or a rate limit (429)
 *            rejected it
 *   long     yes, without end: it stays open until the caller's signal aborts
 *
 * A conditional write or delete of the catalog is safe too; see catalog.ts.
 */
export type RetryPolicy = 'safe' | 'unsent' | 'long';

export const retryPolicies = {
  whoami: 'safe',
  service: 'safe',
  /** Creates another code; the lost one expires unused. */
  signInCode: 'safe',
  session: 'safe',
  listSessions: 'safe',
  signOut: 'safe',
  revokeSession: 'safe',
  status: 'safe',
  list: 'safe',
  timeline: 'safe',
  runs: 'safe',
  diff: 'safe',
  checkpoint: 'safe',
  tasks: 'safe',
  threads: 'safe',
  listFollowUps: 'safe',
  followUp: 'safe',
  attachment: 'safe',
  readResource: 'safe',
  listResources: 'safe',
  resourceHistory: 'safe',

  wait: 'long',
  waitMany: 'long',
  listStream: 'long',
  timelineStream: 'long',

  /** One `Idempotency-Key` for all tries: later tries get the first reply. */
  spawn: 'safe',
  /** One `followUpId` for all tries: it stays one message, preempts once and replaces once. */
  queue: 'safe',
  /** The same image has the same id. */
  uploadAttachment: 'safe',
  createReview: 'safe',
  replyToThread: 'safe',
  resolveThread: 'safe',
  /** Only the reply differs: a repeated request gets `removed: false`. */
  removeFollowUp: 'safe',
  /** Names its run, so it never stops a newer one. A refusal of a repeated request counts as success. */
  stopTurn: 'safe',
  kill: 'safe',
  /** A second retry finds the agent running and is refused, so the client can't tell whether its first one succeeded. */
  retry: 'unsent',
  reopen: 'safe',
  updateTask: 'safe',
  labels: 'safe',
  ask: 'safe',
  finish: 'safe',
  fail: 'safe',

  /** A change request that is open is returned. */
  openChangeRequest: 'safe',
  syncChangeRequests: 'safe',
  listDeliveries: 'safe',
  redeliver: 'safe',
  testIntegration: 'safe',

  /** Would also discard messages that were queued since. */
  clearFollowUps: 'unsent',
  /** Would add the tasks again, or be refused because of their ids. */
  createTasks: 'unsent',
  /** Without a generation they would overwrite or delete what others wrote since. */
  writeResource: 'unsent',
  deleteResource: 'unsent',
} as const satisfies Record<Operation, RetryPolicy>;

export interface RetryLimits {
  /** How often a request is sent at most; 1 turns retries off. */
  readonly tries: number;
  /** No try starts later than this after the first. */
  readonly withinMs: number;
  /** The longest delay before the second try; it doubles with each further one. */
  readonly firstDelayMs: number;
  readonly longestDelayMs: number;
}

export const defaultRetries: RetryLimits = {
  tries: 6,
  withinMs: 30_000,
  firstDelayMs: 200,
  longestDelayMs: 5_000,
};

/** What is about to be retried, and why. */
export interface Retry {
  readonly operation: string;
  readonly failures: number;
  readonly delayMs: number;
  readonly error: Error;
}

/** Failures of the connection, or temporary ones of the service: the same request may succeed later. */
export function isTransient(error: unknown): error is MusterError | ConnectionError {
  if (error instanceof ConnectionError) return true;
  return error instanceof MusterError && [408, 429, 502, 503, 504].includes(error.httpStatus);
}

/** Whether the request may have had an effect. A rate-limited request never has. */
export const mayHaveActed = (error: MusterError | ConnectionError): boolean =>
  error instanceof ConnectionError ? !error.isUnsent : error.httpStatus !== 429;

/** A random delay up to a bound that doubles (full jitter), after what `Retry-After` asks for. */
export function delayMs(
  failures: number,
  limits: Pick<RetryLimits, 'firstDelayMs' | 'longestDelayMs'>,
  error?: unknown,
): number {
  const bound = Math.min(limits.longestDelayMs, limits.firstDelayMs * 2 ** (failures - 1));
  const retryAfterMs = error instanceof MusterError ? error.retryAfterMs : undefined;
  return (retryAfterMs ?? 0) + Math.random() * (retryAfterMs === undefined ? bound : limits.firstDelayMs);
}

/** Resolves after the time; throws the signal's reason as soon as it aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
    if (signal?.aborted) end();
  });
}

export interface RetryLoop {
  readonly operation: string;
  /** May be sent again although an earlier try may have acted. */
  readonly isSafe: boolean;
  readonly limits: RetryLimits;
  readonly signal?: AbortSignal | undefined;
  readonly onRetry?: ((retry: Retry) => void) | undefined;
}

/** Tries until it succeeds, is refused, or the limits are reached. Tells each try whether an earlier one may have acted. */
export async function withRetries<T>(
  { operation, isSafe, limits, signal, onRetry }: RetryLoop,
  attempt: (mayBeRepeated: boolean) => Promise<T>,
): Promise<T> {
  const startedMs = performance.now();
  let mayBeRepeated = false;
  for (let failures = 1; ; failures++) {
    try {
      return await attempt(mayBeRepeated);
    } catch (error) {
      if (signal?.aborted || !isTransient(error) || failures >= limits.tries) throw error;
      if (mayHaveActed(error)) {
        if (!isSafe) throw error;
        mayBeRepeated = true;
      }
      const delay = delayMs(failures, limits, error);
      if (performance.now() - startedMs + delay > limits.withinMs) throw error;
      onRetry?.({ operation, failures, delayMs: delay, error });
      await pause(delay, signal);
    }
  }
}

import { ConnectionError, MusterError } from './errors.ts';

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

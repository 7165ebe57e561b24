import { MusterError } from '@muster/sdk';
import { backOffMs } from '../lib/back-off.ts';

/**
 * What a failed call means. `fenced`: another runner has the run. `refused`: the same call would be refused again.
 * `retry`: the network, the service or our key may work the next time.
 */
export function faultOf(error: unknown): 'retry' | 'fenced' | 'refused' {
  if (!(error instanceof MusterError)) return 'retry';
  const status = error.httpStatus;
  if (status === 404 || status === 409) return 'fenced';
  if (status >= 500 || status === 401 || status === 403 || status === 408 || status === 429) return 'retry';
  return 'refused';
}

/**
 * An error inside the service, not of the network, load or a restart: it may fail in the same way each time. `text` is
 * the message without the incident number.
 */
export function serviceFailure(error: unknown): { incident: string; text: string } | undefined {
  if (!(error instanceof MusterError) || error.httpStatus !== 500) return undefined;
  const incident = /incident ([0-9a-f-]{36})/.exec(error.message)?.[1];
  return incident ? { incident, text: error.message.replace(incident, '') } : undefined;
}

export const backoffMs = (failures: number): number => backOffMs(failures, 100, 2_000);

/** Resolves early when the signal aborts. */
export function pauseUnless(signal: AbortSignal, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    signal.addEventListener('abort', finish);
    if (signal.aborted) finish();
  });
}

/** Rejects early when the signal aborts. */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let abort: () => void = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
  });
  return Promise.race([work, aborted]).finally(() => signal.removeEventListener('abort', abort));
}

const maxAttempts = 8;

/** For calls that may be repeated: hides lost replies and restarts of the service. */
export async function retryTransient<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted || failures >= maxAttempts || !isTransient(error)) throw error;
    }
    await pauseUnless(signal, backoffMs(failures));
  }
}

const fullQuotas = ['CHECKPOINTS_FULL', 'ATTACHMENTS_FULL'];

/** A refused key stays refused, and a tenant without space for checkpoints or images stays so. */
function isTransient(error: unknown): boolean {
  if (!(error instanceof MusterError)) return true;
  const isDenied = error.httpStatus === 401 || error.httpStatus === 403;
  return faultOf(error) === 'retry' && !isDenied && !fullQuotas.includes(error.reason ?? '');
}

export const isDenied = (error: unknown): boolean => error instanceof MusterError && error.httpStatus === 403;

import { MusterError } from '@muster/sdk';

/**
 * What a failed call means. `fenced`: the run is no longer ours. `refused`: the same call would be refused again.
 * `retry`: the network, the service or our key may be right the next time.
 */
export type Fault = 'retry' | 'fenced' | 'refused';

export function faultOf(error: unknown): Fault {
  if (!(error instanceof MusterError)) return 'retry';
  const status = error.httpStatus;
  if (status === 404 || status === 409) return 'fenced';
  if (status >= 500 || status === 401 || status === 403 || status === 408 || status === 429) return 'retry';
  return 'refused';
}

/** A failure inside the service, not of the network, of load or of a restart: it may fail the same way each time. */
export interface ServiceFailure {
  readonly incident: string;
  /** The message without the incident number. */
  readonly text: string;
}

const incidentNumber = /incident ([0-9a-f-]{36})/;

export function serviceFailure(error: unknown): ServiceFailure | undefined {
  if (!(error instanceof MusterError) || error.httpStatus !== 500) return undefined;
  const incident = incidentNumber.exec(error.message)?.[1];
  return incident ? { incident, text: error.message.replace(incident, '') } : undefined;
}

/** Rises to two seconds, with some spread so that many runs do not knock at once. */
export function backoffMs(failures: number): number {
  return Math.min(100 * 2 ** (failures - 1), 2000) * (0.75 + Math.random() / 2);
}

/** Resolves early, and does not throw, when the signal aborts. */
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

/** Calls with a signal that aborts with the given one or when the time is up: a half-open connection hangs for ever. */
export async function callWithin<T>(
  timeoutMs: number,
  outer: AbortSignal,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const inner = new AbortController();
  const abort = () => inner.abort(outer.reason);
  const timer = setTimeout(() => inner.abort(new Error(`no reply within ${timeoutMs} ms`)), timeoutMs);
  outer.addEventListener('abort', abort);
  if (outer.aborted) abort();
  try {
    const reply = await call(inner.signal);
    // The client takes a body that was cut off for an empty one.
    inner.signal.throwIfAborted();
    return reply;
  } finally {
    clearTimeout(timer);
    outer.removeEventListener('abort', abort);
  }
}

const mostTries = 8;

/** For calls that may be repeated: a lost reply or a restarting service is not the caller's concern. */
export async function persevere<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted || failures >= mostTries || !isTransient(error)) throw error;
    }
    await pauseUnless(signal, backoffMs(failures));
  }
}

/** A key that is refused is dead, and a tenant without room stays so: another try would not help. */
function isTransient(error: unknown): boolean {
  if (!(error instanceof MusterError)) return true;
  const isDenied = error.httpStatus === 401 || error.httpStatus === 403;
  return faultOf(error) === 'retry' && !isDenied && error.reason !== 'CHECKPOINTS_FULL';
}

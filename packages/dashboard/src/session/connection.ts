import { ConnectionError, UnavailableError } from '@muster/sdk';
import { useEffect, useRef, useSyncExternalStore } from 'react';
import { Listeners } from '../parts/model/listeners.ts';

/** Since when at least one stream is disconnected, which makes the page stale. */
interface Outage {
  readonly sinceMs: number;
}

class Connection {
  readonly #broken = new Set<string>();
  #outage: Outage | null = null;
  readonly #listeners = new Listeners();

  /** An operation failed and is retried. Only streams count: other calls show their own errors. */
  lost(operation: string): void {
    if (!operation.endsWith('Stream')) return;
    this.#broken.add(operation);
    this.#outage ??= { sinceMs: Date.now() };
    this.#listeners.notify();
  }

  /** A stream is open again or no longer needed. */
  restored(operation: string): void {
    if (!this.#broken.delete(operation) || this.#broken.size > 0) return;
    this.#outage = null;
    this.#listeners.notify();
  }

  readonly subscribe = this.#listeners.subscribe;
  readonly current = (): Outage | null => this.#outage;
}

export const connection = new Connection();

export const useOutage = (): Outage | null => useSyncExternalStore(connection.subscribe, connection.current);

/** Once the service is back, an error that only said that it is unavailable is forgotten. */
export function useForgetOutage({
  error,
  reset,
}: {
  readonly error: unknown;
  readonly reset: () => void;
}): void {
  const outage = useOutage();
  const wasOut = useRef(false);
  useEffect(() => {
    if (outage) wasOut.current = true;
    if (outage || !wasOut.current) return;
    wasOut.current = false;
    if (error instanceof ConnectionError || error instanceof UnavailableError) reset();
  }, [outage, error, reset]);
}

import { useSyncExternalStore } from 'react';

/** Since when at least one stream is disconnected, which makes the page stale. */
export interface Outage {
  readonly sinceMs: number;
}

class Connection {
  readonly #broken = new Set<string>();
  #outage: Outage | null = null;
  readonly #listeners = new Set<() => void>();

  /** An operation failed and is retried. Only streams count: other calls show their own errors. */
  lost(operation: string): void {
    if (!operation.endsWith('Stream')) return;
    this.#broken.add(operation);
    this.#outage ??= { sinceMs: Date.now() };
    this.#notify();
  }

  /** A stream is open again or no longer needed. */
  restored(operation: string): void {
    if (!this.#broken.delete(operation) || this.#broken.size > 0) return;
    this.#outage = null;
    this.#notify();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  readonly current = (): Outage | null => this.#outage;

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

export const connection = new Connection();

export const useOutage = (): Outage | null => useSyncExternalStore(connection.subscribe, connection.current);

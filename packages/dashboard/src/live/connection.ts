import { useSyncExternalStore } from 'react';

/** Whether what is on the page is true now: which streams are broken, and since when. */
export interface Away {
  readonly sinceMs: number;
}

class Connection {
  #broken = new Set<string>();
  #away: Away | null = null;
  readonly #listeners = new Set<() => void>();

  /** A stream, or another operation, failed and is tried again. */
  lost(operation: string): void {
    // A call says by itself that it failed; only a stream that is broken makes the page old.
    if (!operation.endsWith('Stream')) return;
    this.#broken.add(operation);
    this.#away ??= { sinceMs: Date.now() };
    this.#tell();
  }

  /** A stream is open, or nobody needs it any more. */
  restored(operation: string): void {
    if (!this.#broken.delete(operation) || this.#broken.size > 0) return;
    this.#away = null;
    this.#tell();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  readonly current = (): Away | null => this.#away;

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

export const connection = new Connection();

export const useAway = (): Away | null => useSyncExternalStore(connection.subscribe, connection.current);

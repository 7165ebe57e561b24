import { setTimeout as pause } from 'node:timers/promises';
import { type AgentEntry, limits } from '@muster/sdk/contract';
import type { ListQuery } from './lists.ts';
import type { ListScope, Reads } from './read.ts';
import type { Wakes } from './wakes.ts';

/** A stream reads no more often than this. */
const gatherMs = 100;

/** A reader that is behind by so many agents has to begin anew. */
const mostChanged = 100 * limits.pageSize;

/** Who reads the stream. What is shown or said to it comes back when it has room for more. */
export interface ListReader {
  readonly signal: AbortSignal;
  show(entries: readonly AgentEntry[]): Promise<void>;
  sayWhole(): Promise<void>;
}

export interface ListSources {
  readonly reads: Pick<Reads, 'list' | 'changed'>;
  readonly wakes: Pick<Wakes, 'watchList'>;
}

/**
 * The whole list, page after page; then each agent again when it has changed, until the reader leaves. The changes are
 * watched before the list is read, so that none falls between the two. A change is shown at once, and those that come
 * within the next moment are gathered: a hundred changes cost one read, not a hundred. All that waits for a slow reader
 * is a page and the ids of what changed. A stream that might have missed something ends, and its reader begins anew.
 */
export async function streamList(
  { reads, wakes }: ListSources,
  { scope, before, pageSize }: ListQuery,
  { signal, show, sayWhole }: ListReader,
): Promise<void> {
  const changed = new Changed();
  const unwatch = wakes.watchList({
    tenant: scope.tenant,
    changed: (id) => changed.add(id),
    missed: () => changed.end(),
  });
  const end = () => changed.end();
  signal.addEventListener('abort', end);
  const shown = canLeave(scope) ? new Set<string>() : null;
  try {
    let from = before;
    do {
      const page = await reads.list(scope, from, pageSize);
      for (const key of page.keys) shown?.add(key);
      await show(page.entries);
      if (signal.aborted) return;
      from = page.next;
    } while (from !== null);
    await sayWhole();
    let readMs = Number.NEGATIVE_INFINITY;
    for (;;) {
      await changed.some();
      const waitMs = readMs + gatherMs - performance.now();
      if (waitMs > 0 && !signal.aborted) await pause(waitMs, undefined, { signal });
      readMs = performance.now();
      const ids = changed.take();
      if (ids === null) return;
      const { entries, keys, fits, rest } = await reads.changed(scope, ids);
      for (const id of rest) changed.add(id);
      // One that left the list is shown once more, so that the reader sees it leave.
      await show(entries.filter((_, i) => fits[i] || shown?.has(keys[i] ?? '')));
      for (const [i, key] of keys.entries()) {
        if (fits[i]) shown?.add(key);
        else shown?.delete(key);
      }
    }
  } finally {
    unwatch();
    signal.removeEventListener('abort', end);
  }
}

/** Whether an agent that the list shows may come to be one that it does not show. */
const canLeave = ({ includeTerminal, endedSince, phases, labels }: ListScope): boolean =>
  !includeTerminal || endedSince !== null || phases.length > 0 || Object.keys(labels).length > 0;

/** The agents that changed since they were taken last. */
class Changed {
  readonly #ids = new Set<string>();
  #isOver = false;
  #wake: () => void = () => {};

  add(id: string): void {
    if (this.#isOver) return;
    this.#ids.add(id);
    if (this.#ids.size > mostChanged) this.end();
    else this.#wake();
  }

  /** Nothing is gathered any more. */
  end(): void {
    this.#isOver = true;
    this.#ids.clear();
    this.#wake();
  }

  /** Resolves when there are some, or there will be none. */
  async some(): Promise<void> {
    if (this.#ids.size === 0 && !this.#isOver) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  /** Null at the end. */
  take(): string[] | null {
    if (this.#isOver) return null;
    const ids: string[] = [];
    for (const id of this.#ids) {
      if (ids.length === limits.pageSize) break;
      ids.push(id);
      this.#ids.delete(id);
    }
    return ids;
  }
}

import { setTimeout as pause } from 'node:timers/promises';
import {
  type AgentEntry,
  limits,
  type Phase,
  type TimelineEntry,
  type TimelinePartial,
} from '@muster/sdk/contract';
import { withWakeSignal } from '../../lib/wake-signal.ts';
import type { FoundRow } from '../../store/statements/find-agents.ts';
import type { ListQuery } from '../agents/lists.ts';
import type { ListScope, Reads } from '../agents/read.ts';
import { isRefusal } from '../refusal.ts';
import type { LiveOutputRelay } from './live-output-relay.ts';
import { readerOf, type Wakes } from './wakes.ts';

/** A stream reads no more often than this. */
const gatherMs = 100;

/** A reader shows the first agents while it gets the rest. */
const firstPageSize = 60;

/** A reader that is behind by this number of agents has to connect again. */
const maxChanged = 100 * limits.pageSize;

/** Each method resolves when the reader has room for more. */
export interface ListReader {
  readonly signal: AbortSignal;
  show(entries: readonly AgentEntry[]): Promise<void>;
  /** The whole list was sent; what follows are changes. */
  endOfList(): Promise<void>;
}

export interface ListSources {
  readonly reads: Pick<Reads, 'list' | 'changed'>;
  readonly wakes: Pick<Wakes, 'watchList'>;
}

/**
 * Sends the whole list page after page, then each agent again when it has changed, until the reader leaves. Changes are
 * watched before the list is read, so that none is missed between the two. The first change is sent immediately and
 * those of the next 100 ms together: a hundred changes cost one read. A slow reader holds one page and the ids of what
 * changed. A stream that may have missed something ends; its reader connects again.
 */
export async function streamList(
  { reads, wakes }: ListSources,
  { scope, before, pageSize }: ListQuery,
  { signal, show, endOfList }: ListReader,
): Promise<void> {
  const changed = new Changed();
  const unwatch = wakes.watchList({
    tenant: scope.tenant,
    reader: scope.reader ? readerOf(scope.reader) : '',
    changed: (id) => changed.add(id),
    missed: () => changed.end(),
  });
  const end = () => changed.end();
  signal.addEventListener('abort', end);
  const shown = canLeave(scope) ? new Set<string>() : null;
  try {
    let from = before;
    let size = Math.min(firstPageSize, pageSize);
    do {
      const page = await reads.list(scope, from, size);
      size = pageSize;
      for (const key of page.keys) shown?.add(key);
      await show(page.entries);
      if (signal.aborted) return;
      from = page.next;
    } while (from !== null);
    await endOfList();
    let readMs = Number.NEGATIVE_INFINITY;
    for (;;) {
      await changed.next();
      const waitMs = readMs + gatherMs - performance.now();
      if (waitMs > 0 && !signal.aborted) await pause(waitMs, undefined, { signal });
      readMs = performance.now();
      const ids = changed.take();
      if (ids === null) return;
      const { entries, keys, fits, rest } = await reads.changed(scope, ids);
      for (const id of rest) changed.add(id);
      // An agent that left the list is sent once more, so that the reader can remove it.
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

/** Whether an agent of the list may stop fitting its filter. */
const canLeave = ({ includeTerminal, endedSince, phases, labels }: ListScope): boolean =>
  !includeTerminal || endedSince !== null || phases.length > 0 || Object.keys(labels).length > 0;

/** The agents that changed since the last `take`. */
class Changed {
  readonly #ids = new Set<string>();
  #hasEnded = false;
  #wake: () => void = () => {};

  add(id: string): void {
    if (this.#hasEnded) return;
    this.#ids.add(id);
    if (this.#ids.size > maxChanged) this.end();
    else this.#wake();
  }

  end(): void {
    this.#hasEnded = true;
    this.#ids.clear();
    this.#wake();
  }

  /** Resolves when there is a change, or at the end. */
  async next(): Promise<void> {
    if (this.#ids.size === 0 && !this.#hasEnded) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  /** Null at the end. */
  take(): string[] | null {
    if (this.#hasEnded) return null;
    const ids: string[] = [];
    for (const id of this.#ids) {
      if (ids.length === limits.pageSize) break;
      ids.push(id);
      this.#ids.delete(id);
    }
    return ids;
  }
}

const pageEntries = 500;

export interface TimelineReader {
  readonly signal: AbortSignal;
  send(entry: TimelineEntry): Promise<void>;
  sendPartial(partial: TimelinePartial): Promise<void>;
}

export interface TimelineSources {
  readonly reads: Pick<Reads, 'timeline'>;
  readonly wakes: Pick<Wakes, 'watchAgent'>;
  readonly live: Pick<LiveOutputRelay, 'watch'>;
}

/**
 * Sends every entry of a timeline after the given one, then each new one, until the reader leaves; while the agent runs,
 * also what it is producing.
 */
export async function streamTimeline(
  { reads, wakes, live }: TimelineSources,
  agent: FoundRow,
  after: number,
  { signal, send, sendPartial }: TimelineReader,
): Promise<void> {
  let last = after;
  let newest = agent.sequence;
  const partials = new Partials();
  let unwatchLive: (() => void) | null = null;
  const watch = (wake: () => void) => {
    const follow = (phase: Phase) => {
      if (phase !== 'PHASE_RUNNING') {
        unwatchLive?.();
        unwatchLive = null;
      } else unwatchLive ??= live.watch(agent, (partial) => partials.add(partial) && wake());
    };
    follow(agent.phase);
    return wakes.watchAgent(agent, ({ phase, sequence }) => {
      follow(phase);
      newest = Math.max(newest, sequence);
      if (newest > last) wake();
    });
  };
  try {
    await withWakeSignal(signal, watch, async (wakeSignal) => {
      for (let mayHaveMore = true; !signal.aborted; ) {
        if (mayHaveMore || newest > last) {
          const page = await reads.timeline(agent, { after: last }, pageEntries);
          if (isRefusal(page)) return;
          for (const entry of page.entries) {
            if (signal.aborted) return;
            await send(entry);
            last = Number(entry.sequence);
            partials.settle(entry);
          }
          mayHaveMore = page.entries.length > 0;
          continue;
        }
        const partial = partials.take();
        if (partial) await sendPartial(partial);
        else await wakeSignal.within(Number.POSITIVE_INFINITY);
      }
    });
  } finally {
    (unwatchLive as (() => void) | null)?.();
  }
}

/** What waits for a slow reader at most: the oldest partials are dropped. */
const maxPartials = 16;
const maxSettledKeys = 100;

/** The partials that a stream has to send. None comes after the entry that replaces it, or after the end of its run. */
class Partials {
  #waiting: TimelinePartial[] = [];
  readonly #settledKeys = new Set<string>();
  #endedRun = 0;

  /** Returns whether it has to be sent. */
  add(partial: TimelinePartial): boolean {
    if (this.#isSettled(partial)) return false;
    if (this.#waiting.length >= maxPartials) this.#waiting.shift();
    this.#waiting.push(partial);
    return true;
  }

  take(): TimelinePartial | undefined {
    return this.#waiting.shift();
  }

  settle({ type, runId, data }: TimelineEntry): void {
    const isEnd = type === 'RUN_ENDED';
    if (isEnd) this.#endedRun = Number(runId);
    else if (typeof data.key === 'string') this.#settledKeys.add(data.key);
    else return;
    for (const key of this.#settledKeys) {
      if (this.#settledKeys.size <= maxSettledKeys) break;
      this.#settledKeys.delete(key);
    }
    this.#waiting = this.#waiting.filter((partial) => !this.#isSettled(partial));
  }

  #isSettled({ key, runId }: TimelinePartial): boolean {
    return this.#settledKeys.has(key) || Number(runId) <= this.#endedRun;
  }
}

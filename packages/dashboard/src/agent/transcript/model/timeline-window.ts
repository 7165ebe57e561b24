import {
  type LiveText,
  LiveTexts,
  MusterError,
  OutOfRangeError,
  type TimelineEntry,
  type TimelinePartial,
} from '@muster/sdk';
import { sequenceOf } from './rows.ts';

/** Reads the timeline; pages are oldest first. */
export interface TimelineSource {
  readonly before: (
    sequence: number,
    limit: number,
    signal: AbortSignal,
  ) => Promise<readonly TimelineEntry[]>;
  readonly after: (sequence: number, limit: number, signal: AbortSignal) => Promise<readonly TimelineEntry[]>;
  /** Every entry after one, as it is written, until the signal; and what the agent is producing. */
  readonly stream: (
    after: number,
    signal: AbortSignal,
    onPartial: (partial: TimelinePartial) => void,
  ) => AsyncIterable<TimelineEntry>;
}

/**
 * The loaded part of an agent's timeline: a contiguous range of entries.
 *
 *   1 ······ [first ─── window ─── last] ······ newest
 *            older pages ◂      ▸ newer pages
 *
 * It opens with one page, at the end or around one entry, so that a long timeline opens as fast as a short one. One
 * stream delivers all new entries. A new entry joins the window if it directly follows the last one; otherwise the
 * window is further up and only `newest` changes. Sequences have no gaps: after a gap in the stream, the window is
 * loaded again.
 */
export interface TimelineView {
  readonly entries: readonly TimelineEntry[];
  /** What the agent is producing. */
  readonly liveTexts: readonly LiveText[];
  /** Counts the moves to another position; a scroll offset is valid within one of them. */
  readonly epoch: number;
  readonly position: Position;
  /** The entry of the last move, if there is none; the view is at the end instead. */
  readonly missing: number | null;
  readonly isOpen: boolean;
  readonly isAtStart: boolean;
  readonly isAtEnd: boolean;
  /** Entries before the first one exceeded their retention time. */
  readonly areOlderRemoved: boolean;
  readonly loading: Loading;
  readonly newest: number;
  readonly error: unknown;
  readonly pageError: unknown;
}

/** Where the view starts after a move: an end of the timeline, or the sequence of an entry. */
export type Position = 'start' | 'end' | number;
export type Loading = 'older' | 'newer' | 'elsewhere' | null;

export interface TimelineWindowOptions {
  readonly source: TimelineSource;
  /** The entry to open around; by default the window opens at the end. */
  readonly around?: number | undefined;
  /** Called with streamed entries, once per notification. */
  readonly onNewEntries?: (entries: readonly TimelineEntry[]) => void;
  readonly pageEntries?: number;
  readonly maxEntries?: number;
  readonly retryMs?: number;
  readonly schedule?: (notify: () => void) => void;
}

const afterLast = Number.MAX_SAFE_INTEGER;

class GapError extends Error {}
const needsReload = (error: unknown): boolean =>
  error instanceof GapError || error instanceof OutOfRangeError;

const frameMs = 16;
let notifiedMs = Number.NEGATIVE_INFINITY;

/** Notifies immediately, and at most once per frame. A hidden page has no frames. */
function oncePerFrame(notify: () => void): void {
  const notifyNow = () => {
    notifiedMs = performance.now();
    notify();
  };
  if (document.hidden) setTimeout(notify, 150);
  else if (performance.now() - notifiedMs > frameMs) notifyNow();
  else requestAnimationFrame(notifyNow);
}

export class TimelineWindow {
  readonly #source: TimelineSource;
  readonly #options: TimelineWindowOptions;
  readonly #pageEntries: number;
  readonly #maxEntries: number;
  readonly #listeners = new Set<() => void>();
  #stop = new AbortController();
  #entries: readonly TimelineEntry[] = [];
  #newEntries: TimelineEntry[] = [];
  readonly #live = new LiveTexts();
  #liveTexts: readonly LiveText[] = [];
  #epoch = 0;
  #position: Position = 'end';
  #missing: number | null = null;
  #isOpen = false;
  #areOlderRemoved = false;
  /** The current request for a page; replies to earlier ones are ignored. */
  #loading: { readonly what: Exclude<Loading, null> } | null = null;
  #newest = 0;
  #error: unknown = null;
  #pageError: unknown = null;
  #retry: (() => Promise<void>) | null = null;
  #isScheduled = false;
  #view: TimelineView;
  /** Whether the view follows the end. Then a full window drops entries at its start. */
  isFollowed = true;

  constructor(options: TimelineWindowOptions) {
    this.#options = options;
    this.#source = options.source;
    this.#pageEntries = options.pageEntries ?? 200;
    this.#maxEntries = options.maxEntries ?? 10_000;
    this.#view = this.#snapshot();
  }

  /** Follows the timeline until the returned function is called. */
  start(): () => void {
    const stop = new AbortController();
    this.#stop = stop;
    void this.#stream(stop.signal);
    return () => stop.abort();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  readonly view = (): TimelineView => this.#view;

  has(sequence: number): boolean {
    return sequence >= this.#first && sequence <= this.#last && this.#entries.length > 0;
  }

  loadOlder(): Promise<void> {
    if (this.#isAtStart || this.#entries.length === 0) return Promise.resolve();
    return this.#load('older', async (signal, isCurrent) => {
      const entries = await this.#source.before(this.#first, this.#pageEntries, signal);
      if (!isCurrent()) return;
      const last = entries.at(-1);
      if (!last) this.#areOlderRemoved = true;
      else if (sequenceOf(last) + 1 !== this.#first) return this.moveTo('end');
      this.#entries = [...entries, ...this.#entries].slice(0, this.#maxEntries);
    });
  }

  loadNewer(): Promise<void> {
    if (this.#isAtEnd || this.#entries.length === 0) return Promise.resolve();
    return this.#load('newer', async (signal, isCurrent) => {
      const entries = await this.#source.after(this.#last, this.#pageEntries, signal);
      if (!isCurrent()) return;
      const first = entries[0];
      if (first && sequenceOf(first) !== this.#last + 1) return this.moveTo('end');
      this.#entries = [...this.#entries, ...entries].slice(-this.#maxEntries);
    });
  }

  tryAgain(): Promise<void> {
    return this.#retry?.() ?? Promise.resolve();
  }

  /** Moves the window, even while a page is loading. Moves to the end if the entry does not exist. */
  moveTo(position: Position): Promise<void> {
    this.#loading = null;
    return this.#load('elsewhere', async (signal, isCurrent) => {
      const { entries, found } = await this.#readPage(position, signal);
      if (isCurrent()) this.#show(entries, found, position);
    });
  }

  async #readPage(
    position: Position,
    signal: AbortSignal,
  ): Promise<{ entries: readonly TimelineEntry[]; found: Position }> {
    const { before, after } = this.#source;
    const limit = this.#pageEntries;
    if (position === 'start') return { entries: await after(0, limit, signal), found: 'start' };
    if (position === 'end') return { entries: await before(afterLast, limit, signal), found: 'end' };
    // Two thirds of the page lead up to the entry. A page of large entries may be too short for the rest.
    for (const later of [Math.ceil(limit / 3), 0]) {
      const entries = await before(position + 1 + later, limit, signal);
      if (entries.some((entry) => sequenceOf(entry) === position)) return { entries, found: position };
    }
    return { entries: await before(afterLast, limit, signal), found: 'end' };
  }

  #show(entries: readonly TimelineEntry[], position: Position, wanted = position): void {
    this.#entries = entries;
    this.#loading = null;
    this.#position = position;
    this.#missing = typeof wanted === 'number' && position !== wanted ? wanted : null;
    this.#epoch += 1;
    this.#isOpen = true;
    this.isFollowed = position === 'end';
    this.#newest = Math.max(this.#newest, this.#last);
    // An agent is created with its first entry, so a missing one was removed.
    this.#areOlderRemoved = entries.length === 0 || (position === 'start' && this.#first > 1);
    this.#pageError = null;
    this.#notifySoon();
  }

  async #load(
    what: Exclude<Loading, null>,
    work: (signal: AbortSignal, isCurrent: () => boolean) => Promise<void>,
  ): Promise<void> {
    if (this.#loading || !this.#isOpen) return;
    this.#retry = null;
    const { signal } = this.#stop;
    const job = { what };
    const isCurrent = () => this.#loading === job && !signal.aborted;
    this.#loading = job;
    this.#pageError = null;
    this.#notifySoon();
    try {
      await work(signal, isCurrent);
    } catch (error) {
      if (!isCurrent()) return;
      if (error instanceof OutOfRangeError) return this.moveTo('start');
      this.#pageError = error;
      this.#retry = () => this.#load(what, work);
    } finally {
      if (isCurrent()) this.#loading = null;
      this.#notifySoon();
    }
  }

  async #stream(signal: AbortSignal): Promise<void> {
    let around = this.#options.around;
    while (!signal.aborted) {
      try {
        await this.#open(around, signal);
        around = undefined;
        this.#error = null;
        const onPartial = (partial: TimelinePartial) => this.#receivePartial(partial);
        for await (const entry of this.#source.stream(this.#newest, signal, onPartial)) this.#receive(entry);
      } catch (error) {
        if (signal.aborted) return;
        if (!needsReload(error)) this.#error = error;
        this.#notifySoon();
        // A 4xx reply is final; other errors are retried.
        if (error instanceof MusterError && error.httpStatus < 500 && !needsReload(error)) return;
        await pause(this.#options.retryMs ?? 2_000, signal);
      }
    }
  }

  async #open(around: number | undefined, signal: AbortSignal): Promise<void> {
    const entries = await this.#source.before(afterLast, this.#pageEntries, signal);
    this.#newest = entries.at(-1) ? sequenceOf(entries.at(-1)!) : 0;
    const isInside = around !== undefined && entries.some((entry) => sequenceOf(entry) === around);
    if (around === undefined || isInside) return this.#show(entries, around ?? 'end');
    const there = await this.#readPage(around, signal);
    this.#show(there.entries, there.found, around);
  }

  #receive(entry: TimelineEntry): void {
    const sequence = sequenceOf(entry);
    if (this.#newest > 0 && sequence > this.#newest + 1) throw new GapError();
    this.#newest = Math.max(this.#newest, sequence);
    this.#newEntries.push(entry);
    if (this.#liveTexts.length > 0) {
      this.#live.settle(entry);
      this.#liveTexts = this.#live.all;
    }
    const isNext = this.#entries.length === 0 || sequence === this.#last + 1;
    const isFull = this.#entries.length >= this.#maxEntries;
    if (isNext && !(isFull && !this.isFollowed)) this.#append(entry);
    this.#notifySoon();
  }

  #receivePartial(partial: TimelinePartial): void {
    this.#live.add(partial);
    this.#liveTexts = this.#live.all;
    this.#notifySoon();
  }

  /** Between two notifications nobody else has the array, so it grows in place. */
  #append(entry: TimelineEntry): void {
    if (this.#entries === this.#view.entries) this.#entries = [...this.#entries];
    (this.#entries as TimelineEntry[]).push(entry);
  }

  #notifySoon(): void {
    if (this.#isScheduled || this.#stop.signal.aborted) return;
    this.#isScheduled = true;
    const { schedule = oncePerFrame } = this.#options;
    schedule(() => {
      this.#isScheduled = false;
      if (this.#stop.signal.aborted) return;
      this.#trimStart();
      this.#view = this.#snapshot();
      for (const listener of this.#listeners) listener();
      const newEntries = this.#newEntries;
      this.#newEntries = [];
      if (newEntries.length > 0) this.#options.onNewEntries?.(newEntries);
    });
  }

  /** Drops more than needed, so that the next entry does not trim again. */
  #trimStart(): void {
    if (this.#entries.length > this.#maxEntries)
      this.#entries = this.#entries.slice(-Math.ceil(this.#maxEntries * 0.9));
  }

  #snapshot(): TimelineView {
    return {
      entries: this.#entries,
      liveTexts: this.#liveTexts,
      epoch: this.#epoch,
      position: this.#position,
      missing: this.#missing,
      isOpen: this.#isOpen,
      isAtStart: this.#isAtStart,
      isAtEnd: this.#isAtEnd,
      areOlderRemoved: this.#areOlderRemoved,
      loading: this.#loading?.what ?? null,
      newest: this.#newest,
      error: this.#error,
      pageError: this.#pageError,
    };
  }

  get #first(): number {
    const [first] = this.#entries;
    return first ? sequenceOf(first) : 0;
  }

  get #last(): number {
    const last = this.#entries.at(-1);
    return last ? sequenceOf(last) : 0;
  }

  get #isAtStart(): boolean {
    return this.#first <= 1 || this.#areOlderRemoved;
  }

  get #isAtEnd(): boolean {
    return this.#last >= this.#newest;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

import { MusterError, OutOfRangeError, type TimelineEntry } from '@muster/sdk';
import type { TimelineSource } from './timeline-source.ts';

/**
 * A contiguous stretch of an agent's timeline, of which the reader sees a part.
 *
 *   1 ······ [first ─── window ─── last] ······ newest
 *            older pages ◂      ▸ newer pages
 *
 * It opens at the end, or around one entry, with one page, so that a long timeline opens as fast as a short one. One
 * stream tells of everything new. An entry that comes joins the window when it is the next one behind it; else the
 * window is somewhere further up, and only learns how far the timeline has grown. Sequences have no gaps: should one be
 * seen all the same, the window is read anew.
 */
export interface TimelineView {
  readonly entries: readonly TimelineEntry[];
  /** Counts how often the window was put somewhere else; the reader's place belongs to one of them. */
  readonly epoch: number;
  readonly place: Place;
  readonly isOpen: boolean;
  readonly isAtStart: boolean;
  readonly isAtEnd: boolean;
  /** What came before the first entry is no longer kept. */
  readonly areOlderRemoved: boolean;
  readonly loading: Loading;
  /** The sequence of the newest entry that there is. */
  readonly newest: number;
  /** Why nothing can be shown, or nothing more comes. */
  readonly error: unknown;
  /** Why the last page did not come; asking for it again tries again. */
  readonly pageError: unknown;
}

/** Where the reader is put when the window was: the number is the sequence of an entry. */
export type Place = 'start' | 'end' | number;
export type Loading = 'older' | 'newer' | 'elsewhere' | null;

export interface TimelineWindowOptions {
  readonly source: TimelineSource;
  /** The entry to open around; else the end. */
  readonly around?: number | undefined;
  /** Of what the stream brings, once per telling. */
  readonly onNews?: (entries: readonly TimelineEntry[]) => void;
  readonly pageEntries?: number;
  readonly mostEntries?: number;
  readonly retryMs?: number;
  /** When the next telling is due. */
  readonly soon?: (tell: () => void) => void;
}

const endOfTime = Number.MAX_SAFE_INTEGER;
const numberOf = (entry: TimelineEntry): number => Number(entry.sequence);

class GapError extends Error {}
const isReadAnew = (error: unknown): boolean => error instanceof GapError || error instanceof OutOfRangeError;

const frameMs = 16;
let toldMs = Number.NEGATIVE_INFINITY;

/**
 * The first of the news is told at once, so that the next frame shows it; what comes within a frame of that waits for
 * the frame after. A hidden page has no frames.
 */
function onceAFrame(tell: () => void): void {
  const tellNow = () => {
    toldMs = performance.now();
    tell();
  };
  if (document.hidden) setTimeout(tell, 150);
  else if (performance.now() - toldMs > frameMs) tellNow();
  else requestAnimationFrame(tellNow);
}

export class TimelineWindow {
  readonly #source: TimelineSource;
  readonly #options: TimelineWindowOptions;
  readonly #pageEntries: number;
  readonly #mostEntries: number;
  readonly #listeners = new Set<() => void>();
  #stop = new AbortController();
  #entries: readonly TimelineEntry[] = [];
  #news: TimelineEntry[] = [];
  #epoch = 0;
  #place: Place = 'end';
  #isOpen = false;
  #areOlderRemoved = false;
  /** The page that is on its way; what comes of another one is no longer wanted. */
  #job: { readonly what: Exclude<Loading, null> } | null = null;
  #newest = 0;
  #error: unknown = null;
  #pageError: unknown = null;
  /** Asks again for the page that did not come. */
  #again: (() => Promise<void>) | null = null;
  #isDue = false;
  #view: TimelineView;
  /** Whether the reader is at the end and goes along with it: then the start is given up when there is too much. */
  isFollowed = true;

  constructor(options: TimelineWindowOptions) {
    this.#options = options;
    this.#source = options.source;
    this.#pageEntries = options.pageEntries ?? 200;
    this.#mostEntries = options.mostEntries ?? 10_000;
    this.#view = this.#look();
  }

  /** Follows the timeline until the returned function is called. */
  start(): () => void {
    const stop = new AbortController();
    this.#stop = stop;
    void this.#live(stop.signal);
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
    return this.#load('older', async (signal, isStill) => {
      const entries = await this.#source.before(this.#first, this.#pageEntries, signal);
      if (!isStill()) return;
      const last = entries.at(-1);
      if (!last) this.#areOlderRemoved = true;
      else if (numberOf(last) + 1 !== this.#first) return this.#put('end');
      this.#entries = [...entries, ...this.#entries].slice(0, this.#mostEntries);
    });
  }

  loadNewer(): Promise<void> {
    if (this.#isAtEnd || this.#entries.length === 0) return Promise.resolve();
    return this.#load('newer', async (signal, isStill) => {
      const entries = await this.#source.after(this.#last, this.#pageEntries, signal);
      if (!isStill()) return;
      const first = entries[0];
      if (first && numberOf(first) !== this.#last + 1) return this.#put('end');
      this.#entries = [...this.#entries, ...entries].slice(-this.#mostEntries);
    });
  }

  toEnd(): Promise<void> {
    return this.#put('end');
  }

  toStart(): Promise<void> {
    return this.#put('start');
  }

  /** To the end when there is no such entry, or no longer. */
  toEntry(sequence: number): Promise<void> {
    return this.#put(sequence);
  }

  /** After a page error. */
  tryAgain(): Promise<void> {
    return this.#again?.() ?? Promise.resolve();
  }

  /** Puts the window somewhere else, even while a page is on its way to where it was. */
  #put(place: Place): Promise<void> {
    this.#job = null;
    return this.#load('elsewhere', async (signal, isStill) => {
      const { entries, found } = await this.#readAt(place, signal);
      if (isStill()) this.#show(entries, found);
    });
  }

  async #readAt(
    place: Place,
    signal: AbortSignal,
  ): Promise<{ entries: readonly TimelineEntry[]; found: Place }> {
    const { before, after } = this.#source;
    const limit = this.#pageEntries;
    if (place === 'start') return { entries: await after(0, limit, signal), found: 'start' };
    if (place === 'end') return { entries: await before(endOfTime, limit, signal), found: 'end' };
    // Most of the page is what led to the entry, the rest what came of it. Large entries leave room for less of that.
    for (const later of [Math.ceil(limit / 3), 0]) {
      const entries = await before(place + 1 + later, limit, signal);
      if (entries.some((entry) => numberOf(entry) === place)) return { entries, found: place };
    }
    return { entries: await before(endOfTime, limit, signal), found: 'end' };
  }

  #show(entries: readonly TimelineEntry[], place: Place): void {
    this.#entries = entries;
    this.#job = null;
    this.#place = place;
    this.#epoch += 1;
    this.#isOpen = true;
    this.isFollowed = place === 'end';
    this.#newest = Math.max(this.#newest, this.#last);
    // The first entry of all is written with the agent: where there is none, it was removed.
    this.#areOlderRemoved = entries.length === 0 || (place === 'start' && this.#first > 1);
    this.#pageError = null;
    this.#tellSoon();
  }

  async #load(
    what: Exclude<Loading, null>,
    work: (signal: AbortSignal, isStill: () => boolean) => Promise<void>,
  ): Promise<void> {
    if (this.#job || !this.#isOpen) return;
    this.#again = null;
    const { signal } = this.#stop;
    const job = { what };
    const isStill = () => this.#job === job && !signal.aborted;
    this.#job = job;
    this.#pageError = null;
    this.#tellSoon();
    try {
      await work(signal, isStill);
    } catch (error) {
      if (!isStill()) return;
      if (error instanceof OutOfRangeError) return this.#put('start');
      this.#pageError = error;
      this.#again = () => this.#load(what, work);
    } finally {
      if (isStill()) this.#job = null;
      this.#tellSoon();
    }
  }

  async #live(signal: AbortSignal): Promise<void> {
    let around = this.#options.around;
    while (!signal.aborted) {
      try {
        await this.#open(around, signal);
        around = undefined;
        this.#error = null;
        for await (const entry of this.#source.stream(this.#newest, signal)) this.#take(entry);
      } catch (error) {
        if (signal.aborted) return;
        if (!isReadAnew(error)) this.#error = error;
        this.#tellSoon();
        // A refusal is the last word. Anything else may pass.
        if (error instanceof MusterError && error.httpStatus < 500 && !isReadAnew(error)) return;
        await pause(this.#options.retryMs ?? 2_000, signal);
      }
    }
  }

  async #open(around: number | undefined, signal: AbortSignal): Promise<void> {
    const entries = await this.#source.before(endOfTime, this.#pageEntries, signal);
    this.#newest = entries.at(-1) ? numberOf(entries.at(-1)!) : 0;
    const isInside = around !== undefined && entries.some((entry) => numberOf(entry) === around);
    if (around === undefined || isInside) return this.#show(entries, around ?? 'end');
    const there = await this.#readAt(around, signal);
    this.#show(there.entries, there.found);
  }

  #take(entry: TimelineEntry): void {
    const sequence = numberOf(entry);
    if (this.#newest > 0 && sequence > this.#newest + 1) throw new GapError();
    this.#newest = Math.max(this.#newest, sequence);
    this.#news.push(entry);
    const isNext = this.#entries.length === 0 || sequence === this.#last + 1;
    const isFull = this.#entries.length >= this.#mostEntries;
    if (isNext && !(isFull && !this.isFollowed)) this.#append(entry);
    this.#tellSoon();
  }

  /** Between two tellings the array is our own, and grows in place. */
  #append(entry: TimelineEntry): void {
    if (this.#entries === this.#view.entries) this.#entries = [...this.#entries];
    (this.#entries as TimelineEntry[]).push(entry);
  }

  #tellSoon(): void {
    if (this.#isDue || this.#stop.signal.aborted) return;
    this.#isDue = true;
    const { soon = onceAFrame } = this.#options;
    soon(() => {
      this.#isDue = false;
      if (this.#stop.signal.aborted) return;
      this.#giveUpStart();
      this.#view = this.#look();
      for (const listener of this.#listeners) listener();
      const news = this.#news;
      this.#news = [];
      if (news.length > 0) this.#options.onNews?.(news);
    });
  }

  /** Some more than needed, so that it is not to be done again at the next entry. */
  #giveUpStart(): void {
    if (this.#entries.length > this.#mostEntries)
      this.#entries = this.#entries.slice(-Math.ceil(this.#mostEntries * 0.9));
  }

  #look(): TimelineView {
    return {
      entries: this.#entries,
      epoch: this.#epoch,
      place: this.#place,
      isOpen: this.#isOpen,
      isAtStart: this.#isAtStart,
      isAtEnd: this.#isAtEnd,
      areOlderRemoved: this.#areOlderRemoved,
      loading: this.#job?.what ?? null,
      newest: this.#newest,
      error: this.#error,
      pageError: this.#pageError,
    };
  }

  get #first(): number {
    const [first] = this.#entries;
    return first ? numberOf(first) : 0;
  }

  get #last(): number {
    const last = this.#entries.at(-1);
    return last ? numberOf(last) : 0;
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

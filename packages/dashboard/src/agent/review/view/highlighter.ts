import { useCallback, useSyncExternalStore } from 'react';
import { Listeners } from '../../../parts/model/listeners.ts';
import { trustedUrl } from '../../../parts/model/trusted-url.ts';
import type { WordRanges } from '../model/changed-words.ts';
import type { DiffLine } from '../model/diff-lines.ts';
import type { LineColours } from '../model/highlight.ts';
import type { HighlightReply, HighlightRequest } from './highlight-worker.ts';
import workerUrl from './highlight-worker.ts?worker&url';

/** What is known of a file's lines so far. */
export interface Highlights {
  readonly words: ReadonlyMap<number, WordRanges>;
  readonly colours: readonly (LineColours | undefined)[];
  /** Nothing more will be known. */
  readonly isDone: boolean;
}

const nothing: Highlights = { words: new Map(), colours: [], isDone: false };

/** A file that takes longer is shown plain. It is hostile: 20,000 lines take a fifth of this on a slow machine. */
const fileMs = 5_000;
/** After this number of them, all other files are shown plain. */
const mostFailures = 3;

/**
 * Highlights files one by one in a worker, so that neither a large file nor a hostile one delays the page: a worker that
 * does not answer is terminated.
 */
class Highlighter {
  readonly #found = new WeakMap<readonly DiffLine[], Highlights>();
  readonly #waiting: HighlightRequest[] = [];
  readonly #listeners = new Listeners();
  readonly subscribe = this.#listeners.subscribe;
  #worker: Worker | undefined;
  #current: HighlightRequest | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;

  known(lines: readonly DiffLine[]): Highlights {
    return this.#found.get(lines) ?? nothing;
  }

  /** Highlights the file unless that was asked for before. */
  ask(lines: readonly DiffLine[], language: string): void {
    if (this.#found.has(lines)) return;
    this.#found.set(lines, nothing);
    this.#waiting.push({ lines, language });
    this.#next();
  }

  #next(): void {
    if (this.#current) return;
    this.#current = this.#waiting.shift();
    while (this.#current && this.#failures >= mostFailures) {
      this.#finish(this.#current);
      this.#current = this.#waiting.shift();
    }
    if (!this.#current) return;
    this.#worker ??= this.#opened();
    this.#timer = setTimeout(() => this.#fail(), fileMs);
    this.#worker.postMessage(this.#current);
  }

  #opened(): Worker {
    const worker = new Worker(trustedUrl('highlighter', workerUrl), { type: 'module' });
    worker.onmessage = ({ data }: MessageEvent<HighlightReply>) => this.#take(data);
    worker.onerror = () => this.#fail();
    return worker;
  }

  #take(reply: HighlightReply): void {
    if (!this.#current) return;
    const { lines } = this.#current;
    this.#found.set(lines, { ...this.known(lines), ...reply });
    if ('colours' in reply) this.#end();
    else this.#listeners.notify();
  }

  #fail(): void {
    this.#failures += 1;
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#end();
  }

  #end(): void {
    clearTimeout(this.#timer);
    if (this.#current) this.#finish(this.#current);
    this.#current = undefined;
    this.#next();
    this.#listeners.notify();
  }

  #finish({ lines }: HighlightRequest): void {
    this.#found.set(lines, { ...this.known(lines), isDone: true });
  }
}

const highlighter = new Highlighter();

/** The highlights of a file, as soon as they are known. */
export const useHighlights = (lines: readonly DiffLine[]): Highlights =>
  useSyncExternalStore(
    highlighter.subscribe,
    useCallback(() => highlighter.known(lines), [lines]),
  );

export const highlight = (lines: readonly DiffLine[], language: string): void =>
  highlighter.ask(lines, language);

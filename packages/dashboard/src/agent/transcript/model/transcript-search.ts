import type { EntryType, TimelineEntry } from '@muster/sdk/contract';

/** What a search looks at. */
export const searchScopes = {
  all: ['Everything', []],
  messages: [
    'Messages',
    ['AGENT_SPAWNED', 'FOLLOW_UP_QUEUED', 'FOLLOW_UP_DEFERRED', 'FOLLOW_UP_DELIVERED', 'MESSAGE', 'QUESTION'],
  ],
  commands: ['Commands', ['TOOL_CALL', 'TOOL_RESULT', 'SETUP_OUTPUT']],
  errors: ['Errors and warnings', ['ERROR', 'WARNING']],
} as const satisfies Readonly<Record<string, readonly [title: string, types: readonly EntryType[]]>>;
export type SearchScope = keyof typeof searchScopes;

export interface SearchQuery {
  readonly text: string;
  readonly scope: SearchScope;
}

export interface SearchPage {
  readonly entries: readonly TimelineEntry[];
  /** Where the next page begins; empty at the end. */
  readonly nextSequence: string;
}

/** Reads the page of matches before a sequence, oldest first. */
export type SearchSource = (
  query: { readonly text: string; readonly types: readonly EntryType[] },
  before: string,
  signal: AbortSignal,
) => Promise<SearchPage>;

export interface SearchView {
  /** Sequences, newest first. */
  readonly matches: readonly number[];
  /** No older match is left to be found. */
  readonly isComplete: boolean;
  readonly isSearching: boolean;
  /** The match that is shown; null before there is one. */
  readonly current: number | null;
  readonly error: unknown;
}

const empty: SearchView = { matches: [], isComplete: true, isSearching: false, current: null, error: null };
const endOfTimeline = '9223372036854775807';

/**
 * Searches a timeline from its end, page by page, so that the newest match is shown while older ones are looked for. It
 * pauses after `pauseAfter` matches and goes on when the reader gets close to the last one.
 */
export class TranscriptSearch {
  readonly #source: SearchSource;
  readonly #onChange: (view: SearchView) => void;
  readonly #pauseAfter: number;
  #stop = new AbortController();
  #query: SearchQuery = { text: '', scope: 'all' };
  #view = empty;
  #next = '';
  /** Delivered messages that were found: the entry of the queued one has the same text. */
  #delivered = new Set<string>();

  constructor(source: SearchSource, onChange: (view: SearchView) => void, pauseAfter = 1000) {
    this.#source = source;
    this.#onChange = onChange;
    this.#pauseAfter = pauseAfter;
  }

  get view(): SearchView {
    return this.#view;
  }

  /** Starts again; a text of nothing but spaces finds all entries of a scope, and nothing among all. */
  search(query: SearchQuery): void {
    this.stop();
    this.#query = query;
    this.#delivered = new Set();
    this.#next = endOfTimeline;
    if (query.text.trim() === '' && query.scope === 'all') return this.#set(empty);
    this.#set({ ...empty, isComplete: false });
    void this.#read(this.#pauseAfter);
  }

  stop(): void {
    this.#stop.abort();
    this.#stop = new AbortController();
  }

  /** Goes on after an error. */
  tryAgain(): void {
    void this.#read(this.#view.matches.length + this.#pauseAfter);
  }

  /** To the next older match, or with -1 the next newer one; around the ends if all are known. */
  move(step: 1 | -1): void {
    const { matches, current, isComplete } = this.#view;
    if (matches.length === 0) return;
    const from = current === null ? -step : matches.indexOf(current);
    const to = from + step;
    if (to > matches.length - 10 && !isComplete) void this.#read(matches.length + this.#pauseAfter);
    if (!isComplete && (to < 0 || to >= matches.length)) return;
    this.#set({ ...this.#view, current: matches.at(to % matches.length) ?? null });
  }

  /** New entries of the timeline, oldest first. */
  add(entries: readonly TimelineEntry[]): void {
    const { text, scope } = this.#query;
    if (text.trim() === '' && scope === 'all') return;
    const newest = this.#view.matches[0] ?? 0;
    const found = this.#found(entries.filter((entry) => isMatch(entry, this.#query))).filter(
      (sequence) => sequence > newest,
    );
    if (found.length > 0) this.#set({ ...this.#view, matches: [...found, ...this.#view.matches] });
  }

  /** Newest first, and each message once. */
  #found(entries: readonly TimelineEntry[]): number[] {
    return entries
      .toReversed()
      .filter(({ type, followUpId }) => {
        if (type === 'FOLLOW_UP_DELIVERED') this.#delivered.add(followUpId);
        return type === 'FOLLOW_UP_DELIVERED' || followUpId === '' || !this.#delivered.has(followUpId);
      })
      .map(({ sequence }) => Number(sequence));
  }

  async #read(upTo: number): Promise<void> {
    if (this.#view.isSearching || this.#next === '') return;
    const { signal } = this.#stop;
    const { text, scope } = this.#query;
    this.#set({ ...this.#view, isSearching: true, error: null });
    try {
      while (this.#next !== '' && this.#view.matches.length < upTo) {
        const page = await this.#source({ text, types: searchScopes[scope][1] }, this.#next, signal);
        if (signal.aborted) return;
        this.#next = page.nextSequence;
        const matches = [...this.#view.matches, ...this.#found(page.entries)];
        const current = this.#view.current ?? matches[0] ?? null;
        this.#set({ ...this.#view, matches, current, isComplete: this.#next === '' });
      }
      this.#set({ ...this.#view, isSearching: false });
    } catch (error) {
      if (!signal.aborted) this.#set({ ...this.#view, isSearching: false, error });
    }
  }

  #set(view: SearchView): void {
    this.#view = view;
    this.#onChange(view);
  }
}

const isMatch = ({ type, text }: TimelineEntry, query: SearchQuery): boolean => {
  const types: readonly EntryType[] = searchScopes[query.scope][1];
  return (
    (types.length === 0 || types.includes(type)) && text.toLowerCase().includes(query.text.toLowerCase())
  );
};

/** `3 of 42`, `3 of 1,000+`, `No matches`. Counted from the newest. */
export function countText({ matches, current, isComplete, isSearching }: SearchView): string {
  const count = `${matches.length.toLocaleString('en')}${isComplete ? '' : '+'}`;
  if (matches.length > 0) return `${(matches.indexOf(current ?? 0) + 1).toLocaleString('en')} of ${count}`;
  return isSearching ? 'Searching …' : 'No matches';
}

import type { TimelineEntry } from '@muster/sdk/contract';

/**
 * What the reader sees of a timeline, made from its entries as they come. A call and its result are one row, wherever
 * the result stands; so are messages of the machine about itself that follow one another, and the pieces of one output.
 *
 * A row keeps its key while it grows at either side: the key is how the reader's place is known when an older page
 * comes. So once an entry was part of a row, whatever row it is in later has that row's key.
 */
interface Placed {
  readonly key: string;
  /** Of its first entry. */
  readonly sequence: number;
  readonly at: string;
}

export type Row = Placed &
  (
    | { readonly kind: 'person'; readonly entry: TimelineEntry; readonly text: string | null }
    | { [K in EntryKind]: { readonly kind: K; readonly entry: TimelineEntry } }[EntryKind]
    | { readonly kind: 'run-end'; readonly entry: TimelineEntry; readonly startedAt: string | null }
    | {
        readonly kind: 'tool';
        readonly call: TimelineEntry | null;
        readonly results: readonly TimelineEntry[];
        /** Its run is over: no result comes any more. */
        readonly isOver: boolean;
      }
    | { readonly kind: 'setup'; readonly entries: readonly TimelineEntry[] }
    | { readonly kind: 'quiet'; readonly entries: readonly TimelineEntry[] }
  );

/** Kinds of one entry that is shown by itself. */
type EntryKind =
  | 'message'
  | 'thinking'
  | 'question'
  | 'push'
  | 'child'
  | 'run-start'
  | 'warning'
  | 'error'
  | 'abandoned'
  | 'unknown';

export type RowOf<K extends Row['kind']> = Extract<Row, { kind: K }>;

const kinds: Readonly<Partial<Record<TimelineEntry['type'], EntryKind>>> = {
  MESSAGE: 'message',
  THINKING: 'thinking',
  QUESTION: 'question',
  PUSH: 'push',
  CHILD_SPAWNED: 'child',
  CHILD_SETTLED: 'child',
  RUN_STARTED: 'run-start',
  WARNING: 'warning',
  ERROR: 'error',
  BATCH_ABANDONED: 'abandoned',
};

const quietTypes: ReadonlySet<string> = new Set([
  'PHASE_CHANGED',
  'FOLLOW_UP_QUEUED',
  'FOLLOW_UP_DEFERRED',
  'FOLLOW_UP_CLEARED',
  'FOLLOW_UP_REMOVED',
  'TASK_CHANGED',
  'SETTINGS_CHANGED',
  'PROCESS_GONE',
]);

export const sequenceOf = (entry: TimelineEntry): number => Number(entry.sequence);
export const stringIn = (data: TimelineEntry['data'], field: string): string =>
  typeof data[field] === 'string' ? data[field] : '';

/** Of entries that are long out of sight it need not be known where they were. */
const mostKeys = 50_000;

export class Rows {
  #rows: Row[] = [];
  #entries: readonly TimelineEntry[] = [];
  /** Of the row that each entry was last seen in. */
  readonly #keys = new Map<number, string>();
  /** Of the rows that there are; those among them that no row had before. */
  #taken = new Set<string>();
  #minted = new Set<string>();
  /** Where the entry of this sequence is shown. */
  #places = new Map<number, number>();
  /** Words of messages, by id: they are told when a message is admitted, and meant when it is delivered. */
  readonly #words = new Map<string, string>();
  /** Places of calls that wait for a result. */
  #openCalls = new Map<string, number>();
  #runStarts = new Map<string, string>();

  /** The rows of these entries. Where they only continue the last ones, only what is new is looked at. */
  update(entries: readonly TimelineEntry[]): readonly Row[] {
    if (entries === this.#entries) return this.#rows;
    const before = this.#entries;
    const isContinued =
      before.length > 0 && entries.length >= before.length && entries[0]?.sequence === before[0]?.sequence;
    if (isContinued) this.#rows = [...this.#rows];
    else this.#begin();
    for (const entry of isContinued ? entries.slice(before.length) : entries) this.#add(entry);
    this.#entries = entries;
    return this.#rows;
  }

  /** The place of the row that shows an entry. */
  placeOf(sequence: number): number | undefined {
    return this.#places.get(sequence);
  }

  /** Words that were looked for elsewhere, of a message whose admission is not among the entries. */
  learn(followUpId: string, words: string): void {
    this.#words.set(followUpId, words);
    this.#entries = [];
  }

  #begin(): void {
    if (this.#keys.size > mostKeys) this.#keys.clear();
    this.#rows = [];
    this.#taken = new Set();
    this.#minted = new Set();
    this.#places = new Map();
    this.#openCalls = new Map();
    this.#runStarts = new Map();
  }

  #add(entry: TimelineEntry): void {
    const { type, followUpId, text, data } = entry;
    if (text !== '' && (type === 'FOLLOW_UP_QUEUED' || type === 'FOLLOW_UP_DEFERRED'))
      this.#words.set(followUpId, text);
    switch (type) {
      case 'AGENT_SPAWNED':
        return this.#push({ ...this.#placed(entry), kind: 'person', entry, text });
      case 'FOLLOW_UP_DELIVERED':
        return this.#push({
          ...this.#placed(entry),
          kind: 'person',
          entry,
          text: this.#words.get(followUpId) ?? null,
        });
      case 'TOOL_CALL':
        return this.#call(entry);
      case 'TOOL_RESULT':
        return this.#result(entry);
      case 'SETUP_OUTPUT':
        return this.#join('setup', entry, ({ entries }) => entries[0]?.data.command === data.command);
      case 'RUN_ENDED':
        return this.#endRun(entry);
      default:
        if (quietTypes.has(type)) return this.#join('quiet', entry, () => true);
        if (type === 'RUN_STARTED') this.#runStarts.set(entry.runId, entry.at);
        return this.#push({ ...this.#placed(entry), kind: kinds[type] ?? 'unknown', entry });
    }
  }

  #placed(entry: TimelineEntry): Placed {
    const sequence = sequenceOf(entry);
    return { key: this.#keyFor(sequence), sequence, at: entry.at };
  }

  #keyFor(sequence: number): string {
    const known = this.#keys.get(sequence);
    if (known !== undefined && !this.#taken.has(known)) return known;
    const own = `e${sequence}`;
    const key = this.#taken.has(own) ? `${own} again` : own;
    this.#minted.add(key);
    return key;
  }

  #push(row: Row): void {
    this.#taken.add(row.key);
    this.#keys.set(row.sequence, row.key);
    this.#places.set(row.sequence, this.#rows.length);
    this.#rows.push(row);
  }

  /** One more entry of a row. If it was shown before in a row of its own, this one takes the place of that. */
  #extend(place: number, row: Row, entry: TimelineEntry): void {
    const sequence = sequenceOf(entry);
    const known = this.#keys.get(sequence);
    const isHeir = known !== undefined && this.#minted.has(row.key) && !this.#taken.has(known);
    const key = isHeir ? known : row.key;
    if (isHeir) this.#taken.delete(row.key);
    this.#taken.add(key);
    this.#keys.set(sequence, key);
    this.#keys.set(row.sequence, key);
    this.#places.set(sequence, place);
    this.#rows[place] = isHeir ? { ...row, key } : row;
  }

  #join<K extends 'setup' | 'quiet'>(
    kind: K,
    entry: TimelineEntry,
    belongs: (row: { readonly entries: readonly TimelineEntry[] }) => boolean,
  ): void {
    const last = this.#rows.at(-1);
    if (last?.kind !== kind || !belongs(last))
      return this.#push({ ...this.#placed(entry), kind, entries: [entry] });
    this.#extend(this.#rows.length - 1, { ...last, entries: [...last.entries, entry] }, entry);
  }

  #call(entry: TimelineEntry): void {
    this.#openCalls.set(callName(entry), this.#rows.length);
    this.#push({ ...this.#placed(entry), kind: 'tool', call: entry, results: [], isOver: false });
  }

  #result(entry: TimelineEntry): void {
    const place = this.#openCalls.get(callName(entry));
    const row = place === undefined ? undefined : this.#rows[place];
    if (place === undefined || row?.kind !== 'tool')
      return this.#push({ ...this.#placed(entry), kind: 'tool', call: null, results: [entry], isOver: true });
    this.#extend(place, { ...row, results: [...row.results, entry] }, entry);
  }

  #endRun(entry: TimelineEntry): void {
    for (const place of this.#openCalls.values()) {
      const row = this.#rows[place];
      if (row?.kind === 'tool' && !row.isOver) this.#rows[place] = { ...row, isOver: true };
    }
    this.#openCalls.clear();
    const startedAt = this.#runStarts.get(entry.runId) ?? null;
    this.#push({ ...this.#placed(entry), kind: 'run-end', entry, startedAt });
  }
}

/** A harness names its calls; one that does not makes one after the other. */
const callName = ({ data }: TimelineEntry): string =>
  stringIn(data, 'id') || `the last ${stringIn(data, 'tool')}`;

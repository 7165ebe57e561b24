import type { TimelineEntry } from '@muster/sdk/contract';

/**
 * The rows of the transcript, built from timeline entries as they arrive. A tool call and its results are one row,
 * whatever the place of the results; so are consecutive system entries with the start of a run, and the pieces of one
 * setup output. What a call did to the checklist is in the row of the call.
 *
 * A row keeps its key while it grows at either end, because the list keeps its scroll position by key when an older page
 * is loaded. So once an entry was part of a row, any later row with that entry has the same key.
 */
interface RowBase {
  readonly key: string;
  /** Of the first entry; 0 for a text that the agent is producing. */
  readonly sequence: number;
  readonly at: string;
}

export type Row = RowBase &
  (
    | { readonly kind: 'user'; readonly entry: TimelineEntry; readonly text: string | null }
    | { [K in EntryKind]: { readonly kind: K; readonly entry: TimelineEntry } }[EntryKind]
    /** The start of a run, with the bookkeeping around it. */
    | {
        readonly kind: 'run-start';
        readonly entry: TimelineEntry;
        readonly entries: readonly TimelineEntry[];
      }
    | { readonly kind: 'run-end'; readonly entry: TimelineEntry; readonly startedAt: string | null }
    | {
        readonly kind: 'tool';
        readonly call: TimelineEntry | null;
        readonly results: readonly TimelineEntry[];
        /** No result follows after the end of the run. */
        readonly hasRunEnded: boolean;
        /** What a call about tasks did to the checklist. */
        readonly changes: readonly TimelineEntry[];
        /** What it has printed so far, while it runs. */
        readonly liveOutput?: string;
      }
    | { readonly kind: 'setup'; readonly entries: readonly TimelineEntry[] }
    | { readonly kind: 'system'; readonly entries: readonly TimelineEntry[] }
  );

type EntryKind =
  | 'message'
  | 'thinking'
  | 'question'
  | 'push'
  | 'child'
  | 'warning'
  | 'error'
  | 'abandoned'
  | 'plan'
  | 'compaction'
  | 'unknown';

export type RowOf<K extends Row['kind']> = Extract<Row, { kind: K }>;

const kinds: Readonly<Partial<Record<TimelineEntry['type'], EntryKind>>> = {
  MESSAGE: 'message',
  THINKING: 'thinking',
  QUESTION: 'question',
  PUSH: 'push',
  CHILD_SPAWNED: 'child',
  CHILD_SETTLED: 'child',
  WARNING: 'warning',
  ERROR: 'error',
  BATCH_ABANDONED: 'abandoned',
  PLAN: 'plan',
  COMPACTION: 'compaction',
};

const systemTypes: ReadonlySet<string> = new Set([
  'PHASE_CHANGED',
  'FOLLOW_UP_QUEUED',
  'FOLLOW_UP_DEFERRED',
  'FOLLOW_UP_CLEARED',
  'FOLLOW_UP_REMOVED',
  'QUEUE_ORDERED',
  'TASK_CHANGED',
  'THREADS_CHANGED',
  'SETTINGS_CHANGED',
  'PROCESS_GONE',
  'RUN_STARTED',
]);

/** Phases that the rows around them show anyway. */
const quietReasons: readonly string[] = ['STARTING', 'WORKING', 'QUESTION'];
export const isQuiet = ({ type, data }: TimelineEntry): boolean =>
  type === 'PHASE_CHANGED' && quietReasons.includes(stringIn(data, 'reason'));

export const sequenceOf = (entry: TimelineEntry): number => Number(entry.sequence);
/** The key of the row of a live text. */
export const liveRowKey = (key: string): string => `live ${key}`;
export const stringIn = (data: TimelineEntry['data'], field: string): string =>
  typeof data[field] === 'string' ? data[field] : '';

export const stringsIn = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.map(String) : [];

/** Limits the memory for keys of entries that are no longer loaded. */
const maxKeys = 50_000;

export class Rows {
  #rows: Row[] = [];
  #entries: readonly TimelineEntry[] = [];
  /** The key of the last row of each entry, by sequence. */
  readonly #keys = new Map<number, string>();
  /** Keys of the current rows, and those of them that no row had before. */
  #usedKeys = new Set<string>();
  #newKeys = new Set<string>();
  /** The index of the row of each entry, by sequence. */
  #indexes = new Map<number, number>();
  /** Texts by follow-up id: the entry of the queued message has the text, the entry of its delivery does not. */
  readonly #messageTexts = new Map<string, string>();
  /** Row indexes of calls without a result. */
  #openCalls = new Map<string, number>();
  #runStarts = new Map<string, string>();

  /** The rows of these entries. If they only extend the last ones, only the new entries are processed. */
  update(entries: readonly TimelineEntry[]): readonly Row[] {
    if (entries === this.#entries) return this.#rows;
    const before = this.#entries;
    const isExtended =
      before.length > 0 && entries.length >= before.length && entries[0]?.sequence === before[0]?.sequence;
    if (isExtended) this.#rows = [...this.#rows];
    else this.#reset();
    for (const entry of isExtended ? entries.slice(before.length) : entries) this.#add(entry);
    this.#entries = entries;
    return this.#rows;
  }

  indexOf(sequence: number): number | undefined {
    return this.#indexes.get(sequence);
  }

  /** Adds the text of a message that was queued before the first loaded entry. */
  setMessageText(followUpId: string, text: string): void {
    this.#messageTexts.set(followUpId, text);
    this.#entries = [];
  }

  #reset(): void {
    if (this.#keys.size > maxKeys) this.#keys.clear();
    this.#rows = [];
    this.#usedKeys = new Set();
    this.#newKeys = new Set();
    this.#indexes = new Map();
    this.#openCalls = new Map();
    this.#runStarts = new Map();
  }

  #add(entry: TimelineEntry): void {
    const { type, followUpId, text } = entry;
    if (text !== '' && (type === 'FOLLOW_UP_QUEUED' || type === 'FOLLOW_UP_DEFERRED'))
      this.#messageTexts.set(followUpId, text);
    switch (type) {
      case 'AGENT_SPAWNED':
        return this.#push({ ...this.#base(entry), kind: 'user', entry, text });
      case 'FOLLOW_UP_DELIVERED':
        return this.#push({
          ...this.#base(entry),
          kind: 'user',
          entry,
          text: this.#messageTexts.get(followUpId) ?? null,
        });
      case 'TOOL_CALL':
        return this.#call(entry);
      case 'TOOL_RESULT':
        return this.#result(entry);
      case 'SETUP_OUTPUT':
        return this.#addOutput(entry);
      case 'RUN_ENDED':
        return this.#endRun(entry);
      default:
        if (type === 'RUN_STARTED') this.#runStarts.set(entry.runId, entry.at);
        if (systemTypes.has(type)) return this.#bookkeep(entry);
        return this.#push({ ...this.#base(entry), kind: kinds[type] ?? 'unknown', entry });
    }
  }

  #base(entry: TimelineEntry): RowBase {
    const sequence = sequenceOf(entry);
    return { key: this.#keyFor(sequence, entry), sequence, at: entry.at };
  }

  /** The row of a text that was shown while it was produced keeps its key. */
  #keyFor(sequence: number, { type, data }: TimelineEntry): string {
    const known = this.#keys.get(sequence);
    if (known !== undefined && !this.#usedKeys.has(known)) return known;
    const live = type === 'TOOL_RESULT' ? '' : stringIn(data, 'key');
    const isNewLive = live !== '' && !this.#usedKeys.has(liveRowKey(live));
    const first = isNewLive ? liveRowKey(live) : `e${sequence}`;
    const key = this.#usedKeys.has(first) ? `${first} again` : first;
    this.#newKeys.add(key);
    return key;
  }

  #push(row: Row): void {
    this.#usedKeys.add(row.key);
    this.#keys.set(row.sequence, row.key);
    this.#indexes.set(row.sequence, this.#rows.length);
    this.#rows.push(row);
  }

  /** Adds an entry to a row. If the entry already had a row, this row takes over its key. */
  #extend(index: number, row: Row, entry: TimelineEntry): void {
    const sequence = sequenceOf(entry);
    const known = this.#keys.get(sequence);
    const takesOver = known !== undefined && this.#newKeys.has(row.key) && !this.#usedKeys.has(known);
    const key = takesOver ? known : row.key;
    if (takesOver) this.#usedKeys.delete(row.key);
    this.#usedKeys.add(key);
    this.#keys.set(sequence, key);
    this.#keys.set(row.sequence, key);
    this.#indexes.set(sequence, index);
    this.#rows[index] = takesOver ? { ...row, key } : row;
  }

  /** Consecutive bookkeeping is one row, and so is what surrounds the start of a run. */
  #bookkeep(entry: TimelineEntry): void {
    const index = this.#rows.length - 1;
    const last = this.#rows[index];
    const isStart = entry.type === 'RUN_STARTED';
    if (last?.kind === 'system' || (last?.kind === 'run-start' && !isStart)) {
      const entries = [...last.entries, entry];
      const row: Row = isStart ? { ...last, kind: 'run-start', entry, entries } : { ...last, entries };
      return this.#extend(index, row, entry);
    }
    const changed = entry.type === 'TASK_CHANGED' ? this.#taskCall() : undefined;
    if (changed) {
      const row = { ...changed.row, changes: [...changed.row.changes, entry] };
      return this.#extend(changed.index, row, entry);
    }
    if (last && isQuiet(entry)) return this.#extend(index, last, entry);
    this.#push({
      ...this.#base(entry),
      ...(isStart ? { kind: 'run-start', entry } : { kind: 'system' }),
      entries: [entry],
    });
  }

  /** The call that changed a task: the last row, or one without a result. */
  #taskCall(): { readonly index: number; readonly row: RowOf<'tool'> } | undefined {
    const open = [...this.#openCalls.values()].reverse();
    for (const index of [...open, this.#rows.length - 1]) {
      const row = this.#rows[index];
      if (row?.kind === 'tool' && isAboutTasks(row.call ?? row.results[0])) return { index, row };
    }
    return undefined;
  }

  #addOutput(entry: TimelineEntry): void {
    const last = this.#rows.at(-1);
    if (last?.kind !== 'setup' || last.entries[0]?.data.command !== entry.data.command)
      return this.#push({ ...this.#base(entry), kind: 'setup', entries: [entry] });
    this.#extend(this.#rows.length - 1, { ...last, entries: [...last.entries, entry] }, entry);
  }

  #call(entry: TimelineEntry): void {
    this.#openCalls.set(callName(entry), this.#rows.length);
    this.#push({
      ...this.#base(entry),
      kind: 'tool',
      call: entry,
      results: [],
      hasRunEnded: false,
      changes: [],
    });
  }

  #result(entry: TimelineEntry): void {
    const index = this.#openCalls.get(callName(entry));
    const row = index === undefined ? undefined : this.#rows[index];
    if (index === undefined || row?.kind !== 'tool')
      return this.#push({
        ...this.#base(entry),
        kind: 'tool',
        call: null,
        results: [entry],
        hasRunEnded: true,
        changes: [],
      });
    this.#extend(index, { ...row, results: [...row.results, entry] }, entry);
  }

  #endRun(entry: TimelineEntry): void {
    for (const index of this.#openCalls.values()) {
      const row = this.#rows[index];
      if (row?.kind === 'tool' && !row.hasRunEnded) this.#rows[index] = { ...row, hasRunEnded: true };
    }
    this.#openCalls.clear();
    const startedAt = this.#runStarts.get(entry.runId) ?? null;
    this.#push({ ...this.#base(entry), kind: 'run-end', entry, startedAt });
  }
}

const isAboutTasks = (call: TimelineEntry | undefined): boolean =>
  call !== undefined && /task|todo/i.test(`${stringIn(call.data, 'tool')} ${call.text.slice(0, 200)}`);

/** A harness without call ids makes one call at a time. */
const callName = ({ data }: TimelineEntry): string =>
  stringIn(data, 'id') || `the last ${stringIn(data, 'tool')}`;

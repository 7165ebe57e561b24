import { once } from 'node:events';
import { type AgentRef, type LiveText, LiveTexts, type MusterClient, NotFoundError } from '@muster/sdk';
import {
  clock,
  firstLine,
  type PhaseReason,
  phaseReasons,
  reasonRow,
  type TimelineEntry,
  type TimelinePartial,
} from '@muster/sdk/contract';
import { exportTranscript, transcriptFormats } from '@muster/sdk/transcript';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { usageError } from './errors.ts';
import { pastTime } from './input.ts';
import { Output, printable, type Style, withoutBegunCode } from './output.ts';

const mostLines = 1000;

export function addLogsCommand(program: Command): void {
  addCommand(program, 'logs <agent>', "show an agent's transcript", logs)
    .option('-f, --follow', 'keep showing new entries')
    .option('-n, --lines <count>', 'only the newest entries')
    .option('--since <time>', 'only entries since then: a time such as "9:00", or a duration such as 2h')
    .option('--run <number>', 'only entries of this turn')
    .option(
      '--text <text>',
      'only entries that contain this text, in upper or lower case; fast, also in long transcripts',
    )
    .option('--grep <pattern>', 'only entries whose text matches this regular expression')
    .option('--full', 'whole texts: no output is cut')
    .option('--format <format>', `the whole transcript as a document: ${transcriptFormats.join(', ')}`)
    .option('--children', 'with --format: also of all agents below it')
    .option('--trace', "show the id of each turn's trace where it ends")
    .option('--json', 'one JSON object per line, as with -o json');
}

type LogsFlags = Flags<
  'lines' | 'since' | 'run' | 'text' | 'grep' | 'format',
  'follow' | 'full' | 'json' | 'trace' | 'children'
>;

async function logs(
  { flags, client, signal, ...given }: Invocation<LogsFlags>,
  agent: string,
): Promise<void> {
  if (flags.format !== undefined || flags.children) return printDocument(client(), agent, flags, signal);
  const newest = countIn('lines', flags.lines, 0, mostLines);
  const run = countIn('run', flags.run, 1, Number.MAX_SAFE_INTEGER);
  const isWanted = wantedEntries(flags.grep, run);
  const { text } = flags;
  if (text === '') throw usageError('--text: expected a text to search for; got ""');
  const since = await pastTime(flags.since, '--since');
  const output = flags.json ? new Output('json', false) : given.output;
  const show = (entry: TimelineEntry): void => showEntry(entry, output, flags.full);
  const texts = new MessageTexts(client(), agent, output, signal, flags.trace);
  const isWhole = since === undefined && run === undefined && flags.grep === undefined;
  // Entries that are not shown do not count.
  const types = output.format === 'table' ? (Object.keys(formats) as TimelineEntry['type'][]) : undefined;
  let shown = '0';
  if (newest !== undefined && isWhole) {
    const entries = await client().timelineNewest(agent, {
      limit: Math.max(1, newest),
      types,
      text,
      signal,
    });
    shown = entries.at(-1)?.sequence ?? '0';
    for (const entry of newest === 0 ? [] : entries) show(await texts.of(entry));
  } else {
    const after = isWhole ? '0' : await startOf(client(), agent, { since, run }, signal);
    const last: TimelineEntry[] = [];
    shown = after;
    for await (const entry of client().timelineAll(agent, { after, text, signal })) {
      shown = entry.sequence;
      if (run !== undefined && entry.type === 'RUN_STARTED' && Number(entry.runId) > run) break;
      const named = await texts.of(entry);
      if (!isWanted(named)) continue;
      if (newest === undefined) show(named);
      else if (last.push(named) > newest) last.shift();
    }
    for (const entry of last) show(entry);
  }
  if (!flags.follow) return;
  const followed = new FollowedEntries(output, { isFull: flags.full, hasPartials: isWhole && !text });
  const { onPartial } = followed;
  for await (const entry of client().timelineStream(agent, { after: shown, signal, onPartial })) {
    const named = await texts.of(entry);
    const hasText = !text || named.text.toLowerCase().includes(text.toLowerCase());
    if (hasText && isWanted(named)) followed.show(named);
  }
}

/** Options that choose entries, which a document has all of. */
const choosing = ['lines', 'since', 'run', 'text', 'grep', 'follow', 'trace'] as const;

async function printDocument(
  client: MusterClient,
  agent: string,
  flags: LogsFlags,
  signal: AbortSignal,
): Promise<void> {
  const format = transcriptFormats.find((name) => name === flags.format);
  if (!format)
    throw usageError(
      `--format: expected one of ${transcriptFormats.join(', ')}; got "${flags.format ?? ''}"`,
    );
  const other = choosing.find((name) => flags[name] !== undefined);
  if (other)
    throw usageError(`--format: a document is of all entries, so it can't be combined with --${other}`);
  const { stdout } = process;
  // A slow reader is waited for, so that little is in memory.
  for await (const piece of exportTranscript(client, agent, { format, hasChildren: flags.children, signal }))
    if (!stdout.write(stdout.isTTY ? printable(piece) : piece)) await once(stdout, 'drain', { signal });
}

function countIn(flag: string, text: string | undefined, least: number, most: number): number | undefined {
  const count = text === undefined ? undefined : Number(text);
  if (count === undefined || (text !== '' && Number.isInteger(count) && count >= least && count <= most))
    return count;
  const range = most === Number.MAX_SAFE_INTEGER ? `of ${least} or more` : `from ${least} to ${most}`;
  throw usageError(`--${flag}: expected a whole number ${range}; got "${text}"`);
}

function wantedEntries(grep: string | undefined, run: number | undefined): (entry: TimelineEntry) => boolean {
  let pattern: RegExp | undefined;
  try {
    pattern = grep === undefined ? undefined : new RegExp(grep);
  } catch (error) {
    throw usageError(`--grep: ${(error as Error).message}`);
  }
  return ({ text, runId }) =>
    (run === undefined || Number(runId) === run) && (pattern === undefined || pattern.test(text));
}

/** The sequence behind which the wanted entries begin: no timeline is read from its beginning for its last hour. */
async function startOf(
  client: MusterClient,
  agent: AgentRef,
  { since, run }: { readonly since: number | undefined; readonly run: number | undefined },
  signal: AbortSignal,
): Promise<string> {
  if (run !== undefined)
    for await (const { runId, sequence } of client.timelineAll(agent, { types: ['RUN_STARTED'], signal }))
      if (Number(runId) === run) return String(Number(sequence) - 1);
  if (since === undefined) return '0';
  let least = 0;
  let most = Number(await newestSequence(client, agent, signal));
  while (least < most) {
    const middle = Math.floor((least + most) / 2);
    const { entries } = await client.timeline(agent, { after: String(middle), limit: 1, signal });
    const [first] = entries;
    if (first && Date.parse(first.at) < since) least = Number(first.sequence);
    else most = middle;
  }
  return String(least);
}

/** Fills in the text of the message that an entry says was delivered, for people; and the trace of a run that ended. */
export class MessageTexts {
  readonly #client: MusterClient;
  readonly #agent: AgentRef;
  readonly #isNeeded: boolean;
  readonly #signal: AbortSignal;
  readonly #hasTraces: boolean;
  /** Of messages whose delivery has not been seen. */
  readonly #texts = new Map<string, string>();

  constructor(
    client: MusterClient,
    agent: AgentRef,
    { format }: Output,
    signal: AbortSignal,
    hasTraces = false,
  ) {
    this.#client = client;
    this.#agent = agent;
    this.#isNeeded = format === 'table';
    this.#signal = signal;
    this.#hasTraces = hasTraces;
  }

  async of(entry: TimelineEntry): Promise<TimelineEntry> {
    const { type, followUpId, text, runId } = entry;
    if (this.#hasTraces && type === 'RUN_ENDED') {
      const { runs } = await this.#client.runs(this.#agent, { runId, signal: this.#signal });
      return { ...entry, data: { ...entry.data, traceId: runs[0]?.traceId ?? '' } };
    }
    if (!this.#isNeeded || followUpId === '') return entry;
    if (type === 'FOLLOW_UP_QUEUED' || type === 'FOLLOW_UP_DEFERRED') this.#texts.set(followUpId, text);
    if (type !== 'FOLLOW_UP_DELIVERED' || text !== '') return entry;
    const known = this.#texts.get(followUpId) ?? (await this.#read(followUpId));
    this.#texts.delete(followUpId);
    return { ...entry, text: known };
  }

  /** Empty for one that was deleted. */
  async #read(followUpId: string): Promise<string> {
    const reading = this.#client.followUp(this.#agent, followUpId, { signal: this.#signal });
    return reading.then(
      ({ description }) => description,
      (error: unknown) => {
        if (error instanceof NotFoundError) return '';
        throw error;
      },
    );
  }
}

export async function newestSequence(
  client: MusterClient,
  agent: AgentRef,
  signal: AbortSignal,
): Promise<string> {
  return (await client.timelineNewest(agent, { limit: 1, signal })).at(-1)?.sequence ?? '0';
}

interface EntryFormat {
  readonly mark: string;
  readonly style?: Style;
  readonly text: (entry: TimelineEntry, isFull?: boolean) => string;
}

const whole = ({ text }: TimelineEntry): string => text;
const short = ({ text }: TimelineEntry, isFull = false): string => (isFull ? text : truncate(text));
const line = (text: string, isFull = false): string => (isFull ? text : firstLine(text));
/** One line per image of an entry. */
function withImages(text: string, { data }: TimelineEntry): string {
  const images = Array.isArray(data.attachmentIds) ? data.attachmentIds : [];
  return [...(text.trim() === '' ? [] : [text.trimEnd()]), ...images.map(() => '[image]')].join('\n');
}
const detail = (mark: string, text: EntryFormat['text']): EntryFormat => ({ mark, style: 'dim', text });

/** Entry types that are not listed are not shown to people: phases, settings, changes of the queue. */
const formats: Readonly<Partial<Record<TimelineEntry['type'], EntryFormat>>> = {
  AGENT_SPAWNED: { mark: '>', style: 'bold', text: whole },
  RUN_STARTED: detail('─', ({ runId, text }) => `run ${runId}${text ? ` (${text})` : ''}`),
  RUN_ENDED: detail('─', ({ runId, text, data }) => {
    const trace = data.traceId ? `, trace ${data.traceId}` : '';
    return `run ${runId} ${text.replaceAll('_', ' ').toLowerCase()}${trace}`;
  }),
  FOLLOW_UP_QUEUED: detail(
    '+',
    ({ followUpId, text }, isFull) => `queued ${followUpId}: ${line(text, isFull)}`,
  ),
  FOLLOW_UP_DEFERRED: detail(
    '+',
    ({ followUpId, text }, isFull) => `scheduled ${followUpId}: ${line(text, isFull)}`,
  ),
  FOLLOW_UP_DELIVERED: {
    mark: '>',
    style: 'bold',
    text: (entry, isFull) => withImages(line(entry.text, isFull) || entry.followUpId, entry),
  },
  FOLLOW_UP_CLEARED: detail('-', ({ followUpId }) => `cleared ${followUpId}`),
  FOLLOW_UP_REMOVED: detail('-', ({ followUpId }) => `removed ${followUpId}`),
  BATCH_ABANDONED: detail('-', whole),
  TASK_CHANGED: detail('☐', taskText),
  THREADS_CHANGED: detail('#', ({ text }, isFull) => `review threads: ${line(text, isFull)}`),
  MESSAGE: { mark: ' ', text: whole },
  THINKING: detail('…', short),
  TOOL_CALL: {
    mark: '$',
    style: 'cyan',
    text: (entry, isFull) => short(entry, isFull) || String(entry.data.tool ?? ''),
  },
  TOOL_RESULT: detail(' ', (entry, isFull) => withImages(short(entry, isFull), entry)),
  PLAN: detail('≡', ({ text }) => `plan: ${text}`),
  COMPACTION: detail('─', whole),
  QUESTION: { mark: '?', style: 'yellow', text: whole },
  PUSH: { mark: '↑', style: 'green', text: pushText },
  CHILD_SPAWNED: { mark: '+', text: whole },
  CHILD_SETTLED: {
    mark: '*',
    text: ({ text, data }) => `${text} ${reasonText(data.reason)}`,
  },
  SETUP_OUTPUT: detail(' ', short),
  PROCESS_GONE: detail('─', ({ text }) => `no process left (${text})`),
  WARNING: { mark: '!', style: 'yellow', text: whole },
  ERROR: { mark: '!', style: 'red', text: whole },
};

const reasonText = (reason: unknown): string =>
  (phaseReasons as readonly unknown[]).includes(reason)
    ? reasonRow({ phaseReason: reason as PhaseReason }).status
    : String(reason ?? '').toLowerCase();

const showEntry = (entry: TimelineEntry, output: Output, isFull = false): void =>
  output.item(entry, () => {
    for (const text of entryLines(entry, output, isFull)) output.line(text);
  });

/** The lines of an entry without its time and mark. */
interface ShownEntry {
  readonly lines: readonly string[];
  readonly mark: string;
  readonly style: Style | undefined;
}

/** Undefined for an entry that is not shown to people. */
function shownEntry(entry: TimelineEntry, isFull = false): ShownEntry | undefined {
  const format = formats[entry.type];
  if (!format) return undefined;
  const style = entry.type === 'TOOL_RESULT' && entry.data.error ? 'red' : format.style;
  const lines = format.text(entry, isFull).trimEnd().split('\n').map(printable);
  return { lines, mark: isCompletedTask(entry) ? '☑' : format.mark, style };
}

function entryLines(entry: TimelineEntry, output: Output, isFull: boolean): string[] {
  const shown = shownEntry(entry, isFull);
  if (!shown) return [];
  const time = clock(entry.at);
  return shown.lines.map((text, at) => {
    const start = at === 0 ? output.paint('dim', time) : ' '.repeat(time.length);
    return `${start} ${output.paint(shown.style, `${at > 0 ? ' ' : shown.mark} ${text}`)}`.trimEnd();
  });
}

const shownLines = 12;

function truncate(text: string): string {
  const lines = text.trimEnd().split('\n');
  if (lines.length <= shownLines) return lines.join('\n');
  return [...lines.slice(0, shownLines - 1), `… ${lines.length - shownLines + 1} more lines`].join('\n');
}

const isCompletedTask = ({ type, data }: TimelineEntry): boolean =>
  type === 'TASK_CHANGED' && data.status === 'TASK_STATUS_COMPLETED' && data.removed !== true;

function taskText(entry: TimelineEntry): string {
  const { text, data } = entry;
  if (isCompletedTask(entry)) return text;
  if (data.removed === true) return `${text}: removed`;
  const status = String(data.status ?? '')
    .replace('TASK_STATUS_', '')
    .replaceAll('_', ' ')
    .toLowerCase();
  return `${text}${status ? `: ${status}` : ''}`;
}

function pushText({ text, data }: TimelineEntry): string {
  const commits = Array.isArray(data.commits) ? data.commits.length : 0;
  const files = Array.isArray(data.files) ? data.files.length : 0;
  return `pushed ${text}: ${commits} commit${commits === 1 ? '' : 's'}, ${files} file${files === 1 ? '' : 's'}`;
}

/**
 * Prints the entries of a transcript as they come. In a terminal a text is also printed while the agent produces it, one
 * at a time; when its entry comes, only the rest of it is printed. If the entry has another text, it is printed whole.
 */
export class FollowedEntries {
  readonly #output: Output;
  readonly #texts = new LiveTexts();
  /** The text that is being printed. */
  #live: string | null = null;
  /** What is printed of unfinished texts, by their key: other entries may come in between. */
  readonly #printed = new Map<string, string>();
  /** Undefined where only entries are printed. */
  readonly onPartial: ((partial: TimelinePartial) => void) | undefined;
  readonly #isFull: boolean;

  constructor(output: Output, { isFull = false, hasPartials = true } = {}) {
    this.#output = output;
    this.#isFull = isFull;
    const isLive = hasPartials && output.isTerminal && output.format === 'table';
    this.onPartial = isLive ? (partial) => this.#showPartial(partial) : undefined;
  }

  show(entry: TimelineEntry): void {
    this.#texts.settle(entry);
    const key = String(entry.data.key);
    const printed = this.#printed.get(key);
    const shown = (this.#live !== null || printed !== undefined) && shownEntry(entry, this.#isFull);
    if (!shown) return showEntry(entry, this.#output, this.#isFull);
    this.#printed.delete(key);
    const text = shown.lines.join('\n');
    const rest = printed !== undefined && text.startsWith(printed) ? text.slice(printed.length) : undefined;
    if (this.#live !== key) this.#endLine();
    if (rest) this.#continue(key, entry.at, shown, rest);
    this.#endLine();
    if (rest === undefined) showEntry(entry, this.#output, this.#isFull);
  }

  #showPartial(partial: TimelinePartial): void {
    const text = this.#texts.add(partial);
    if (this.#live !== null && this.#live !== partial.key) return;
    if (!text) {
      this.#printed.delete(partial.key);
      return this.#endLine();
    }
    const entry = entryOf(text);
    const shown = shownEntry(entry);
    if (!shown) return;
    const most = text.type === 'MESSAGE' ? shown.lines.length : shownLines - 1;
    const lines = shown.lines.slice(0, most).join('\n');
    const printed = this.#printed.get(text.key) ?? '';
    if (lines.length === printed.length || !lines.startsWith(printed)) return;
    this.#continue(text.key, entry.at, shown, lines.slice(printed.length));
    if (this.#printed.size > mostUnfinished) this.#printed.clear();
    this.#printed.set(text.key, lines);
  }

  /** Prints the next part of a text, on the line where it is, or on a new one. */
  #continue(
    key: string,
    at: string,
    { mark, style }: Pick<ShownEntry, 'mark' | 'style'>,
    text: string,
  ): void {
    if (this.#live === null)
      this.#output.write(`${this.#output.paint('dim', clock(at))} ${this.#output.paint(style, mark)} `);
    this.#print(this.#live === null ? text.replace(/^\n/, '') : text, style);
    this.#live = key;
  }

  #endLine(): void {
    if (this.#live !== null) this.#output.line();
    this.#live = null;
  }

  #print(text: string, style: Style | undefined): void {
    const indent = ' '.repeat(clock(new Date().toISOString()).length + 3);
    const lines = text.split('\n').map((part) => (part === '' ? '' : this.#output.paint(style, part)));
    this.#output.write(lines.join(`\n${indent}`));
  }
}

const mostUnfinished = 1000;

/** The entry that a text will be, as far as it is known. */
const entryOf = ({ key, type, runId, text, offset }: LiveText): TimelineEntry => ({
  sequence: '0',
  at: new Date().toISOString(),
  runId,
  type,
  followUpId: '',
  text: `${offset > 0 ? '…' : ''}${withoutBegunCode(text)}`,
  data: { key },
});

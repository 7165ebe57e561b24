import { type AgentRef, type LiveText, LiveTexts, type MusterClient } from '@muster/sdk';
import { clock, firstLine, type TimelineEntry, type TimelinePartial } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { usageError } from './errors.ts';
import { Output, printable, type Style, withoutBegunCode } from './output.ts';

const mostLines = 1000;

export function addLogsCommand(program: Command): void {
  addCommand(program, 'logs <agent>', "show an agent's transcript", logs)
    .option('-f, --follow', 'keep showing new entries')
    .option('-n, --lines <count>', 'only the newest entries')
    .option('--json', 'one JSON object per line, as with -o json');
}

async function logs(
  { flags, client, signal, ...given }: Invocation<Flags<'lines', 'follow' | 'json'>>,
  agent: string,
): Promise<void> {
  const newest = flags.lines === undefined ? undefined : Number(flags.lines);
  if (newest !== undefined && !(Number.isInteger(newest) && newest >= 0 && newest <= mostLines))
    throw usageError(`--lines: expected a whole number from 0 to ${mostLines}; got "${flags.lines}"`);
  const output = flags.json ? new Output('json', false) : given.output;
  let shown = '0';
  if (newest !== undefined) {
    const entries = await client().timelineNewest(agent, { limit: Math.max(1, newest), signal });
    shown = entries.at(-1)?.sequence ?? '0';
    for (const entry of newest === 0 ? [] : entries) showEntry(entry, output);
  } else {
    for await (const entry of client().timelineAll(agent, { signal })) {
      showEntry(entry, output);
      shown = entry.sequence;
    }
  }
  if (!flags.follow) return;
  const followed = new FollowedEntries(output);
  const { onPartial } = followed;
  for await (const entry of client().timelineStream(agent, { after: shown, signal, onPartial }))
    followed.show(entry);
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
  readonly text: (entry: TimelineEntry) => string;
}

const whole = ({ text }: TimelineEntry): string => text;
const short = ({ text }: TimelineEntry): string => truncate(text);
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
  RUN_ENDED: detail('─', ({ runId, text }) => `run ${runId} ${text.toLowerCase()}`),
  FOLLOW_UP_QUEUED: detail('+', ({ followUpId, text }) => `queued ${followUpId}: ${firstLine(text)}`),
  FOLLOW_UP_DEFERRED: detail('+', ({ followUpId, text }) => `scheduled ${followUpId}: ${firstLine(text)}`),
  FOLLOW_UP_DELIVERED: {
    mark: '>',
    style: 'bold',
    text: (entry) => withImages(`${entry.followUpId} ${firstLine(entry.text)}`.trim(), entry),
  },
  FOLLOW_UP_CLEARED: detail('-', ({ followUpId }) => `cleared ${followUpId}`),
  FOLLOW_UP_REMOVED: detail('-', ({ followUpId }) => `removed ${followUpId}`),
  BATCH_ABANDONED: detail('-', whole),
  TASK_CHANGED: detail('☐', taskText),
  THREADS_CHANGED: detail('#', ({ text }) => `review threads: ${firstLine(text)}`),
  MESSAGE: { mark: ' ', text: whole },
  THINKING: detail('…', short),
  TOOL_CALL: { mark: '$', style: 'cyan', text: short },
  TOOL_RESULT: detail(' ', (entry) => withImages(short(entry), entry)),
  PLAN: detail('≡', ({ text }) => `plan: ${text}`),
  COMPACTION: detail('─', whole),
  QUESTION: { mark: '?', style: 'yellow', text: whole },
  PUSH: { mark: '↑', style: 'green', text: pushText },
  CHILD_SPAWNED: { mark: '+', text: whole },
  CHILD_SETTLED: {
    mark: '*',
    text: ({ text, data }) => `${text} ${String(data.reason ?? '').toLowerCase()}`,
  },
  SETUP_OUTPUT: detail(' ', short),
  PROCESS_GONE: detail('─', ({ text }) => `no process left (${text})`),
  WARNING: { mark: '!', style: 'yellow', text: whole },
  ERROR: { mark: '!', style: 'red', text: whole },
};

const showEntry = (entry: TimelineEntry, output: Output): void =>
  output.item(entry, () => {
    for (const line of entryLines(entry, output)) output.line(line);
  });

/** The lines of an entry without its time and mark. */
interface ShownEntry {
  readonly lines: readonly string[];
  readonly mark: string;
  readonly style: Style | undefined;
}

/** Undefined for an entry that is not shown to people. */
function shownEntry(entry: TimelineEntry): ShownEntry | undefined {
  const format = formats[entry.type];
  if (!format) return undefined;
  const style = entry.type === 'TOOL_RESULT' && entry.data.error ? 'red' : format.style;
  const lines = format.text(entry).trimEnd().split('\n').map(printable);
  return { lines, mark: isCompletedTask(entry) ? '☑' : format.mark, style };
}

function entryLines(entry: TimelineEntry, output: Output): string[] {
  const shown = shownEntry(entry);
  if (!shown) return [];
  const time = clock(entry.at);
  return shown.lines.map((line, at) => {
    const start = at === 0 ? output.paint('dim', time) : ' '.repeat(time.length);
    return `${start} ${output.paint(shown.style, `${at > 0 ? ' ' : shown.mark} ${line}`)}`.trimEnd();
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
  /** The text that is being printed, and what of it is printed. */
  #live: { readonly key: string; printed: string } | null = null;
  /** Undefined where only entries are printed. */
  readonly onPartial: ((partial: TimelinePartial) => void) | undefined;

  constructor(output: Output) {
    this.#output = output;
    const isLive = output.isTerminal && output.format === 'table';
    this.onPartial = isLive ? (partial) => this.#showPartial(partial) : undefined;
  }

  show(entry: TimelineEntry): void {
    this.#texts.settle(entry);
    const live = this.#live;
    const shown = live && shownEntry(entry);
    if (!shown) return showEntry(entry, this.#output);
    this.#live = null;
    const text = shown.lines.join('\n');
    const isRest = entry.data.key === live.key && text.startsWith(live.printed);
    if (isRest) this.#print(text.slice(live.printed.length), shown.style);
    this.#output.line();
    if (!isRest) showEntry(entry, this.#output);
  }

  #showPartial(partial: TimelinePartial): void {
    const text = this.#texts.add(partial);
    if (this.#live && this.#live.key !== partial.key) return;
    if (!text) return this.#endLine();
    const entry = entryOf(text);
    const { lines = [], mark = '', style } = shownEntry(entry) ?? {};
    const most = text.type === 'MESSAGE' ? lines.length : shownLines - 1;
    const shown = lines.slice(0, most).join('\n');
    if (shown === '') return;
    if (!this.#live) {
      this.#live = { key: text.key, printed: '' };
      this.#output.write(`${this.#output.paint('dim', clock(entry.at))} ${this.#output.paint(style, mark)} `);
    }
    if (!shown.startsWith(this.#live.printed)) return;
    this.#print(shown.slice(this.#live.printed.length), style);
    this.#live.printed = shown;
  }

  #endLine(): void {
    if (this.#live) this.#output.line();
    this.#live = null;
  }

  #print(text: string, style: Style | undefined): void {
    const indent = ' '.repeat(clock(new Date().toISOString()).length + 3);
    const lines = text.split('\n').map((line) => (line === '' ? '' : this.#output.paint(style, line)));
    this.#output.write(lines.join(`\n${indent}`));
  }
}

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

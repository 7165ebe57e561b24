import type { AgentRef, MusterClient } from '@muster/sdk';
import { clock, firstLine, type TimelineEntry } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { usageError } from './errors.ts';
import { Output, printable, type Style } from './output.ts';

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
  for await (const entry of client().timelineStream(agent, { after: shown, signal }))
    showEntry(entry, output);
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
    text: ({ followUpId, text }) => `${followUpId} ${firstLine(text)}`.trim(),
  },
  FOLLOW_UP_CLEARED: detail('-', ({ followUpId }) => `cleared ${followUpId}`),
  FOLLOW_UP_REMOVED: detail('-', ({ followUpId }) => `removed ${followUpId}`),
  BATCH_ABANDONED: detail('-', whole),
  TASK_CHANGED: detail('☐', taskText),
  THREADS_CHANGED: detail('#', ({ text }) => `review threads: ${firstLine(text)}`),
  MESSAGE: { mark: ' ', text: whole },
  THINKING: detail('…', short),
  TOOL_CALL: { mark: '$', style: 'cyan', text: short },
  TOOL_RESULT: detail(' ', short),
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

export const showEntry = (entry: TimelineEntry, output: Output): void =>
  output.item(entry, () => {
    for (const line of entryLines(entry, output)) output.line(line);
  });

function entryLines(entry: TimelineEntry, output: Output): string[] {
  const format = formats[entry.type];
  if (!format) return [];
  const style = entry.type === 'TOOL_RESULT' && entry.data.error ? 'red' : format.style;
  const lines = format.text(entry).trimEnd().split('\n');
  const time = clock(entry.at);
  return lines.map((line, at) => {
    const start = at === 0 ? output.paint('dim', time) : ' '.repeat(time.length);
    const mark = at > 0 ? ' ' : isCompletedTask(entry) ? '☑' : format.mark;
    return `${start} ${output.paint(style, `${mark} ${printable(line)}`)}`.trimEnd();
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

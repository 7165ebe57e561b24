import { clock, firstLine, type TimelineEntry } from '@muster/sdk/contract';
import type { Output, Style } from './output.ts';
import { printable } from './printable.ts';

/** A timeline as a person reads it: who said what, what was done, and how the runs began and ended. */

const shownLines = 12;

interface Look {
  readonly mark: string;
  readonly style?: Style;
  readonly text: (entry: TimelineEntry) => string;
}

const whole = (entry: TimelineEntry): string => entry.text;
const short = (entry: TimelineEntry): string => shortened(entry.text);

/** What is not here is the machine's own business: phases, settings, bookkeeping of the queue. */
const looks: Readonly<Partial<Record<TimelineEntry['type'], Look>>> = {
  AGENT_SPAWNED: { mark: '>', style: 'bold', text: whole },
  RUN_STARTED: {
    mark: '─',
    style: 'dim',
    text: (entry) => `run ${entry.runId}${entry.text ? ` (${entry.text})` : ''}`,
  },
  RUN_ENDED: { mark: '─', style: 'dim', text: (entry) => `run ${entry.runId} ${entry.text.toLowerCase()}` },
  FOLLOW_UP_QUEUED: {
    mark: '+',
    style: 'dim',
    text: (entry) => `queued ${entry.followUpId}: ${firstLine(entry.text)}`,
  },
  FOLLOW_UP_DEFERRED: {
    mark: '+',
    style: 'dim',
    text: (entry) => `deferred ${entry.followUpId}: ${firstLine(entry.text)}`,
  },
  FOLLOW_UP_DELIVERED: {
    mark: '>',
    style: 'bold',
    text: (entry) => `${entry.followUpId} ${firstLine(entry.text)}`.trim(),
  },
  FOLLOW_UP_CLEARED: { mark: '-', style: 'dim', text: (entry) => `cleared ${entry.followUpId}` },
  FOLLOW_UP_REMOVED: { mark: '-', style: 'dim', text: (entry) => `removed ${entry.followUpId}` },
  BATCH_ABANDONED: { mark: '-', style: 'dim', text: whole },
  TASK_CHANGED: { mark: '☐', style: 'dim', text: taskChanged },
  MESSAGE: { mark: ' ', text: whole },
  THINKING: { mark: '…', style: 'dim', text: short },
  TOOL_CALL: { mark: '$', style: 'cyan', text: short },
  TOOL_RESULT: { mark: ' ', style: 'dim', text: short },
  QUESTION: { mark: '?', style: 'yellow', text: whole },
  PUSH: { mark: '↑', style: 'green', text: pushed },
  CHILD_SPAWNED: { mark: '+', text: whole },
  CHILD_SETTLED: {
    mark: '*',
    text: (entry) => `${entry.text} ${String(entry.data.reason ?? '').toLowerCase()}`,
  },
  SETUP_OUTPUT: { mark: ' ', style: 'dim', text: short },
  PROCESS_GONE: { mark: '─', style: 'dim', text: (entry) => `no process left (${entry.text})` },
  WARNING: { mark: '!', style: 'yellow', text: whole },
  ERROR: { mark: '!', style: 'red', text: whole },
};

/** For people as they read, for programs as it is. */
export const showEntry = (entry: TimelineEntry, output: Output): void =>
  output.item(entry, () => {
    for (const line of entryLines(entry, output)) output.line(line);
  });

/** The lines of an entry; none when it is not for people. */
export function entryLines(entry: TimelineEntry, output: Pick<Output, 'paint'>): string[] {
  const look = looks[entry.type];
  if (!look) return [];
  const style = entry.type === 'TOOL_RESULT' && entry.data.error ? 'red' : look.style;
  const first = isCompletedTask(entry) ? '☑' : look.mark;
  const lines = look.text(entry).trimEnd().split('\n');
  const time = clock(entry.at);
  return lines.map((line, at) => {
    const before = at === 0 ? output.paint('dim', time) : ' '.repeat(time.length);
    const mark = at === 0 ? first : ' ';
    return `${before} ${output.paint(style, `${mark} ${printable(line)}`)}`.trimEnd();
  });
}

function shortened(text: string): string {
  const lines = text.trimEnd().split('\n');
  if (lines.length <= shownLines) return lines.join('\n');
  return [...lines.slice(0, shownLines - 1), `… ${lines.length - shownLines + 1} more lines`].join('\n');
}

const isCompletedTask = ({ type, data }: TimelineEntry): boolean =>
  type === 'TASK_CHANGED' && data.status === 'TASK_STATUS_COMPLETED';

/** The mark alone tells that a task is completed. */
function taskChanged(entry: TimelineEntry): string {
  const { text, data } = entry;
  if (isCompletedTask(entry)) return text;
  const status = String(data.status ?? '')
    .replace('TASK_STATUS_', '')
    .replaceAll('_', ' ')
    .toLowerCase();
  return `${text}${status ? `: ${status}` : ''}`;
}

function pushed({ text, data }: TimelineEntry): string {
  const commits = Array.isArray(data.commits) ? data.commits.length : 0;
  const files = Array.isArray(data.files) ? data.files.length : 0;
  return `pushed ${text}: ${commits} commit${commits === 1 ? '' : 's'}, ${files} file${files === 1 ? '' : 's'}`;
}

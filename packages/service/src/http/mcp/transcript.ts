import type { AgentIdInput, AgentStatus, EntryType, TimelineEntry } from '@muster/sdk/contract';
import { isRefusal, type Refusal } from '../../control/refusal.ts';
import { nameOfAgent } from './named-agent.ts';
import { bodyFor, type ToolCall } from './tool.ts';
import { cut, phaseText } from './wording.ts';

export const transcriptEntries = 200;

/** Of the whole, and of one entry: what a model can still be asked to read. */
const transcriptLength = 100_000;
const entryLength = 4_000;

/** What an agent was told, said and did, as Markdown: the newest entries, or the newest before one. */
export async function readTranscript(
  { context, caller }: ToolCall,
  agent: AgentIdInput,
  limit: number,
  before?: string,
): Promise<string | Refusal> {
  const body = bodyFor(caller, 'timeline', {
    agentId: agent,
    beforeSequence: before ?? String(Number.MAX_SAFE_INTEGER),
    limit,
  });
  const [status, page] = await Promise.all([
    context.control.status(caller, body.agentId),
    context.control.timeline(caller, body),
  ]);
  if (isRefusal(status)) return status;
  return isRefusal(page) ? page : transcriptOf(status, page.entries);
}

/** Where there is not room for all of it, the oldest are left out. */
function transcriptOf(status: AgentStatus, entries: readonly TimelineEntry[]): string {
  const shown: string[] = [];
  let first = entries.at(-1);
  let room = transcriptLength;
  for (const entry of entries.toReversed()) {
    const text = entryText(entry);
    if (text.length > room) break;
    room -= text.length;
    first = entry;
    if (text) shown.unshift(text);
  }
  const earlier = first !== undefined && Number(first.sequence) > 1;
  return [
    `# ${nameOfAgent(status.agentId)}`,
    `${phaseText(status)} since ${status.phaseSince}`,
    earlier && `(Entries before ${first?.sequence} are not shown.)`,
    ...shown,
  ]
    .filter(Boolean)
    .join('\n\n');
}

/** Each kind of entry in words; what only says that the state moved on, which others tell too, is left out. */
const titles: Record<EntryType, string | null> = {
  AGENT_SPAWNED: 'Task',
  FOLLOW_UP_QUEUED: 'Message',
  FOLLOW_UP_DEFERRED: 'Message for later',
  FOLLOW_UP_CLEARED: 'Message dropped',
  FOLLOW_UP_REMOVED: 'Message taken back',
  FOLLOW_UP_DELIVERED: null,
  BATCH_ABANDONED: 'Messages given up',
  RUN_STARTED: 'Run',
  RUN_ENDED: 'Run ended',
  PHASE_CHANGED: null,
  TASK_CHANGED: 'Checklist',
  MESSAGE: 'Agent',
  THINKING: 'Thinking',
  TOOL_CALL: 'Tool',
  TOOL_RESULT: 'Result',
  QUESTION: 'Question',
  PUSH: 'Push',
  CHILD_SPAWNED: 'Child spawned',
  CHILD_SETTLED: 'Child',
  SETTINGS_CHANGED: 'Settings',
  SETUP_OUTPUT: 'Set-up',
  PROCESS_GONE: 'Process gone',
  WARNING: 'Warning',
  ERROR: 'Error',
};

/** What comes from a program is shown as it is, and so that it cannot be taken for the transcript itself. */
const verbatim: readonly EntryType[] = ['TOOL_CALL', 'TOOL_RESULT', 'SETUP_OUTPUT'];

function entryText(entry: TimelineEntry): string {
  const title = titles[entry.type];
  if (title === null) return '';
  const text = cut(entry.text.trim(), entryLength);
  const head = `**${title}**${noteOf(entry)} · ${entry.sequence} · ${entry.at}`;
  if (text === '') return head;
  return `${head}\n\n${verbatim.includes(entry.type) ? fenced(text) : quoted(text)}`;
}

function noteOf({ type, data, runId }: TimelineEntry): string {
  const note =
    type === 'RUN_STARTED'
      ? runId
      : type === 'TASK_CHANGED'
        ? data.status
        : type === 'CHILD_SETTLED'
          ? data.reason
          : type === 'SETTINGS_CHANGED'
            ? JSON.stringify(data)
            : (data.tool ?? data.code);
  return typeof note === 'string' ? ` ${cut(note, entryLength)}` : '';
}

function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

const quoted = (text: string): string => text.replace(/^/gm, '> ');

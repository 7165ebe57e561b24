import {
  clock,
  firstLine,
  type PhaseReason,
  phaseReasons,
  statusText,
  type TimelineEntry,
} from '@muster/sdk/contract';
import { stringIn } from './rows.ts';

/** What the machine says of itself, one line each; in brief, a message is named and not repeated. */
export function quietWords(entry: TimelineEntry, isBrief = false): string {
  const { type, text, data } = entry;
  switch (type) {
    case 'PHASE_CHANGED':
      return `→ ${reasonText(stringIn(data, 'reason') || text)}`;
    case 'FOLLOW_UP_QUEUED':
      return data.from === 'DEFERRED'
        ? 'deferred message came due'
        : `message queued${isBrief ? '' : quoted(text)}`;
    case 'FOLLOW_UP_DEFERRED':
      return `message deferred${until(stringIn(data, 'deliverAt'))}${isBrief ? '' : quoted(text)}`;
    case 'FOLLOW_UP_CLEARED':
      return clearedWords(entry);
    case 'FOLLOW_UP_REMOVED':
      return 'message removed';
    case 'TASK_CHANGED':
      return taskWords(entry);
    case 'SETTINGS_CHANGED':
      return `settings: ${settingsWords(data)}`;
    case 'PROCESS_GONE':
      return `no process of run ${entry.runId} is left${reason(text)}`;
    default:
      return plainWords(entry);
  }
}

/** In the words of the contract; a reason that is newer than this page as it is. */
function reasonText(reason: string): string {
  const isKnown = (phaseReasons as readonly string[]).includes(reason);
  if (!isKnown) return reason.replaceAll('_', ' ').toLowerCase();
  return statusText({ phaseReason: reason as PhaseReason, wakesAt: null });
}

function clearedWords({ text, data }: TimelineEntry): string {
  if (data.reason === 'PREEMPTED') return 'message dropped: a newer one took its place';
  return data.reason === 'CLEARED' ? 'message cleared' : `message cleared${reason(text)}`;
}

const taskStates: Readonly<Record<string, string>> = {
  TASK_STATUS_PENDING: 'task to do',
  TASK_STATUS_IN_PROGRESS: 'task begun',
  TASK_STATUS_COMPLETED: 'task done',
  TASK_STATUS_DELETED: 'task deleted',
};

function taskWords({ text, data }: TimelineEntry): string {
  const state = data.removed === true ? 'task taken off the list' : taskStates[stringIn(data, 'status')];
  return `${state ?? 'task'}: ${firstLine(text)}`;
}

const settings: readonly (readonly [field: string, words: string])[] = [
  ['persona', 'persona'],
  ['model', 'model'],
  ['reasoningEffort', 'effort'],
  ['serviceTier', 'tier'],
];

function settingsWords(data: TimelineEntry['data']): string {
  const told = settings.flatMap(([field, words]) => {
    const value = stringIn(data, field);
    return value === '' ? [] : [`${words} ${value}`];
  });
  if (data.fastMode === true) told.push('fast mode');
  if (stringIn(data, 'outputSchema') !== '') told.push('an output schema');
  return told.join(', ') || 'the defaults';
}

/** For a type that this page does not know: the service may be newer. */
export const plainWords = ({ type, text }: TimelineEntry): string => {
  const name = type.replaceAll('_', ' ').toLowerCase();
  return text === '' ? name : `${name}: ${firstLine(text)}`;
};

const outcomes: Readonly<Record<string, string>> = {
  COMPLETED: 'completed',
  INTERRUPTED: 'was interrupted',
  KILLED: 'was killed',
  FAILED: 'failed',
  LOST: 'was lost: its runner vanished',
  PARKED: 'is waiting for the provider',
  HANDED_BACK: 'was handed back by its runner',
};

export const outcomeWords = ({ text }: TimelineEntry): string => outcomes[text] ?? text.toLowerCase();

/** How a child came to rest. */
export const childWords = ({ data }: TimelineEntry): string => reasonText(stringIn(data, 'reason'));

const quoted = (text: string): string => (text === '' ? '' : `: ${firstLine(text)}`);
const reason = (text: string): string => (text === '' ? '' : ` (${firstLine(text)})`);
const until = (time: string): string => (time === '' ? '' : ` until ${clock(time)}`);

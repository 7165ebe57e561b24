import {
  clock,
  contextText,
  firstLine,
  type PhaseReason,
  phaseReasons,
  statusText,
  type TimelineEntry,
} from '@muster/sdk/contract';
import { plural } from '../../../parts/model/text.ts';
import { outcomeText } from '../../model/status-text.ts';
import { stringIn } from './rows.ts';

/** One line for a system entry. The brief form leaves out the text of a message. */
export function systemText(entry: TimelineEntry, isBrief = false): string {
  const { type, text, data } = entry;
  const quoted = isBrief || text === '' ? '' : `: ${firstLine(text)}`;
  switch (type) {
    case 'PHASE_CHANGED':
      return `→ ${reasonText(stringIn(data, 'reason') || text)}`;
    case 'FOLLOW_UP_QUEUED':
      return data.from === 'DEFERRED' ? 'Scheduled message is due' : `Message queued${quoted}`;
    case 'FOLLOW_UP_DEFERRED': {
      const time = stringIn(data, 'deliverAt');
      return `Message scheduled${time === '' ? '' : ` for ${clock(time)}`}${quoted}`;
    }
    case 'FOLLOW_UP_CLEARED':
      return clearedText(entry);
    case 'FOLLOW_UP_REMOVED':
      return 'Message removed';
    case 'QUEUE_ORDERED':
      return 'Queue reordered';
    case 'TASK_CHANGED':
      return taskText(entry);
    case 'THREADS_CHANGED':
      return threadsText(entry);
    case 'SETTINGS_CHANGED':
      return `Settings: ${settingsText(data)}`;
    case 'PROCESS_GONE':
      return `Run ${entry.runId} has stopped on its runner`;
    case 'RUN_STARTED':
      return `Run ${entry.runId} started`;
    default:
      return unknownText(entry);
  }
}

/** A reason that this page does not know is shown as it is: the service may be newer. */
function reasonText(reason: string): string {
  const isKnown = (phaseReasons as readonly string[]).includes(reason);
  if (!isKnown) return reason.replaceAll('_', ' ').toLowerCase();
  return statusText({ phaseReason: reason as PhaseReason, wakesAt: null });
}

function clearedText({ text, data }: TimelineEntry): string {
  if (data.reason === 'PREEMPTED') return 'Message cleared: preempted by a newer one';
  return data.reason === 'CLEARED' ? 'Message cleared' : `Message cleared${inParentheses(text)}`;
}

/** The text is a state, such as `resolved`, or counts, such as `2 answered, 1 declined`. */
function threadsText({ text, data: { threadIds } }: TimelineEntry): string {
  const count = Array.isArray(threadIds) ? threadIds.length : 1;
  if (text === 'told') return `${plural(count, 'review comment')} sent to the agent`;
  if (/^\d/.test(text)) return `Review comments: ${firstLine(text)}`;
  return `${plural(count, 'review thread')} ${text === 'open' ? 'reopened' : firstLine(text)}`;
}

const taskTexts: Readonly<Record<string, string>> = {
  TASK_STATUS_PENDING: 'Task to do',
  TASK_STATUS_IN_PROGRESS: 'Task in progress',
  TASK_STATUS_COMPLETED: 'Task done',
  TASK_STATUS_DELETED: 'Task deleted',
};

function taskText({ text, data }: TimelineEntry): string {
  const status = data.removed === true ? 'Task removed' : taskTexts[stringIn(data, 'status')];
  return `${status ?? 'Task'}: ${firstLine(text)}`;
}

const settings: readonly (readonly [field: string, name: string])[] = [
  ['persona', 'persona'],
  ['model', 'model'],
  ['reasoningEffort', 'effort'],
  ['serviceTier', 'tier'],
];

function settingsText(data: TimelineEntry['data']): string {
  const texts = settings.flatMap(([field, name]) => {
    const value = stringIn(data, field);
    return value === '' ? [] : [`${name} ${value}`];
  });
  if (data.fastMode === true) texts.push('fast mode');
  if (stringIn(data, 'outputSchema') !== '') texts.push('output schema');
  return texts.join(', ') || 'defaults';
}

/** For an entry type that this page does not know: the service may be newer. */
export const unknownText = ({ type, text }: TimelineEntry): string => {
  const name = type.replaceAll('_', ' ').toLowerCase();
  return text === '' ? name : `${name}: ${firstLine(text)}`;
};

/** How full the model's context was at the end of a run; empty if that is not known. */
export function contextIn({ data }: TimelineEntry): string {
  const { usedTokens, windowTokens } = Object(data.context) as Readonly<Record<string, unknown>>;
  if (typeof usedTokens !== 'number') return '';
  return contextText({ usedTokens: String(usedTokens), windowTokens: String(windowTokens ?? 0) });
}

/** The status of a child after it became idle or ended. */
export const childText = ({ data }: TimelineEntry): string => reasonText(stringIn(data, 'reason'));

const inParentheses = (text: string): string => (text === '' ? '' : ` (${firstLine(text)})`);

/** What a screen reader announces of new entries: only the last question, error or end of a run. */
export function announcementOf(entries: readonly TimelineEntry[]): string | undefined {
  return entries.map(announcedText).findLast((text) => text !== undefined);
}

function announcedText(entry: TimelineEntry): string | undefined {
  switch (entry.type) {
    case 'QUESTION':
      return `Needs input: ${firstLine(entry.text)}`;
    case 'ERROR':
      return `Error: ${firstLine(entry.text)}`;
    case 'RUN_ENDED':
      return `Run ${entry.runId} ${outcomeText(entry.text)}`;
    default:
      return undefined;
  }
}

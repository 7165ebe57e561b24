import { agentIdIn } from './identity.ts';
import { limits } from './limits.ts';
import { type Infer, int64, int64In, list, more, reply, request, text, timestamp } from './schema.ts';

export const entryTypes = [
  'AGENT_SPAWNED',
  'PHASE_CHANGED',
  'RUN_STARTED',
  'RUN_ENDED',
  'FOLLOW_UP_DEFERRED',
  'FOLLOW_UP_QUEUED',
  'FOLLOW_UP_DELIVERED',
  'FOLLOW_UP_CLEARED',
  'FOLLOW_UP_REMOVED',
  'QUEUE_ORDERED',
  'BATCH_ABANDONED',
  'TASK_CHANGED',
  'THREADS_CHANGED',
  'MESSAGE',
  'THINKING',
  'TOOL_CALL',
  'TOOL_RESULT',
  'PLAN',
  'COMPACTION',
  'QUESTION',
  'PUSH',
  'CHILD_SPAWNED',
  'CHILD_SETTLED',
  'SETTINGS_CHANGED',
  'SETUP_OUTPUT',
  'PROCESS_GONE',
  'WARNING',
  'ERROR',
] as const;
export type EntryType = (typeof entryTypes)[number];

export const timelineEntry = reply('TimelineEntry', {
  sequence: int64,
  at: timestamp,
  runId: int64,
  type: { title: 'TimelineEntryType', type: 'string', enum: entryTypes },
  followUpId: text,
  text,
  data: { type: 'object', additionalProperties: true },
});
export type TimelineEntry = Infer<typeof timelineEntry>;

export const partialTypes = ['MESSAGE', 'THINKING', 'TOOL_RESULT'] as const;

/** What a partial has at the runner and in the stream. */
export const partialFields = {
  key: {
    type: 'string',
    minLength: 1,
    maxLength: limits.partialKeyLength,
    description: 'Names the text. The entry that has the whole text repeats it in `data.key`.',
  },
  type: { type: 'string', enum: partialTypes, description: 'The type of that entry.' },
  offset: {
    type: 'integer',
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'Where the piece begins in the text, in UTF-16 code units.',
  },
  text: {
    type: 'string',
    maxLength: limits.partialTextLength,
    description: 'Empty: the text will not be completed, for example because the provider failed.',
  },
} as const;

/**
 * A piece of a text that an agent is producing: the data of an event `partial`. It is not stored. Pieces may be missing,
 * and what was sent may be sent again when another reader connects; `offset` tells.
 */
export const timelinePartial = reply('TimelinePartial', { runId: int64, ...partialFields });
export type TimelinePartial = Infer<typeof timelinePartial>;

export const timelineRequest = request('TimelineRequest', {
  agentId: agentIdIn,
  afterSequence: int64In,
  beforeSequence: int64In,
  types: {
    description: 'Only entries of these types; empty: all types.',
    type: 'array',
    items: { type: 'string', enum: entryTypes },
    maxItems: entryTypes.length,
  },
  text: {
    type: 'string',
    maxLength: limits.searchedTextLength,
    description:
      'Only entries whose text contains this, in upper or lower case. A delivered message is searched by the text of the message.',
  },
  limit: { type: 'integer', minimum: 1, maximum: 1000, expected: 'a whole number from 1 to 1000' },
});

export const timelineReply = reply('TimelineReply', {
  entries: list(timelineEntry),
  more,
  nextSequence: {
    ...text,
    description:
      'While `more` is true, the `afterSequence`, or going back the `beforeSequence`, of the next page. Of a search, a page may have no entries and still have a next page.',
  },
});

export const timelineStreamRequest = request('TimelineStreamRequest', {
  agentId: agentIdIn,
  afterSequence: int64In,
});

import { agentIdIn } from './identity.ts';
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
  limit: { type: 'integer', minimum: 1, maximum: 1000, expected: 'a whole number from 1 to 1000' },
});

export const timelineReply = reply('TimelineReply', { entries: list(timelineEntry), more });

export const timelineStreamRequest = request('TimelineStreamRequest', {
  agentId: agentIdIn,
  afterSequence: int64In,
});

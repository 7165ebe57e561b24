import { agentIdIn } from './identity.ts';
import { type Infer, reply } from './infer.ts';
import { limits } from './limits.ts';
import { boolean, text, timestamp, timestampIn, timestampOrNull } from './scalars.ts';
import { tasksIn } from './task.ts';

export const followUpStates = ['DEFERRED', 'QUEUED', 'DELIVERED', 'CLEARED', 'REMOVED'] as const;
export type FollowUpState = (typeof followUpStates)[number];

/** The settings a spawn or a follow-up may carry; each is sticky, and empty leaves it unchanged. */
export const settingsIn = {
  agent: { type: 'string', maxLength: limits.nameLength, description: 'The persona.' },
  model: { type: 'string', maxLength: 256 },
  reasoningEffort: { type: 'string', maxLength: 32 },
  serviceTier: { type: 'string', maxLength: 32 },
  fastMode: boolean,
  outputSchema: { type: 'string', description: 'A JSON Schema (draft 2020-12 or 07) as a string.' },
} as const;

export const followUpId = {
  type: 'string',
  maxLength: limits.idLength,
  expected: `1 to ${limits.idLength} characters`,
} as const;

export const queueRequest = {
  title: 'QueueFollowUpRequest',
  type: 'object',
  properties: {
    agentId: agentIdIn,
    description: text,
    tasks: tasksIn,
    ...settingsIn,
    followUpId,
    preempt: boolean,
    deliverAt: timestampIn,
  },
} as const;
export type QueueRequest = Infer<typeof queueRequest>;
export const queueReply = reply('QueueFollowUpReply', { followUpId: text });

export const removeRequest = {
  title: 'RemoveFollowUpRequest',
  type: 'object',
  properties: { agentId: agentIdIn, followUpId },
} as const;
export const removeReply = reply('RemoveFollowUpReply', { removed: boolean });

export const clearRequest = {
  title: 'ClearFollowUpsRequest',
  type: 'object',
  properties: { agentId: agentIdIn },
} as const;
export const clearReply = reply('ClearFollowUpsReply', { cleared: { type: 'integer' } });

/** An undelivered follow-up as the status record shows it, with the settings it will bring. */
export const pendingFollowUp = reply('PendingFollowUp', {
  followUpId: text,
  state: { type: 'string', enum: followUpStates },
  description: text,
  deliverAt: timestampOrNull,
  queuedAt: timestamp,
  agent: text,
  model: text,
  reasoningEffort: text,
  serviceTier: text,
  fastMode: { type: ['boolean', 'null'] },
  outputSchema: text,
});
export type PendingFollowUp = Infer<typeof pendingFollowUp>;

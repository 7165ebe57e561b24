import { agentIdIn } from './identity.ts';
import { type Infer, nullable, reply } from './infer.ts';
import { limits } from './limits.ts';
import { run } from './run.ts';
import { boolean, pageIn, text, timestamp, timestampIn, timestampOrNull } from './scalars.ts';
import { task, tasksIn } from './task.ts';

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
    replace: {
      type: 'boolean',
      description: 'Takes the place of an undelivered message with this `followUpId`, and comes last.',
    },
    deliverAt: timestampIn,
  },
} as const;
export type QueueRequest = Infer<typeof queueRequest>;
const state = { title: 'FollowUpState', type: 'string', enum: followUpStates } as const;

export const queueReply = reply('QueueFollowUpReply', { followUpId: text, state });

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

/** A follow-up with the settings it brings. */
const followUpFields = {
  followUpId: text,
  state,
  description: text,
  deliverAt: timestampOrNull,
  queuedAt: timestamp,
  agent: text,
  model: text,
  reasoningEffort: text,
  serviceTier: text,
  fastMode: { type: ['boolean', 'null'] },
  outputSchema: text,
} as const;

/** An undelivered follow-up. */
export const pendingFollowUp = reply('PendingFollowUp', {
  ...followUpFields,
  truncated: {
    type: 'boolean',
    description: `In a status, \`description\` is cut at ${limits.listedTextBytes} bytes and a larger \`outputSchema\` is empty. The queue lists all of it.`,
  },
});
export type PendingFollowUp = Infer<typeof pendingFollowUp>;

export const listFollowUpsRequest = {
  title: 'ListFollowUpsRequest',
  type: 'object',
  properties: {
    agentId: agentIdIn,
    ...pageIn,
  },
} as const;
export type ListFollowUpsRequest = Infer<typeof listFollowUpsRequest>;

export const listFollowUpsReply = reply('ListFollowUpsReply', {
  followUps: { type: 'array', items: pendingFollowUp },
  nextPageToken: text,
});

export const getFollowUpRequest = {
  title: 'GetFollowUpRequest',
  type: 'object',
  properties: { agentId: agentIdIn, followUpId },
} as const;

/** One follow-up in any state, and what came of it. */
export const followUpReply = reply('FollowUp', {
  ...followUpFields,
  tasks: { type: 'array', items: task, description: 'What it brings, as it was sent.' },
  run: {
    ...nullable(run),
    description: 'The newest run that was given its batch; null before it is delivered.',
  },
  answered: {
    type: 'boolean',
    description: 'Its batch has ended and will not be tried again, or it will never be delivered.',
  },
  answer: { type: 'string', description: 'Once it is answered: the last text of that run.' },
});
export type FollowUp = Infer<typeof followUpReply>;

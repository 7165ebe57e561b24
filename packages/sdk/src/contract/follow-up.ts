import { attachmentIdsIn } from './attachment.ts';
import { agentIdIn } from './identity.ts';
import { limits } from './limits.ts';
import { run } from './run.ts';
import {
  boolean,
  type Infer,
  list,
  nullable,
  pageIn,
  reply,
  request,
  text,
  timestamp,
  timestampIn,
  timestampOrNull,
} from './schema.ts';
import { task, tasksIn } from './task.ts';

export const followUpState = {
  title: 'FollowUpState',
  type: 'string',
  enum: ['DEFERRED', 'QUEUED', 'DELIVERED', 'CLEARED', 'REMOVED'],
} as const;
export type FollowUpState = Infer<typeof followUpState>;

/** Settings of a spawn or a follow-up. Each stays until it is changed; empty leaves it unchanged. */
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

export const queueRequest = request('QueueFollowUpRequest', {
  agentId: agentIdIn,
  description: text,
  attachmentIds: attachmentIdsIn,
  tasks: tasksIn,
  ...settingsIn,
  followUpId,
  preempt: boolean,
  replace: {
    type: 'boolean',
    description: 'Replaces the undelivered message with this `followUpId`, at the end of the queue.',
  },
  deliverAt: timestampIn,
  steer: {
    type: 'boolean',
    description:
      'Adds the message to the turn that is running. Without one, it is delivered like any other message.',
  },
});
export type QueueRequest = Infer<typeof queueRequest>;

export const queueReply = reply('QueueFollowUpReply', {
  followUpId: text,
  state: followUpState,
  wakesAt: {
    ...timestampOrNull,
    description:
      'When it is delivered at the earliest: its `deliverAt`, the end of a rate limit or the next retry. Null: nothing delays it.',
  },
});

export const removeRequest = request('RemoveFollowUpRequest', { agentId: agentIdIn, followUpId });
export const removeReply = reply('RemoveFollowUpReply', { removed: boolean });

export const orderRequest = request('OrderQueueRequest', {
  agentId: agentIdIn,
  followUpIds: {
    type: 'array',
    items: followUpId,
    maxItems: limits.undeliveredFollowUpsPerAgent,
    description: 'All queued messages, in their new order. Scheduled ones are not among them.',
  },
});
export const orderReply = reply('OrderQueueReply', {
  followUpIds: {
    ...list(text),
    description: 'The queue in its order. A message that is being added to the running turn keeps its place.',
  },
});

export const clearRequest = request('ClearFollowUpsRequest', { agentId: agentIdIn });
export const clearReply = reply('ClearFollowUpsReply', { cleared: { type: 'integer' } });

const followUpFields = {
  followUpId: text,
  state: followUpState,
  description: text,
  deliverAt: timestampOrNull,
  queuedAt: timestamp,
  agent: text,
  model: text,
  reasoningEffort: text,
  serviceTier: text,
  fastMode: { type: ['boolean', 'null'] },
  outputSchema: text,
  attachmentIds: list(text),
  steer: {
    type: 'boolean',
    description:
      'It was sent to be added to a running turn. If that turn has ended, it is delivered like any other.',
  },
} as const;

/** An undelivered follow-up. */
export const pendingFollowUp = reply('PendingFollowUp', {
  ...followUpFields,
  truncated: {
    type: 'boolean',
    description: `In a status, \`description\` is cut at ${limits.listedTextBytes} bytes and a larger \`outputSchema\` is empty. List the queue to get all of it.`,
  },
});
export type PendingFollowUp = Infer<typeof pendingFollowUp>;

export const listFollowUpsRequest = request('ListFollowUpsRequest', { agentId: agentIdIn, ...pageIn });

export const listFollowUpsReply = reply('ListFollowUpsReply', {
  followUps: list(pendingFollowUp),
  nextPageToken: text,
  wakesAt: {
    ...timestampOrNull,
    description:
      'When the next message is delivered at the earliest, as in the status; null: nothing delays it.',
  },
});

export const getFollowUpRequest = request('GetFollowUpRequest', { agentId: agentIdIn, followUpId });

/** A follow-up in any state, with its run and the answer. */
export const followUpReply = reply('FollowUp', {
  ...followUpFields,
  tasks: { ...list(task), description: 'The tasks that were sent with it.' },
  run: {
    ...nullable(run),
    description: 'The newest run of its batch; null before it is delivered.',
  },
  answered: {
    type: 'boolean',
    description: 'Its batch has ended and is not retried, or it will never be delivered.',
  },
  answer: { type: 'string', description: 'The last text of that run, when it is answered.' },
});
export type FollowUp = Infer<typeof followUpReply>;

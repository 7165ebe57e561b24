import * as attachments from '../attachment.ts';
import * as followUps from '../follow-up.ts';
import { limits } from '../limits.ts';
import { agentId, type Operations } from './operation.ts';
import { uploadQuery } from './queries.ts';

export const messageOperations = {
  queue: {
    summary: 'Queues a follow-up.',
    isOriginal: true,
    access: 'command',
    body: followUps.queueRequest,
    reply: followUps.queueReply,
    example: { agentId, description: 'Cover the empty password, too.' },
  },
  removeFollowUp: {
    summary: 'Removes one undelivered follow-up.',
    isOriginal: true,
    access: 'command',
    body: followUps.removeRequest,
    reply: followUps.removeReply,
    example: { agentId, followUpId: 'a-follow-up' },
  },
  orderQueue: {
    summary: 'Changes the order of the queued follow-ups.',
    access: 'command',
    body: followUps.orderRequest,
    reply: followUps.orderReply,
    example: { agentId, followUpIds: ['a-follow-up'] },
  },
  listFollowUps: {
    summary: 'Lists undelivered follow-ups with their whole texts.',
    access: 'read',
    body: followUps.listFollowUpsRequest,
    reply: followUps.listFollowUpsReply,
    example: { agentId, pageSize: 100 },
  },
  followUp: {
    summary: 'Returns one follow-up: its state, its run and the answer.',
    access: 'read',
    body: followUps.getFollowUpRequest,
    reply: followUps.followUpReply,
    example: { agentId, followUpId: 'a-follow-up' },
  },
  clearFollowUps: {
    summary: 'Discards all queued follow-ups.',
    isOriginal: true,
    access: 'command',
    body: followUps.clearRequest,
    reply: followUps.clearReply,
    example: { agentId },
  },
  uploadAttachment: {
    summary: 'Uploads an image for messages to an agent.',
    access: 'command',
    query: uploadQuery,
    upload: attachments.imageTypes,
    reply: attachments.attachment,
    bodyBytes: limits.attachmentBytes,
  },
  attachment: {
    summary: 'Returns an image of a message or of a tool.',
    access: 'read',
    body: attachments.attachmentRequest,
    reply: attachments.attachmentContent,
    example: { agentId, attachmentId: '0a1b2c3d4e5f60718293a4b5c6d7e8f9' },
  },
} as const satisfies Operations;

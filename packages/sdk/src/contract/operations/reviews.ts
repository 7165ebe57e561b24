import * as threads from '../thread.ts';
import { agentId, type Operations } from './operation.ts';

export const reviewOperations = {
  threads: {
    summary: 'Lists the review threads.',
    access: 'read',
    body: threads.threadsRequest,
    reply: threads.threadsReply,
    example: { agentId, states: ['OPEN'] },
  },
  createReview: {
    summary: 'Opens a thread per comment, and sends the agent one message with a task per thread.',
    access: 'command',
    body: threads.reviewRequest,
    reply: threads.reviewReply,
    example: {
      agentId,
      description: 'Two remarks.',
      comments: [
        { path: 'src/login.ts', line: 12, body: 'What if the password is empty?' },
        { path: 'src/login.ts', startLine: 20, line: 24, body: 'Use the function that exists for this.' },
      ],
    },
  },
  replyToThread: {
    summary: "Replies to a thread, which opens it again; with a run's key, answers it.",
    access: 'command',
    body: threads.replyToThreadRequest,
    reply: threads.replyToThreadReply,
  },
  resolveThread: {
    summary: 'Resolves a thread, or opens it again.',
    access: 'command',
    body: threads.resolveThreadRequest,
    reply: threads.threadReply,
  },
} as const satisfies Operations;

import { usageReply, usageRequest } from '../usage.ts';
import type { Operations } from './operation.ts';

export const usageOperations = {
  usage: {
    summary: 'Adds up what agents used: cost, tokens and runs by time, workspace, account, model and more.',
    access: 'person',
    body: usageRequest,
    reply: usageReply,
    alsoAs: ['text/csv'],
    example: { interval: 'total', groupBy: ['workspace', 'model'] },
  },
} as const satisfies Operations;

import { budgetsReply, budgetsRequest } from '../budget.ts';
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
  budgets: {
    summary: 'Lists the budgets of the catalog, and those of live agents, with what is spent.',
    access: 'person',
    body: budgetsRequest,
    reply: budgetsReply,
    example: {},
  },
} as const satisfies Operations;

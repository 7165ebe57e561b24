import { limits } from '../limits.ts';
import type { Infer } from '../schema.ts';
import { field, type KindEntry, nameOf, open, setting } from './kind.ts';
import { joined, labelled } from './summary.ts';

const schema = open({
  amountUsd: {
    type: 'number',
    minimum: 0,
    maximum: 1e9,
    expected: 'an amount in USD from 0 to 1000000000',
    description:
      'The most that may be spent in each window. 0 allows nothing; absent, the budget limits nothing.',
    examples: [100],
  },
  window: {
    type: 'string',
    pattern: '^(total|day|month|([1-9]|[1-9]\\d{1,3})h)$',
    expected: 'total, day, month, or a number of hours from 1h to 9999h',
    description:
      'After what time the whole amount is available again. Windows of hours follow each other from 1970-01-01 00:00 on. Default `total`: never.',
    examples: ['month'],
  },
  zone: {
    type: 'string',
    maxLength: 64,
    expected: 'the name of a time zone such as Europe/Berlin',
    description: 'The time zone in which days, months and hours begin. Default UTC.',
    examples: ['Europe/Berlin'],
  },
  workspace: field(nameOf('workspace'), 'Only the agents of this workspace. Absent: of all.', 'web'),
  account: field(setting, 'Only the agents of this account, as in a list of agents. Absent: of all.', 'ada'),
  warnAt: {
    type: 'number',
    minimum: 0,
    maximum: 1,
    expected: 'a number from 0 to 1',
    description: 'The part of the amount at which agents are warned. Default 0.8.',
    examples: [0.8],
  },
  unpriced: {
    type: 'string',
    enum: ['refuse', 'allow'],
    description:
      'What happens to requests to a model whose price is not known. `allow` counts their tokens at no cost. Default `refuse`.',
    examples: ['refuse'],
  },
});
export type BudgetDocument = Infer<typeof schema>;

export const budget = {
  title: 'Budgets',
  one: 'budget',
  purpose:
    'How much money agents may spend: all agents of the tenant, of a workspace or of an account, in total or per day, month or hours. A request that could cost more than is left is not sent.',
  group: 'Access',
  schema,
  writers: 'admins',
  mostDocuments: limits.budgetsPerTenant,
  template: ['amountUsd', 'window', 'workspace'],
  summary: ({ amountUsd, window, workspace, account }) =>
    joined(
      typeof amountUsd === 'number' ? `$${amountUsd}` : '',
      typeof window === 'string' && window !== 'total' ? `per ${window}` : 'in total',
      labelled('workspace', workspace),
      labelled('account', account),
    ),
} as const satisfies KindEntry;

import { agentId, agentIdIn, tenantIn } from './identity.ts';
import { type Infer, list, nullable, reply, request, text, timestamp, timestampOrNull } from './schema.ts';

/** The most that an agent and everything below it may spend. */
export const budgetUsdIn = {
  type: 'number',
  minimum: 0,
  maximum: 1e9,
  expected: 'an amount in USD from 0 to 1000000000',
  description:
    'The most that the agent and all agents below it may spend, within every other budget. 0 allows nothing; absent: only the other budgets hold.',
} as const;

const usd = { type: 'number' } as const;

const state = {
  name: { ...text, description: "The budget's name in the catalog, or the path of its agent." },
  agentId: {
    ...nullable(agentId),
    description: 'The agent whose own budget this is; null if it is one of the catalog.',
  },
  amountUsd: usd,
  spentUsd: { ...usd, description: 'In this window.' },
  reservedUsd: { ...usd, description: 'What running turns may spend of the rest.' },
  warnAt: { ...usd, description: 'The part of the amount at which agents are warned.' },
  resetsAt: { ...timestampOrNull, description: 'When the window ends; null if it never does.' },
} as const;

export const agentBudget = reply('AgentBudget', state);
export type AgentBudget = Infer<typeof agentBudget>;

export const budgetState = reply('BudgetState', {
  ...state,
  startsAt: { ...timestamp, description: 'When the window began.' },
  window: text,
  zone: text,
  workspace: text,
  account: text,
  waiting: { type: 'integer', description: 'How many agents wait for it.' },
});
export type BudgetState = Infer<typeof budgetState>;

export const budgetsRequest = request('BudgetsRequest', { tenant: tenantIn });
export const budgetsReply = reply('BudgetsReply', {
  budgets: list(budgetState),
  more: { type: 'boolean', description: 'There are more budgets of agents than one reply holds.' },
});

export const setBudgetRequest = request('SetBudgetRequest', {
  agentId: agentIdIn,
  budgetUsd: budgetUsdIn,
  remove: { type: 'boolean', description: 'Removes it instead.' },
});

export const setBudgetReply = reply('SetBudgetReply', {
  budgetUsd: { type: ['number', 'null'], description: 'Null if it has none now.' },
});

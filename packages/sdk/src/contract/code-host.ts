import { agentId, agentIdIn, tenantIn } from './identity.ts';
import { limits } from './limits.ts';
import {
  boolean,
  type Infer,
  list,
  nameIn,
  nullable,
  pageIn,
  pageOf,
  reply,
  request,
  text,
  texts,
  timestamp,
  timestampOrNull,
} from './schema.ts';

/** Code hosts: the deliveries of their webhooks, and the change requests of agents. */
export const changeRequestStates = ['OPEN', 'DRAFT', 'MERGED', 'CLOSED'] as const;
export const checkStates = ['NONE', 'PENDING', 'PASSING', 'FAILING'] as const;
export const reviewStates = ['NONE', 'COMMENTED', 'CHANGES_REQUESTED', 'APPROVED'] as const;

export const changeRequest = reply('ChangeRequest', {
  name: { ...text, description: 'The name of its record in the catalog.' },
  integration: text,
  repo: { ...text, description: 'The full path of the repository at its host.' },
  number: { type: 'integer' },
  url: text,
  title: text,
  state: { type: 'string', enum: changeRequestStates },
  agentId: nullable(agentId),
  branch: text,
  base: text,
  headSha: text,
  checks: reply('ChangeRequestChecks', {
    state: { type: 'string', enum: checkStates },
    failing: { ...texts, description: 'The names of the checks that failed.' },
  }),
  review: reply('ChangeRequestReview', {
    state: { type: 'string', enum: reviewStates },
    openThreads: {
      type: 'integer',
      description:
        'On lines of the changes. Comments on the whole change are not counted: no host resolves all of them.',
    },
    resolvedThreads: { type: 'integer', description: 'On lines of the changes.' },
  }),
  rounds: {
    type: 'integer',
    description: 'How often reviews, checks or conflicts were sent to the agent since a person wrote to it.',
  },
  paused: { ...boolean, description: 'The rounds are used up: a message of a person resumes it.' },
  problem: {
    ...text,
    description:
      'Why it is not compared with its host, or why something was not posted; empty if nothing failed.',
  },
  createdAt: timestamp,
  updatedAt: timestamp,
});
export type ChangeRequest = Infer<typeof changeRequest>;

export const openChangeRequestRequest = request('OpenChangeRequestRequest', {
  agentId: agentIdIn,
  repo: {
    type: 'string',
    maxLength: 2048,
    description: "The URL of the repository, if the agent's workspace has several.",
  },
  title: { type: 'string', maxLength: 256, description: "Default: the first line of the agent's response." },
  description: {
    type: 'string',
    maxLength: limits.reportedTextLength,
    description: "Default: the agent's response.",
  },
  base: { type: 'string', maxLength: 256, description: "Default: the workspace's base branch." },
  draft: boolean,
});

export const openChangeRequestReply = reply('OpenChangeRequestReply', {
  changeRequest: {
    ...nullable(changeRequest),
    description: 'Null if the host has not answered yet: it is opened as soon as it does.',
  },
});

export const syncChangeRequestsRequest = request('SyncChangeRequestsRequest', {
  tenant: tenantIn,
  name: { ...nameIn, description: 'Only this one; all that are open, if absent.' },
});
export const syncChangeRequestsReply = reply('SyncChangeRequestsReply', {
  asked: { type: 'integer', description: 'How many are compared with their host.' },
});

export const deliveryStates = ['RECEIVED', 'DONE', 'IGNORED', 'FAILED'] as const;

export const delivery = reply('Delivery', {
  deliveryId: { ...text, description: "The host's id of the delivery." },
  event: text,
  subject: {
    ...text,
    description:
      'The issue or change request that it is about, such as `team/project#12` (`!12` for a merge request), or the commit; empty until it was read.',
  },
  state: { type: 'string', enum: deliveryStates },
  reason: { ...text, description: 'Why it was ignored or failed.' },
  attempts: { type: 'integer' },
  bytes: { type: 'integer' },
  receivedAt: timestamp,
  settledAt: timestampOrNull,
});
export type Delivery = Infer<typeof delivery>;

const integrationIn = { tenant: tenantIn, name: { ...nameIn, description: 'The name of the integration.' } };

export const listDeliveriesRequest = request('ListDeliveriesRequest', {
  ...integrationIn,
  states: { type: 'array', items: { type: 'string', enum: deliveryStates }, maxItems: 4 },
  ...pageIn,
});
export const listDeliveriesReply = pageOf('ListDeliveriesReply', delivery);

export const redeliverRequest = request('RedeliverRequest', {
  ...integrationIn,
  deliveryId: { type: 'string', maxLength: 256 },
});

export const testIntegrationRequest = request('TestIntegrationRequest', integrationIn);
export const integrationCheck = reply('IntegrationCheck', {
  name: text,
  ok: boolean,
  advice: { ...text, description: 'What to change; of a check that is ok, what else to know.' },
});
export type IntegrationCheck = Infer<typeof integrationCheck>;

export const testIntegrationReply = reply('TestIntegrationReply', {
  account: { ...text, description: 'The account at the host that the credential belongs to.' },
  webhookUrl: text,
  checks: list(integrationCheck),
});

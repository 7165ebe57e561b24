import { phases } from './agent.ts';
import { providerIn } from './identity.ts';
import { accountIn, int64, int64In, nameIn, timestampIn } from './scalars.ts';

/**
 * The streams by GET, for EventSource: what their bodies say, in the query. A field of an object is written with a dot,
 * and each field of an agent id may be written by its last part alone.
 */

const path = {
  type: ['string', 'array'],
  items: { type: 'string' },
  description: 'The path: its names joined by `/`, or the parameter once per name.',
} as const;

const flag = { type: 'string', enum: ['true', 'false'] } as const;

const tenantQuery = {
  provider: providerIn,
  org: accountIn,
  'tenant.provider': providerIn,
  'tenant.org': accountIn,
};

export const timelineStreamQuery = {
  title: 'TimelineStreamQuery',
  type: 'object',
  properties: {
    agent: path,
    workspace: nameIn,
    ownerProvider: providerIn,
    account: accountIn,
    ...tenantQuery,
    'agentId.agent': path,
    'agentId.workspace': nameIn,
    'agentId.ownerProvider': providerIn,
    'agentId.account': accountIn,
    'agentId.tenant.provider': providerIn,
    'agentId.tenant.org': accountIn,
    afterSequence: { ...int64, expected: int64In.expected },
  },
} as const;

export const listStreamQuery = {
  title: 'ListStreamQuery',
  type: 'object',
  properties: {
    'parentId.agent': path,
    'parentId.workspace': nameIn,
    'parentId.ownerProvider': providerIn,
    'parentId.account': accountIn,
    'parentId.tenant.provider': providerIn,
    'parentId.tenant.org': accountIn,
    account: { type: 'string', maxLength: 300 },
    ...tenantQuery,
    workspace: nameIn,
    includeTerminal: flag,
    allDepths: flag,
    phases: {
      type: ['string', 'array'],
      items: { type: 'string', enum: phases },
      description: 'The parameter once per phase, or phases joined by commas.',
    },
    labels: {
      type: ['string', 'array'],
      items: { type: 'string' },
      description: '`key=value`, the parameter once per label.',
    },
    text: { type: 'string', maxLength: 256 },
    endedSince: timestampIn,
  },
} as const;

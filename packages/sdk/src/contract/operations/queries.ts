import { providerIn } from '../identity.ts';
import { limits } from '../limits.ts';
import { phases } from '../phases.ts';
import { accountIn, int64, int64In, nameIn, request, type Schema, timestampIn } from '../schema.ts';

/**
 * The streams by GET are for EventSource, which can't send a body, and the body of an upload is the image: the query has
 * the fields of a body. A field of an object is written with a dot; the fields of `agentId` also work without `agentId.`.
 */
const path = {
  type: ['string', 'array'],
  items: { type: 'string' },
  description: 'The path: its names joined by `/`, or the parameter once per name.',
} as const;

const flag = { type: 'string', enum: ['true', 'false'] } as const;

const tenant = { provider: providerIn, org: accountIn };

/** The fields of an object under their whole names. */
const within = (name: string, fields: Readonly<Record<string, Schema>>) =>
  Object.fromEntries(Object.entries(fields).map(([field, schema]) => [`${name}.${field}`, schema]));

const tenantFields = { ...tenant, ...within('tenant', tenant) };

const agent = { agent: path, workspace: nameIn, ownerProvider: providerIn, account: accountIn };

const wholeAgent = { ...agent, ...within('tenant', tenant) };

const agentFields = { ...agent, ...tenantFields, ...within('agentId', wholeAgent) };

export const uploadQuery = request('UploadAttachmentQuery', agentFields);

export const timelineStreamQuery = request('TimelineStreamQuery', {
  ...agentFields,
  afterSequence: { ...int64, expected: int64In.expected },
});

export const listStreamQuery = request('ListStreamQuery', {
  ...within('parentId', wholeAgent),
  account: { type: 'string', maxLength: 300 },
  ...tenantFields,
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
  text: { type: 'string', maxLength: limits.searchedTextLength },
  endedSince: timestampIn,
});

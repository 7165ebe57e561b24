import { providerIn, tenantIn } from './identity.ts';
import { type Infer, reply } from './infer.ts';
import { limits } from './limits.ts';
import { accountIn, boolean, int64, int64In, text, timestamp } from './scalars.ts';

export const kinds = [
  'workspace',
  'persona',
  'environment',
  'profile',
  'vm-profile',
  'pool',
  'token',
  'share-link',
  'integration',
  'change-request',
] as const;
export type Kind = (typeof kinds)[number];

export const inputFormats = [
  'INPUT_FORMAT_UNSPECIFIED',
  'INPUT_FORMAT_YAML',
  'INPUT_FORMAT_MARKDOWN',
] as const;
export const inputFormatOf = (kind: Kind): (typeof inputFormats)[number] =>
  kind === 'persona' ? 'INPUT_FORMAT_MARKDOWN' : 'INPUT_FORMAT_YAML';

/** Kinds that a member may write: personas, links to its own agents, keys of its own account. */
export const memberKinds: readonly Kind[] = ['persona', 'share-link', 'token'];

const squeeze = (name: string): string => name.toLowerCase().replace(/[-_]/g, '').replace(/s$/, '');
const kindBySqueezed: ReadonlyMap<string, Kind> = new Map<string, Kind>([
  ...kinds.map((kind) => [squeeze(kind), kind] as const),
  ['poolconfig', 'pool'],
  ['poolconfiguration', 'pool'],
  ['serviceprofile', 'profile'],
]);

/** Kinds are matched ignoring case, `-`, `_` and a plural s. */
export const kindOf = (name: string): Kind | undefined => kindBySqueezed.get(squeeze(name));

/** The field in which the one reply that creates or rotates a secret carries it. */
export const secretFields: Readonly<Partial<Record<Kind, string>>> = {
  token: 'key',
  'share-link': 'url',
  integration: 'signingKey',
};

export const writeRequest = {
  title: 'WriteResourceRequest',
  type: 'object',
  properties: {
    ref: {
      title: 'ResourceRef',
      type: 'object',
      properties: { tenant: tenantIn, kind: text, name: text },
    },
    payload: { type: 'string', description: 'The document as base64-encoded JSON; empty is {}.' },
    updateMask: {
      type: 'string',
      description:
        'Empty or `*`: the payload is the complete resource. Otherwise the fields to patch, as paths joined by commas.',
    },
    justification: { type: 'string', maxLength: limits.justificationLength },
    ifGenerationMatch: int64In,
  },
} as const;
export type WriteRequest = Infer<typeof writeRequest>;

export const writeReply = reply('WriteResourceReply', { payload: text, generation: int64 });

export const resource = reply('Resource', {
  kind: text,
  payload: text,
  inputFormat: { title: 'InputFormat', type: 'string', enum: inputFormats },
  generation: int64,
});
export type Resource = Infer<typeof resource>;

export const resourceEntry = reply('ResourceEntry', {
  kind: text,
  name: text,
  payload: text,
  inputFormat: { type: 'string', enum: inputFormats },
  generation: int64,
  builtin: boolean,
});

export const listResourcesReply = reply('ListResourcesReply', {
  entries: { type: 'array', items: resourceEntry },
  nextPageToken: text,
});

export const deleteReply = reply('DeleteResourceReply', { generation: int64 });

export const auditRecord = reply('AuditRecord', {
  generation: int64,
  at: timestamp,
  by: { ...text, description: 'provider_name/account of the key that wrote it.' },
  keyId: text,
  action: { type: 'string', enum: ['WRITE', 'DELETE'] },
  updateMask: text,
  justification: text,
  payload: text,
});
export const historyReply = reply('ResourceHistoryReply', {
  entries: { type: 'array', items: auditRecord },
  nextPageToken: text,
});

/** The tenant namespace in a query; each of the three spellings is read. */
export const tenantQuery = {
  'ref.tenant.provider': providerIn,
  'ref.tenant.org': accountIn,
  'tenant.provider': providerIn,
  'tenant.org': accountIn,
  provider: providerIn,
  org: accountIn,
} as const;

export const resourceQuery = {
  title: 'ResourceQuery',
  type: 'object',
  properties: tenantQuery,
} as const;

export const resourceListQuery = {
  title: 'ResourceListQuery',
  type: 'object',
  properties: {
    ...tenantQuery,
    pageSize: {
      type: 'string',
      pattern: '^([0-9]{1,3}|1000)$',
      expected: `a whole number up to ${limits.pageSize}`,
    },
    pageToken: { type: 'string', maxLength: 512 },
  },
} as const;

/** The precondition and the reason of a delete travel in the query; the reason may be in a body instead. */
export const resourceDeleteQuery = {
  title: 'ResourceDeleteQuery',
  type: 'object',
  properties: {
    ...tenantQuery,
    ifGenerationMatch: { ...int64, expected: int64In.expected },
    justification: { type: 'string', maxLength: limits.justificationLength },
  },
} as const;

export const resourceDeleteBody = {
  title: 'ResourceDeleteBody',
  type: 'object',
  properties: { justification: resourceDeleteQuery.properties.justification },
} as const;

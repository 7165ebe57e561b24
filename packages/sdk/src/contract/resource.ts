import { agentIdIn, providerIn, roles, tenantIn } from './identity.ts';
import { type Infer, reply, type Schema } from './infer.ts';
import { limits } from './limits.ts';
import { accountIn, boolean, int64, int64In, text, texts, timestamp, timestampIn } from './scalars.ts';
import { taskIn } from './task.ts';

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

const squeeze = (name: string): string => name.toLowerCase().replace(/[-_]/g, '').replace(/s$/, '');
const kindBySqueezed: ReadonlyMap<string, Kind> = new Map<string, Kind>([
  ...kinds.map((kind) => [squeeze(kind), kind] as const),
  ['poolconfig', 'pool'],
  ['poolconfiguration', 'pool'],
  ['serviceprofile', 'profile'],
]);

/** Kinds are matched ignoring case, `-`, `_` and a plural s. */
export const kindOf = (name: string): Kind | undefined => kindBySqueezed.get(squeeze(name));

const open = <const P extends Record<string, Schema>>(properties: P) =>
  ({ type: 'object', properties, additionalProperties: true }) as const;

const setting = { type: 'string', maxLength: 256 } as const;
const amount = { type: 'number', minimum: 0 } as const;

const personaDocument = open({
  instructions: text,
  model: setting,
  reasoningEffort: setting,
  serviceTier: setting,
  fastMode: boolean,
  tasks: { type: 'array', items: taskIn, maxItems: limits.tasksPerAgent },
});
export type PersonaDocument = Infer<typeof personaDocument>;

const workspaceDocument = open({
  repos: {
    type: 'array',
    maxItems: 100,
    items: {
      expected: 'a URL, or an object with url, baseBranch and path',
      anyOf: [{ type: 'string' }, open({ url: text, baseBranch: text, path: text })],
    },
  },
  environment: setting,
  pool: setting,
  model: setting,
  persona: setting,
});
export type WorkspaceDocument = Infer<typeof workspaceDocument>;

/** The known fields of each kind. Documents are open: nothing is required, and unknown fields are kept as sent. */
export const documents = {
  workspace: workspaceDocument,
  persona: personaDocument,
  environment: open({
    variables: {
      type: 'object',
      additionalProperties: {
        expected: 'a string, or {"fromRunner": "NAME"} to take it from the runner',
        anyOf: [
          { type: 'string' },
          { type: 'object', properties: { fromRunner: text }, required: ['fromRunner'] },
        ],
      },
    },
    setup: texts,
    allowHosts: texts,
  }),
  profile: open({ displayName: text }),
  'vm-profile': open({ cpus: amount, memoryMb: amount, processes: { type: 'integer', minimum: 0 } }),
  pool: open({ vmProfile: setting, maxRuns: { type: 'integer', minimum: 0 } }),
  token: open({
    role: { type: 'string', enum: roles },
    ownerProvider: providerIn,
    account: accountIn,
    pool: setting,
    expiresAt: { ...timestampIn, type: ['string', 'null'] },
    rotate: boolean,
  }),
  'share-link': open({
    agentId: agentIdIn,
    expiresAt: { ...timestampIn, type: ['string', 'null'] },
    rotate: boolean,
  }),
  integration: open({ type: text, rotate: boolean }),
  'change-request': open({}),
} as const satisfies Record<Kind, Schema>;

export type PoolDocument = Infer<(typeof documents)['pool']>;
export type EnvironmentDocument = Infer<(typeof documents)['environment']>;
export type TokenDocument = Infer<(typeof documents)['token']>;
export type ShareLinkDocument = Infer<(typeof documents)['share-link']>;

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

/** A delete has no body; its precondition and reason travel in the query. */
export const resourceDeleteQuery = {
  title: 'ResourceDeleteQuery',
  type: 'object',
  properties: {
    ...tenantQuery,
    ifGenerationMatch: { ...int64, expected: int64In.expected },
    justification: { type: 'string', maxLength: limits.justificationLength },
  },
} as const;

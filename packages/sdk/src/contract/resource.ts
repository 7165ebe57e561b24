import { providerIn, tenantIn } from './identity.ts';
import { limits } from './limits.ts';
import {
  accountIn,
  boolean,
  type Infer,
  int64,
  int64In,
  list,
  pageOf,
  reply,
  request,
  text,
  timestamp,
} from './schema.ts';

export const inputFormats = [
  'INPUT_FORMAT_UNSPECIFIED',
  'INPUT_FORMAT_YAML',
  'INPUT_FORMAT_MARKDOWN',
] as const;

export const writeRequest = request('WriteResourceRequest', {
  ref: request('ResourceRef', { tenant: tenantIn, kind: text, name: text }),
  payload: { type: 'string', description: 'The document as base64-encoded JSON; empty is {}.' },
  text: {
    type: 'string',
    description:
      'The document as its author wrote it, with comments: YAML, or Markdown for a persona. It must say the same as the payload. Only without `updateMask`.',
  },
  updateMask: {
    type: 'string',
    description:
      'Empty or `*`: the payload is the complete resource. Otherwise the fields to patch, as paths joined by commas.',
  },
  justification: { type: 'string', maxLength: limits.justificationLength },
  ifGenerationMatch: int64In,
});
export type WriteRequest = Infer<typeof writeRequest>;

export const documentWarning = reply('DocumentWarning', {
  field: { ...text, description: 'Such as `payload.repo`.' },
  description: { ...text, description: 'A clause without its subject, which is the field.' },
  missing: {
    ...text,
    description: '`kind/name` of a resource that the field names and that does not exist; otherwise empty.',
  },
});
export type DocumentWarning = Infer<typeof documentWarning>;

const textOut = {
  ...text,
  description: 'The document as its author wrote it, with comments; empty if no such text is stored.',
} as const;

export const writeReply = reply('WriteResourceReply', {
  payload: text,
  text: textOut,
  generation: int64,
  warnings: {
    ...list(documentWarning),
    description: `What is accepted but probably a mistake, such as a misspelt field; the first ${limits.documentWarnings}.`,
  },
});

export const resource = reply('Resource', {
  kind: text,
  payload: text,
  text: textOut,
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

export const listResourcesReply = pageOf('ListResourcesReply', resourceEntry);

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
  text: textOut,
});
export const historyReply = pageOf('ResourceHistoryReply', auditRecord);

/** The tenant in a query, in three accepted spellings. */
export const tenantQuery = {
  'ref.tenant.provider': providerIn,
  'ref.tenant.org': accountIn,
  'tenant.provider': providerIn,
  'tenant.org': accountIn,
  provider: providerIn,
  org: accountIn,
} as const;

export const resourceQuery = request('ResourceQuery', tenantQuery);

export const resourceListQuery = request('ResourceListQuery', {
  ...tenantQuery,
  pageSize: {
    type: 'string',
    pattern: '^([0-9]{1,3}|1000)$',
    expected: `a whole number up to ${limits.pageSize}`,
  },
  pageToken: { type: 'string', maxLength: 512 },
});

export const resourceDeleteQuery = request('ResourceDeleteQuery', {
  ...tenantQuery,
  ifGenerationMatch: { ...int64, expected: int64In.expected },
  justification: { type: 'string', maxLength: limits.justificationLength },
});

export const resourceDeleteBody = request('ResourceDeleteBody', {
  justification: resourceDeleteQuery.properties.justification,
});

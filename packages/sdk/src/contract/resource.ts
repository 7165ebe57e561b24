import { providerIn, tenantIn } from './identity.ts';
import { limits } from './limits.ts';
import {
  accountIn,
  boolean,
  type Infer,
  int64,
  int64In,
  pageOf,
  reply,
  request,
  text,
  timestamp,
} from './schema.ts';

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
  'secret',
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

/** Kinds that members may write: personas, share links of their agents, keys of their account. */
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

/** The field that a write may set and that no reply shows. */
export const sealedFields: Readonly<Partial<Record<Kind, string>>> = { secret: 'value' };

/** The field with the secret, in the one reply that creates or rotates it. */
export const secretFields: Readonly<Partial<Record<Kind, string>>> = {
  token: 'key',
  'share-link': 'url',
  integration: 'signingKey',
};

export const writeRequest = request('WriteResourceRequest', {
  ref: request('ResourceRef', { tenant: tenantIn, kind: text, name: text }),
  payload: { type: 'string', description: 'The document as base64-encoded JSON; empty is {}.' },
  updateMask: {
    type: 'string',
    description:
      'Empty or `*`: the payload is the complete resource. Otherwise the fields to patch, as paths joined by commas.',
  },
  justification: { type: 'string', maxLength: limits.justificationLength },
  ifGenerationMatch: int64In,
});
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

type Fields = Readonly<Record<string, unknown>>;

/** Fields that the service sets. */
export const serverFields: readonly string[] = [
  'createdAt',
  'createdBy',
  'updatedAt',
  'updatedBy',
  'keyId',
  'webhookUrl',
];

export const serverFieldsOf = (kind: string): readonly string[] =>
  kind === 'secret' ? [...serverFields, 'fingerprint'] : serverFields;

/** The document without the fields that the service sets. */
export function writtenFields(kind: string, document: Fields): Record<string, unknown> {
  const left = ['name', ...serverFieldsOf(kind)];
  return Object.fromEntries(Object.entries(document).filter(([field]) => !left.includes(field)));
}

/** The document as a file: YAML, or for a persona Markdown with its settings as front matter. */
export function resourceText(
  kind: Kind | (string & {}),
  name: string,
  document: Fields,
  toYaml: (fields: Fields) => string,
): string {
  const fields = writtenFields(kind, document);
  if (kind !== 'persona') return toYaml({ kind, name, ...fields });
  const { instructions, ...settings } = fields;
  return `---\n${toYaml({ name, ...settings })}---\n${String(instructions ?? '').trim()}\n`;
}

export interface FrontMatter {
  /** YAML. */
  readonly settings: string;
  readonly body: string;
  /** Lines of the file before the settings, to compute line numbers in errors. */
  readonly linesAbove: number;
}

const frontMatter = /^---[ \t]*\r?\n((?:[\s\S]*?\r?\n)?)---[ \t]*(?:\r?\n|$)([\s\S]*)$/;

/** Splits a Markdown text into front matter and body. */
export function splitFrontMatter(text: string): FrontMatter {
  const [, settings = '', body = text] = frontMatter.exec(text) ?? [];
  return { settings, body, linesAbove: body === text ? 0 : 1 };
}

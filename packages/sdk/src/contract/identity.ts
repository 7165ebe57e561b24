import { type Infer, nullable, reply } from './infer.ts';
import { limits } from './limits.ts';
import { accountIn, nameExpected, nameIn, namePattern, text, texts, timestampOrNull } from './scalars.ts';

export const providers = [
  'PROVIDER_UNSPECIFIED',
  'PROVIDER_CODEHOST_OAUTH',
  'PROVIDER_CODEHOST_APP',
  'PROVIDER_IDP_OIDC',
  'PROVIDER_SERVICE_PROFILE',
] as const;
export type Provider = (typeof providers)[number];

/** `PROVIDER_SERVICE_PROFILE` ↔ `service_profile`, the form used in `<provider_name>/<account>`. */
export const providerName = (provider: Provider): string => provider.slice('PROVIDER_'.length).toLowerCase();
export const providerByName = (name: string): Provider | undefined =>
  providers.find((p) => p !== 'PROVIDER_UNSPECIFIED' && providerName(p) === name);

export const provider = { title: 'Provider', type: 'string', enum: providers } as const;

/** In a request an empty one is "not given". */
export const providerIn = { type: 'string', enum: ['', ...providers] } as const;

export const tenant = reply('Tenant', { provider, org: text });
export type Tenant = Infer<typeof tenant>;

export const tenantIn = {
  title: 'TenantInput',
  type: 'object',
  properties: { provider: providerIn, org: accountIn },
} as const;

export const agentId = reply('AgentId', {
  tenant,
  ownerProvider: provider,
  account: text,
  agent: texts,
  workspace: text,
});
export type AgentId = Infer<typeof agentId>;

export const agentIdIn = {
  title: 'AgentIdInput',
  description: 'What is absent is filled in from the caller; what is set is passed through.',
  type: 'object',
  properties: {
    tenant: tenantIn,
    ownerProvider: providerIn,
    account: accountIn,
    agent: {
      type: 'array',
      description: 'Path from root to leaf.',
      items: { type: 'string', pattern: namePattern, expected: nameExpected },
      maxItems: limits.pathDepth,
      expected: `a path of at most ${limits.pathDepth} names`,
    },
    workspace: nameIn,
  },
} as const;
export type AgentIdInput = Infer<typeof agentIdIn>;

export const roles = ['viewer', 'member', 'admin', 'operator', 'runner', 'agent', 'share'] as const;
export type Role = (typeof roles)[number];

/** Who is above whom among those that can be given a key. Keys for machines are an admin's to give. */
const rank: Partial<Record<Role, number>> = { viewer: 1, member: 2, admin: 3, runner: 3, operator: 4 };

/** A key's role is at most that of its maker. */
export const mayGiveRole = (maker: Role, role: Role): boolean =>
  rank[role] !== undefined && (rank[role] ?? 0) <= (rank[maker] ?? 0);

export const whoamiReply = reply('Caller', {
  tenant,
  ownerProvider: provider,
  account: text,
  keyId: text,
  role: { type: 'string', enum: roles },
  expiresAt: timestampOrNull,
});
export type Caller = Infer<typeof whoamiReply>;

export const agentIdOrNull = nullable(agentId);

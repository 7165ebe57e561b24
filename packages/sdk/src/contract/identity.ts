import { limits } from './limits.ts';
import {
  accountIn,
  type Infer,
  nameExpected,
  nameIn,
  namePattern,
  pageIn,
  pageOf,
  reply,
  request,
  requestWith,
  text,
  texts,
  timestamp,
  timestampOrNull,
} from './schema.ts';

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
export const providerByName = (name: string | undefined): Provider | undefined =>
  providers.find((p) => p !== 'PROVIDER_UNSPECIFIED' && providerName(p) === name);

/** `codehost_app/acme`. */
export const tenantName = ({ provider, org }: Tenant): string => `${providerName(provider)}/${org}`;
/** `codehost_app/acme` and `PROVIDER_CODEHOST_APP/acme` name the same tenant. */
export function tenantNamed(text: string): Tenant | undefined {
  const [, name, org] = /^([^/]*)\/(.+)$/s.exec(text) ?? [];
  const provider = providerByName(name) ?? providers.find((one) => one === name);
  return provider && org !== undefined ? { provider, org } : undefined;
}

export const provider = { title: 'Provider', type: 'string', enum: providers } as const;

/** In a request, empty means "not given". */
export const providerIn = { type: 'string', enum: ['', ...providers] } as const;

export const tenant = reply('Tenant', { provider, org: text });
export type Tenant = Infer<typeof tenant>;

export const tenantIn = request('TenantInput', { provider: providerIn, org: accountIn });

export const agentId = reply('AgentId', {
  tenant,
  ownerProvider: provider,
  account: text,
  agent: texts,
  workspace: text,
});
export type AgentId = Infer<typeof agentId>;

export const agentIdIn = {
  ...request('AgentIdInput', {
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
  }),
  description: 'Missing fields are filled in from the caller.',
};
export type AgentIdInput = Infer<typeof agentIdIn>;

export const roles = [
  'viewer',
  'member',
  'admin',
  'operator',
  'runner',
  'metrics',
  'agent',
  'share',
] as const;
export type Role = (typeof roles)[number];

/**
 * The order of the roles that a key can have. Only admins create keys for runners, and only operators keys for metrics,
 * which are about all tenants.
 */
const rank: Partial<Record<Role, number>> = {
  viewer: 1,
  member: 2,
  admin: 3,
  runner: 3,
  operator: 4,
  metrics: 4,
};

/** A key's role is at most that of its creator. */
export const mayGiveRole = (creator: Role, role: Role): boolean =>
  rank[role] !== undefined && (rank[role] ?? 0) <= (rank[creator] ?? 0);

export const whoamiReply = reply('Caller', {
  tenant,
  ownerProvider: provider,
  account: text,
  keyId: text,
  role: { type: 'string', enum: roles },
  expiresAt: timestampOrNull,
  version: { ...text, description: 'The version of the service.' },
});
export type Caller = Infer<typeof whoamiReply>;

/** A browser signs in with a key, or with a one-time code from someone who has a key, and gets a session cookie. */

export const signInCodeRequest = request('SignInCodeRequest', {});

export const signInCodeReply = reply('SignInCodeReply', {
  code: { type: 'string', description: 'Works once, at any node.' },
  expiresAt: timestamp,
});
export type SignInCode = Infer<typeof signInCodeReply>;

export const signInRequest = request('SignInRequest', {
  code: {
    type: 'string',
    minLength: 1,
    maxLength: limits.idLength,
    description: 'A code from signInCode. Without one, the key in the Authorization header signs in.',
    expected: 'a code of signInCode',
  },
  switchAccount: {
    type: 'boolean',
    description:
      "Whether the code may replace this browser's session of another account. Otherwise the request fails with ACCOUNT_SWITCH.",
  },
  share: {
    type: 'boolean',
    description: "Whether the key is the secret of a share link. The session then shows that link's agent.",
  },
});

export const browserSession = reply('BrowserSession', {
  id: { ...text, description: 'The id of the session; not the secret in the cookie.' },
  ownerProvider: whoamiReply.properties.ownerProvider,
  account: text,
  role: whoamiReply.properties.role,
  keyId: { ...text, description: 'The key that signed in. The session ends with it.' },
  userAgent: { ...text, description: 'The User-Agent header of the browser when it signed in.' },
  createdAt: timestamp,
  lastSeenAt: { ...timestamp, description: 'Time of the last request, accurate to five minutes.' },
  expiresAt: { ...timestamp, description: 'When the session ends, or earlier if it is not used.' },
});
export type BrowserSession = Infer<typeof browserSession>;

export const signedInReply = reply('SignedIn', { session: browserSession, caller: whoamiReply });
export type SignedIn = Infer<typeof signedInReply>;

export const signOutRequest = request('SignOutRequest', {});

export const accountFilter = {
  type: 'string',
  maxLength: 300,
  description:
    'Empty: your account. For admins also `*`: all accounts. `name`: under your provider. `provider_name/name`: under that provider.',
} as const;

export const listSessionsRequest = request('ListSessionsRequest', {
  tenant: tenantIn,
  account: accountFilter,
  ...pageIn,
});

export const listSessionsReply = pageOf('ListSessionsReply', browserSession);

export const revokeSessionRequest = requestWith('RevokeSessionRequest', ['id'], {
  tenant: tenantIn,
  id: { type: 'string', format: 'uuid', expected: 'the id of a session, as listSessions shows it' },
});

/**
 * The dashboard page of an agent: `/agents/<provider>/<org>/<owner's provider>/<account>/<workspace>/<path…>`. That of an
 * agent named `review` ends with `/%72eview`: `/review` after an agent's page is the review of its changes.
 */
export const agentPage = (id: AgentId): string =>
  `/agents/${[
    providerName(id.tenant.provider),
    id.tenant.org,
    providerName(id.ownerProvider),
    id.account,
    id.workspace,
    ...id.agent,
  ]
    .map(encodeURIComponent)
    .join('/')}`.replace(/(?<=\/)r(?=eview$)/, '%72');

/** The agent of a dashboard page; undefined if the path is not one. */
export function agentOfPage(page: string): AgentId | undefined {
  const [, first, ...encoded] = page.split('/');
  const parts = encoded.map(decoded);
  const [tenantProvider, org, owner, account, workspace, ...agent] = parts;
  const provider = providerByName(tenantProvider);
  const ownerProvider = providerByName(owner);
  if (first !== 'agents' || !provider || !ownerProvider || parts.some((part) => !part)) return undefined;
  if (!org || !account || !workspace || agent.length === 0) return undefined;
  return { tenant: { provider, org }, ownerProvider, account, workspace, agent: agent as string[] };
}

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

import { type AgentId, type Provider, providerByName, providerName } from './identity.ts';

/** Where the dashboard shows an agent: `/agents/<provider>/<org>/<owner's provider>/<account>/<workspace>/<path…>`. */
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
    .join('/')}`;

/** Which agent such an address shows; undefined when it is not one. */
export function agentOfPage(page: string): AgentId | undefined {
  const [, first, ...encoded] = page.split('/');
  const parts = encoded.map(decoded);
  const [tenantProvider, org, owner, account, workspace, ...agent] = parts;
  const provider = providerOf(tenantProvider);
  const ownerProvider = providerOf(owner);
  if (first !== 'agents' || !provider || !ownerProvider || parts.some((part) => !part)) return undefined;
  if (!org || !account || !workspace || agent.length === 0) return undefined;
  return { tenant: { provider, org }, ownerProvider, account, workspace, agent: agent as string[] };
}

const providerOf = (name: string | undefined): Provider | undefined =>
  (name && providerByName(name)) || undefined;

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

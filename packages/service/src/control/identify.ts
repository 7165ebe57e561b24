import { type AgentIdInput, type Provider, providerByName, type Tenant } from '@muster/sdk/contract';
import type { Identity } from '../domain/agent.ts';
import { invalid, type Refusal } from '../domain/refusal.ts';
import type { Principal } from './principal.ts';

/** A tenant as a request names it; its number is looked up only after the caller may ask for it. */
export interface TenantName extends Tenant {}

export interface NamedAgent {
  readonly tenant: TenantName;
  readonly ownerProvider: Provider;
  readonly account: string;
  readonly workspace: string;
  readonly path: readonly string[];
}

const filled = <T extends string>(value: T | '' | undefined, unset: string, fallback: T): T =>
  value === undefined || value === '' || value === unset ? fallback : value;

/** What the caller left out comes from the caller, each part on its own; what is set is passed through. */
export function nameTenant(
  input: { provider?: Provider | '' | undefined; org?: string | undefined } | undefined,
  caller: Principal,
): TenantName {
  return {
    provider: filled(input?.provider, 'PROVIDER_UNSPECIFIED', caller.tenant.provider),
    org: filled(input?.org, '', caller.tenant.org),
  };
}

export function nameAgent(input: AgentIdInput | undefined, caller: Principal): NamedAgent {
  const shared = caller.role === 'share' && !input?.agent?.length ? caller.agent : null;
  return {
    tenant: nameTenant(input?.tenant, caller),
    ownerProvider: filled(
      input?.ownerProvider,
      'PROVIDER_UNSPECIFIED',
      shared?.ownerProvider ?? caller.ownerProvider,
    ),
    account: filled(input?.account, '', shared?.account ?? caller.account),
    workspace: input?.workspace || (shared?.workspace ?? ''),
    path: input?.agent?.length ? input.agent : (shared?.path ?? []),
  };
}

/** An agent that has to exist needs a path. */
export function refuseEmptyPath(agent: NamedAgent, field = 'agentId.agent'): Refusal | null {
  return agent.path.length === 0 ? invalid(field, 'name the agent: its path from root to leaf') : null;
}

export const identityIn = (tenant: number, agent: NamedAgent): Identity => ({
  tenant,
  ownerProvider: agent.ownerProvider,
  account: agent.account,
  workspace: agent.workspace,
  path: agent.path,
});

/** Whose agents a list shows. Null: everybody's; a null account: everybody's under that provider. */
export function accountScope(
  account: string | undefined,
  caller: Principal,
): { ownerProvider: Provider; account: string | null } | null | Refusal {
  if (account === undefined || account === '') {
    return { ownerProvider: caller.ownerProvider, account: caller.account };
  }
  if (account === '*') return null;
  const slash = account.indexOf('/');
  if (slash < 0) return { ownerProvider: caller.ownerProvider, account };
  const ownerProvider = providerByName(account.slice(0, slash));
  const name = account.slice(slash + 1);
  return ownerProvider
    ? { ownerProvider, account: name === '*' ? null : name }
    : invalid('account', 'the provider must be codehost_oauth, codehost_app, idp_oidc or service_profile');
}

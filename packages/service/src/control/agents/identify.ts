import {
  type AgentIdInput,
  accountIn,
  isTerminal,
  type Provider,
  providerByName,
  type Tenant,
} from '@muster/sdk/contract';
import type { Agent, Identity } from '../../domain/agent.ts';
import { invalid, notFound, type Refusal } from '../../domain/refusal.ts';
import { cutText } from '../../lib/cut-text.ts';
import type { ShownChangeRequest } from '../../store/statements/change-requests.ts';
import type { Principal } from '../access/principal.ts';

/** An agent as a request names it. The tenant's number is looked up only after the caller may ask for it. */
export interface NamedAgent extends Omit<Identity, 'tenant'> {
  readonly tenant: Tenant;
}

const filled = <T extends string>(value: T | '' | undefined, unset: string, fallback: T): T =>
  value === undefined || value === '' || value === unset ? fallback : value;

export type TenantInput = { provider?: Provider | '' | undefined; org?: string | undefined } | undefined;

/** What the caller left out comes from the caller, each part on its own; what is set is passed through. */
export function nameTenant(input: TenantInput, caller: Principal): Tenant {
  return {
    provider: filled(input?.provider, 'PROVIDER_UNSPECIFIED', caller.tenant.provider),
    org: filled(input?.org, '', caller.tenant.org),
  };
}

/** A run and a share link never leave the workspace of their agent: another may have the same path. */
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
    workspace: input?.workspace || (caller.agent?.workspace ?? ''),
    path: input?.agent?.length ? input.agent : (shared?.path ?? []),
  };
}

/** An agent that has to exist needs a path. */
export function refuseEmptyPath(agent: NamedAgent, field = 'agentId.agent'): Refusal | null {
  return agent.path.length === 0 ? invalid(field, 'name the agent: its path from root to leaf') : null;
}

/** Whose agents a list shows. Null: everybody's; a null account: everybody's under that provider. */
export function accountScope(
  account: string | undefined,
  caller: Principal,
  field = 'account',
): { ownerProvider: Provider; account: string | null } | null | Refusal {
  if (account === undefined || account === '') {
    return { ownerProvider: caller.ownerProvider, account: caller.account };
  }
  if (account === '*') return null;
  const slash = account.indexOf('/');
  const ownerProvider = slash < 0 ? caller.ownerProvider : providerByName(account.slice(0, slash));
  if (!ownerProvider)
    return invalid(field, 'the provider must be codehost_oauth, codehost_app, idp_oidc or service_profile');
  const name = account.slice(slash + 1);
  if (slash >= 0 && name === '*') return { ownerProvider, account: null };
  return name !== '' && accountPattern.test(name)
    ? { ownerProvider, account: name }
    : invalid(field, `must be *, NAME, PROVIDER/NAME or PROVIDER/*; got "${cutText(account, 100).text}"`);
}

const accountPattern = new RegExp(accountIn.pattern);

export type PickedAgent = Pick<Agent, 'id' | 'phase' | 'workspace'>;

/** Of the holders of one path in several workspaces: the one that is live, else the newest. */
export function pickAgent<S extends { agent: PickedAgent }>(
  states: readonly S[],
  path: readonly string[],
  field = 'agentId.workspace',
): S | Refusal {
  if (states.length === 1 && states[0]) return states[0];
  const name = path.join('/');
  const live = states.filter((s) => !isTerminal(s.agent.phase));
  if (live.length > 1) {
    const workspaces = live.map((s) => s.agent.workspace).sort();
    const names = workspaces.map((workspace) => `${workspace}:${name}`);
    return invalid(field, `${name} is in several workspaces; name one: ${names.join(', ')}`);
  }
  const newest = [...states].sort((a, b) => (a.agent.id < b.agent.id ? 1 : -1))[0];
  return (
    live[0] ?? newest ?? notFound(name ? `the agent ${name} does not exist` : 'the agent does not exist')
  );
}

/** The agent of a stored change request. */
export const agentOfRow = (
  row: Pick<ShownChangeRequest, 'owner_provider' | 'account' | 'workspace' | 'path'>,
  tenant: Tenant,
): NamedAgent => ({
  tenant,
  ownerProvider: row.owner_provider,
  account: row.account,
  workspace: row.workspace,
  path: row.path.split('/'),
});

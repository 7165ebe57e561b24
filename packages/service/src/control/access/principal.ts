import { type Provider, providerName, type Role, type Tenant } from '@muster/sdk/contract';
import type { Identity } from '../../domain/agent.ts';
import type { AgentKey } from '../../store/agent-store.ts';

/** The caller. Every key belongs to a tenant and an account and has a role. */
export interface Principal {
  readonly tenant: { readonly id: number } & Tenant;
  readonly ownerProvider: Provider;
  readonly account: string;
  readonly keyId: string;
  readonly role: Role;
  readonly expiresAt: string | null;
  /** role `runner`: the pool it serves; tenant 0 serves all tenants. */
  readonly pool: string;
  /**
   * role `runner`: the token resource that the key belongs to, `<name>@<generation of its creation>`. A rotated key has
   * the same, a token that was deleted and created again another. Empty for the service's own runner.
   */
  readonly token: string;
  /** role `agent`: the agent whose run holds this key. Role `share`: the one agent it shows. */
  readonly agent: (Identity & Partial<Pick<AgentKey, 'id'>>) | null;
  /** role `agent`: the number of that run. */
  readonly run?: number;
  /** The browser session that sent the request, where no key was sent. */
  readonly session?: string;
}

/** `codehost_oauth/ada`, as records name an account. */
export const ownerName = (provider: Provider, account: string): string =>
  `${providerName(provider)}/${account}`;

export const nameOf = ({ ownerProvider, account }: Principal): string => ownerName(ownerProvider, account);

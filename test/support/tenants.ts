import type { Provider, Tenant } from '@muster/sdk/contract';
import { type Api, apiOf } from './api.ts';
import { keyFor, unique } from './catalog.ts';
import { createOperatorKey } from './operator.ts';
import type { Server } from './server.ts';

/** An operator of this server, made on the server's own machine. */
export const operatorOf = async (server: Server): Promise<Api> =>
  apiOf(server).as(await createOperatorKey(server));

export const tenantOf = (org: string, provider: Provider = 'PROVIDER_CODEHOST_APP'): Tenant => ({
  provider,
  org,
});

/** A tenant of its own with one admin; an operator's first token for it creates it. */
export async function newTenant(operator: Api, account = 'chief'): Promise<{ tenant: Tenant; admin: Api }> {
  const tenant = tenantOf(unique('org'));
  const { api } = await keyFor(
    operator,
    { role: 'admin', ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account },
    { ref: { tenant }, justification: 'a new tenant' },
  );
  return { tenant, admin: api };
}

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Provider, Tenant } from '@muster/sdk/contract';
import { type Api, apiOf } from './api.ts';
import { createKey, uniqueName } from './catalog.ts';
import { execute } from './database.ts';
import { program, type Server } from './server.ts';

const run = promisify(execFile);

/** Creates an operator's key with the command on the server's own machine. */
export async function createOperatorKey(server: Server, ...flags: string[]): Promise<string> {
  const { stdout, stderr } = await run(process.execPath, [program, 'operator', 'create', ...flags], {
    env: server.env,
  });
  const key = /mst_[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+/.exec(stdout)?.[0];
  if (!key) throw new Error(`muster operator create printed no key:\n${stdout}${stderr}`);
  return key;
}

/** Makes an admin's key an operator's in the database: the command starts a process, which costs more than most tests. */
export async function operatorOf(server: Pick<Server, 'url' | 'key' | 'databaseUrl'>): Promise<Api> {
  const { name, api } = await createKey(apiOf(server), { role: 'admin', account: 'operator' });
  await execute(
    server.databaseUrl,
    `UPDATE keys SET role = 'operator' WHERE kind = 'token' AND name = '${name}'`,
  );
  return api;
}

/** A key that may only read the metrics. */
export const metricsKey = (operator: Api, tenant: Tenant): Promise<{ key: string; api: Api }> =>
  createKey(operator, { role: 'metrics' }, { ref: { tenant }, justification: 'to scrape' });

export const tenantOf = (org: string, provider: Provider = 'PROVIDER_CODEHOST_APP'): Tenant => ({
  provider,
  org,
});

/** A new tenant with one admin; the operator's first token for a tenant creates it. */
export async function newTenant(
  operator: Api,
  account = 'chief',
  org = uniqueName('org'),
): Promise<{ tenant: Tenant; admin: Api }> {
  const tenant = tenantOf(org);
  const { api } = await createKey(
    operator,
    { role: 'admin', ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account },
    { ref: { tenant }, justification: 'a new tenant' },
  );
  return { tenant, admin: api };
}

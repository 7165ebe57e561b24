import type { Provider } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

export const findTenant = statement<[provider: string, org: string], { id: number }>(
  'find-tenant',
  'SELECT id FROM tenants WHERE provider = $1 AND org = $2',
);

export const createTenant = statement<[provider: string, org: string], { id: number }>(
  'create-tenant',
  `INSERT INTO tenants (provider, org) VALUES ($1, $2)
   ON CONFLICT (provider, org) DO UPDATE SET org = excluded.org RETURNING id`,
);

export const readTenants = statement<[ids: number[]], { id: number; provider: Provider; org: string }>(
  'read-tenants',
  'SELECT id, provider, org FROM tenants WHERE id = ANY ($1::int[])',
);

/** Tenants count up; 0 is the service itself. */
export const firstTenant = statement<[], { id: number }>(
  'first-tenant',
  'SELECT id FROM tenants WHERE id > 0 ORDER BY id LIMIT 1',
);

/** The ids of agents are unique over all tenants. */
export const tenantOfAgent = statement<[agent: string], { tenant: number }>(
  'tenant-of-agent',
  'SELECT tenant FROM agents WHERE id = $1',
);

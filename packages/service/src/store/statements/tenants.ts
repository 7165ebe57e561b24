import type { Provider } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

export const findTenant = statement<[provider: string, org: string], { id: number; is_closed: boolean }>(
  'find-tenant',
  'SELECT id, closed_at IS NOT NULL AS is_closed FROM tenants WHERE provider = $1 AND org = $2',
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

/** All, the first one first. */
export const listTenants = statement<[], { provider: Provider; org: string; closed_at: string | null }>(
  'list-tenants',
  'SELECT provider, org, closed_at FROM tenants WHERE id > 0 ORDER BY id',
);

/** Closes a tenant, or opens it again. */
export const setTenantClosed = statement<[id: number, closed: boolean], never>(
  'set-tenant-closed',
  'UPDATE tenants SET closed_at = CASE WHEN $2::boolean THEN coalesce(closed_at, now()) END WHERE id = $1',
);

/** How many runs of a tenant are live, or may still have a process. */
export const countHeldRuns = statement<[tenant: number], { held: number }>(
  'count-held-runs',
  'SELECT count(*)::int AS held FROM runs WHERE tenant = $1 AND gone_at IS NULL',
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

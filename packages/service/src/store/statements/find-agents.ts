import type { Phase } from '@muster/sdk/contract';
import { statement } from '../connection.ts';
import type { AgentRow } from '../rows.ts';

export interface FoundRow {
  n: number;
  tenant: number;
  id: string;
  root: string;
  path: string;
  workspace: string;
  phase: Phase;
  run_count: number;
  sequence: number;
  first_sequence: number;
}

/** Which agents hold these identities; an empty workspace matches any. */
export const findAgents = statement<
  [tenants: number[], providers: string[], accounts: string[], paths: string[], workspaces: string[]],
  FoundRow
>(
  'find-agents',
  `SELECT q.n::int, a.tenant, a.id, a.root, a.path, a.workspace, a.phase, a.run_count, a.sequence, a.first_sequence
   FROM unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::text[])
     WITH ORDINALITY AS q (tenant, provider, account, path, workspace, n)
   CROSS JOIN LATERAL (
     SELECT * FROM agents a
     WHERE a.tenant = q.tenant AND a.owner_provider = q.provider AND a.account = q.account AND a.path = q.path
       AND (q.workspace = '' OR a.workspace = q.workspace) AND a.current
     OFFSET 0
   ) a`,
);

export const findAgent = statement<[tenant: number, id: string], FoundRow>(
  'find-agent',
  `SELECT 1 AS n, a.tenant, a.id, a.root, a.path, a.workspace, a.phase, a.run_count, a.sequence, a.first_sequence
   FROM agents a WHERE a.tenant = $1 AND a.id = $2`,
);

export type PeekedRow = Pick<AgentRow, 'tenant' | 'id' | 'phase' | 'sequence' | 'since' | 'run_count'>;

/** Where watched agents stand. */
export const peekAgents = statement<[tenants: number[], ids: string[]], PeekedRow>(
  'peek-agents',
  `SELECT a.tenant, a.id, a.phase, a.sequence, a.since, a.run_count
   FROM unnest($1::int[], $2::uuid[]) AS q (tenant, id)
   CROSS JOIN LATERAL (SELECT * FROM agents a WHERE a.tenant = q.tenant AND a.id = q.id OFFSET 0) a`,
);

/** Whoever has an agent of this path; only to tell a caller what is wrong, so no index is kept for it. */
export const findOwner = statement<
  [tenant: number, path: string],
  { owner_provider: string; account: string }
>(
  'find-owner',
  'SELECT owner_provider, account FROM agents WHERE tenant = $1 AND path = $2 AND current LIMIT 1',
);

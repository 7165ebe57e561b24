import type { Phase } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

export interface FoundRow {
  n: number;
  tenant: number;
  id: string;
  workspace: string;
  phase: Phase;
  sequence: number;
  first_sequence: number;
}

/** Which agents hold these identities; an empty workspace matches any. */
export const findAgents = statement<
  [tenants: number[], providers: string[], accounts: string[], paths: string[], workspaces: string[]],
  FoundRow
>(
  'find-agents',
  `SELECT q.n::int, a.tenant, a.id, a.workspace, a.phase, a.sequence, a.first_sequence
   FROM unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::text[])
     WITH ORDINALITY AS q (tenant, provider, account, path, workspace, n)
   CROSS JOIN LATERAL (
     SELECT * FROM agents a
     WHERE a.tenant = q.tenant AND a.owner_provider = q.provider AND a.account = q.account AND a.path = q.path
       AND (q.workspace = '' OR a.workspace = q.workspace) AND a.current
     OFFSET 0
   ) a`,
);

/** Where watched agents stand. */
export const peekAgents = statement<
  [tenants: number[], ids: string[]],
  { tenant: number; id: string; phase: Phase; sequence: number }
>(
  'peek-agents',
  `SELECT a.tenant, a.id, a.phase, a.sequence
   FROM unnest($1::int[], $2::uuid[]) AS q (tenant, id)
   CROSS JOIN LATERAL (SELECT * FROM agents a WHERE a.tenant = q.tenant AND a.id = q.id OFFSET 0) a`,
);

import { statement } from '../connection.ts';

export interface LockedRow {
  /** Which of the wanted it answers, counted from 1. */
  n: number;
  tenant: number;
  id: string;
  parent: string | null;
  root: string;
  /** False: another node holds it right now. */
  locked: boolean;
}

/**
 * Finds agents by identity (an empty workspace matches any) or by id, and locks those that no other node holds.
 * Nobody waits for a lock here, so nobody can deadlock: what was held goes into the next batch.
 */
export const lockAgents = statement<
  [
    tenants: number[],
    providers: (string | null)[],
    accounts: (string | null)[],
    paths: (string | null)[],
    workspaces: (string | null)[],
    ids: (string | null)[],
  ],
  LockedRow
>(
  'lock-agents',
  `WITH wanted AS MATERIALIZED (
     SELECT q.n, a.tenant, a.id, a.parent, a.root
     FROM unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[])
       WITH ORDINALITY AS q (tenant, provider, account, path, workspace, id, n)
     CROSS JOIN LATERAL (
       SELECT a.tenant, a.id, a.parent, a.root FROM agents a
       WHERE q.id IS NULL AND a.tenant = q.tenant AND a.owner_provider = q.provider AND a.account = q.account
         AND a.path = q.path AND (q.workspace = '' OR a.workspace = q.workspace) AND a.current
       UNION ALL
       SELECT a.tenant, a.id, a.parent, a.root FROM agents a WHERE a.tenant = q.tenant AND a.id = q.id
     ) a
   ), locked AS MATERIALIZED (
     SELECT a.id FROM wanted w
     CROSS JOIN LATERAL (
       SELECT a.id FROM agents a WHERE a.tenant = w.tenant AND a.id = w.id FOR UPDATE SKIP LOCKED
     ) a
   )
   SELECT w.n::int, w.tenant, w.id, w.parent, w.root, w.id = ANY (ARRAY(SELECT id FROM locked)) AS locked
   FROM wanted w`,
);

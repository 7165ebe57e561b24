import type { Phase } from '@muster/sdk/contract';
import type { AgentKey } from '../agent-store.ts';
import { statement } from '../connection.ts';
import { hasPathBelow, isBelow } from './shared-sql.ts';

export interface DeletableRow extends AgentKey {
  phase: Phase;
  root: string;
  path: string;
  is_closed: boolean;
}

/** Locks an agent that is about to be deleted. */
export const lockDeletable = statement<[tenant: number, id: string], DeletableRow>(
  'lock-deletable',
  `SELECT a.tenant, a.id, a.phase, a.root, a.path, t.closed_at IS NOT NULL AS is_closed
   FROM agents a JOIN tenants t ON t.id = a.tenant WHERE a.tenant = $1 AND a.id = $2 AND a.current FOR UPDATE OF a`,
);

/** They lose their name and can't be reopened, as if they had been killed. */
const markDoomed = `marked AS (
     UPDATE agents a SET current = false, phase = 'PHASE_CANCELED', reason = 'KILLED'
     FROM doomed d WHERE a.tenant = d.tenant AND a.id = d.id RETURNING a.tenant, a.id
   ), recorded AS (
     INSERT INTO deleted_agents (tenant, agent, deleted_by, key_id)
     SELECT d.tenant, d.id, d.deleted_by, d.key_id FROM doomed d ON CONFLICT DO NOTHING
   )
   SELECT count(*)::int AS deleted FROM marked`;

export const markDeleted = statement<
  [tenant: number, id: string, by: string, keyId: string],
  { deleted: number }
>(
  'mark-deleted',
  `WITH doomed AS (SELECT $1::int AS tenant, $2::uuid AS id, $3::text AS deleted_by, $4::text AS key_id), ${markDoomed}`,
);

type Deleted = [tenants: readonly number[], agents: readonly string[]];

const deleted = 'unnest($1::int[], $2::uuid[]) AS q (tenant, agent)';

/** Some of the agents below those that are deleted: they ended before. */
export const markDeletedBelow = statement<[...Deleted, most: number], { deleted: number }>(
  'mark-deleted-below',
  `WITH doomed AS (
     SELECT DISTINCT ON (b.tenant, b.id) b.tenant, b.id, d.deleted_by, d.key_id
     FROM ${deleted} JOIN deleted_agents d ON d.tenant = q.tenant AND d.agent = q.agent
     JOIN agents a ON a.tenant = d.tenant AND a.id = d.agent
     CROSS JOIN LATERAL (
       SELECT b.tenant, b.id FROM agents b
       WHERE b.root = a.root AND b.parent IS NOT NULL AND NOT b.is_live AND ${hasPathBelow('b', 'a.path')}
         AND b.tenant = a.tenant AND ${isBelow('b', 'a.id')}
         AND NOT EXISTS (SELECT FROM deleted_agents o WHERE o.tenant = b.tenant AND o.agent = b.id)
       LIMIT $3
     ) b LIMIT $3
   ), ${markDoomed}`,
);

export const isDeleted = statement<[tenant: number, id: string], { deleted: boolean }>(
  'is-deleted',
  'SELECT EXISTS (SELECT FROM deleted_agents WHERE tenant = $1 AND agent = $2) AS deleted',
);

/** Deleted agents that still have rows elsewhere. One whose process may be alive waits: its runner reports the end of it. */
export const findUnerased = statement<[most: number], AgentKey>(
  'find-unerased',
  `SELECT d.tenant, d.agent AS id FROM deleted_agents d
   WHERE d.erased_at IS NULL AND NOT EXISTS (
     SELECT FROM runs r WHERE r.tenant = d.tenant AND r.agent = d.agent AND r.gone_at IS NULL)
   ORDER BY d.deleted_at LIMIT $1`,
);

/** What an agent has, and the rest of each key after its tenant and id. Large rows are deleted a few at a time. */
const parts: readonly { readonly table: string; readonly key: readonly string[]; readonly most?: number }[] =
  [
    { table: 'checkpoints', key: ['id'], most: 1 },
    { table: 'attachments', key: ['id'], most: 10 },
    { table: 'timeline', key: ['sequence', 'at'] },
    { table: 'follow_ups', key: ['id'] },
    { table: 'threads', key: ['id'] },
    { table: 'diffs', key: ['repo', 'working_tree'], most: 10 },
    { table: 'change_requests', key: ['name'] },
    { table: 'pushed_branches', key: ['repo', 'branch'] },
    { table: 'labels', key: ['key'] },
    { table: 'agent_marks', key: ['owner_provider', 'account'] },
    { table: 'checklists', key: [] },
    { table: 'runs', key: ['number'] },
    { table: 'agent_briefs', key: [] },
    { table: 'agent_states', key: [] },
  ];

/** One statement per table, in the order in which they are carried out, each until it finds nothing. */
export const erasures = parts.map(({ table, key, most }) => {
  const columns = ['tenant', 'agent', ...key];
  const erase = statement<[...Deleted, most: number], { deleted: number }>(
    `erase-${table}`,
    `WITH chosen AS (
       SELECT ${columns.map((name) => `t.${name}`).join(', ')} FROM ${deleted} CROSS JOIN LATERAL (
         SELECT ${columns.join(', ')} FROM ${table} t WHERE t.tenant = q.tenant AND t.agent = q.agent LIMIT $3
       ) t LIMIT $3
     ), erased AS (
       DELETE FROM ${table} t USING chosen WHERE ${columns.map((name) => `t.${name} = chosen.${name}`).join(' AND ')}
       RETURNING t.tenant
     )
     SELECT count(*)::int AS deleted FROM erased`,
  );
  return { erase, most };
});

export const finishErasure = statement<Deleted, never>(
  'finish-erasure',
  `WITH erased AS (
     UPDATE agents a SET history_deleted = true, checkpoint_at = NULL, unpushed = NULL, session = ''
     FROM ${deleted} WHERE a.tenant = q.tenant AND a.id = q.agent
   )
   UPDATE deleted_agents d SET erased_at = now() FROM ${deleted} WHERE d.tenant = q.tenant AND d.agent = q.agent`,
);

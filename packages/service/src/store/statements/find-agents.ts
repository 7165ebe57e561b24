import type { Phase } from '@muster/sdk/contract';
import { statement } from '../connection.ts';
import type { AgentRow } from '../rows.ts';
import { type WantedParameters, wantedAgents } from './load-agents.ts';
import { hasPathBelow, isBelow } from './shared-sql.ts';

const foundColumns = [
  'tenant',
  'id',
  'root',
  'path',
  'workspace',
  'phase',
  'run_count',
  'sequence',
  'first_sequence',
] as const satisfies readonly (keyof AgentRow)[];

export type FoundRow = Pick<AgentRow, (typeof foundColumns)[number]> & { n: number };

const found = foundColumns.map((column) => `a.${column}`).join(', ');

export const findAgents = statement<WantedParameters, FoundRow>(
  'find-agents',
  `SELECT q.n::int, ${found} FROM ${wantedAgents(found)}`,
);

export type PeekedRow = Pick<AgentRow, 'tenant' | 'id' | 'phase' | 'sequence' | 'since' | 'run_count'>;

/** The current phase and sequence of watched agents. */
export const peekAgents = statement<[tenants: number[], ids: string[]], PeekedRow>(
  'peek-agents',
  `SELECT a.tenant, a.id, a.phase, a.sequence, a.since, a.run_count
   FROM unnest($1::int[], $2::uuid[]) AS q (tenant, id)
   CROSS JOIN LATERAL (SELECT * FROM agents a WHERE a.tenant = q.tenant AND a.id = q.id OFFSET 0) a`,
);

/** Owners of agents with this path, for an error message only; not indexed. */
export const findOwner = statement<
  [tenant: number, path: string],
  { owner_provider: string; account: string }
>(
  'find-owner',
  'SELECT owner_provider, account FROM agents WHERE tenant = $1 AND path = $2 AND current LIMIT 1',
);

export interface SettledRow {
  n: number;
  /** Of the agent above. */
  phase: Phase;
  /** How many below it are PENDING or RUNNING. */
  working: number;
  /** The one that became idle last; else the one that ended last, which is looked for only if it matters. */
  settled: string | null;
}

/** Agents with the status of the agents below them: at most 500 live ones, and the ended ones once the wait is over. */
export const readSettledBelow = statement<
  [tenants: number[], roots: string[], paths: string[], ids: string[], all: boolean[]],
  SettledRow
>(
  'read-settled-below',
  `SELECT q.n::int, a.phase, live.working::int,
     CASE WHEN live.working = 0 OR NOT q.all THEN coalesce(live.waiting, (
       SELECT e.id FROM (
         SELECT e.* FROM agents e
         WHERE e.root = q.root AND e.parent IS NOT NULL AND ${hasPathBelow('e', 'q.path')} OFFSET 0
       ) e WHERE e.tenant = q.tenant AND e.current AND e.ended_at IS NOT NULL AND ${isBelow('e', 'q.id')}
       ORDER BY e.since DESC LIMIT 1
     )) END AS settled
   FROM unnest($1::int[], $2::uuid[], $3::text[], $4::uuid[], $5::boolean[])
     WITH ORDINALITY AS q (tenant, root, path, id, "all", n)
   CROSS JOIN LATERAL (SELECT a.phase FROM agents a WHERE a.tenant = q.tenant AND a.id = q.id OFFSET 0) a
   CROSS JOIN LATERAL (
     SELECT count(*) FILTER (WHERE d.phase IN ('PHASE_PENDING', 'PHASE_RUNNING')) AS working,
       (array_agg(d.id ORDER BY d.since DESC) FILTER (WHERE d.phase = 'PHASE_WAITING_FOR_INPUT'))[1] AS waiting
     FROM (
       SELECT d.* FROM agents d WHERE d.root = q.root AND d.parent IS NOT NULL AND d.ended_at IS NULL OFFSET 0
     ) d WHERE d.tenant = q.tenant AND ${isBelow('d', 'q.id')}
   ) live`,
);

/** Children that settled during the live run of their parent and that it has not looked at. */
export const readUnseenChildren = statement<[tenant: number, parent: string], { path: string }>(
  'read-unseen-children',
  `SELECT k.path FROM agents a
   CROSS JOIN LATERAL json_array_elements_text(a.memory -> 'news') AS child (id)
   CROSS JOIN LATERAL (
     SELECT * FROM agents k WHERE k.tenant = a.tenant AND k.id = child.id::uuid OFFSET 0
   ) k
   WHERE a.tenant = $1 AND a.id = $2`,
);

/**
 * Which of the given agents ended at least so many days ago, of those that this runner may have run. `isSaved` returns
 * only those whose last run left a checkpoint. Unknown agents are not returned: rows of agents are never deleted, so an
 * unknown one more likely means a wrong database than files without an owner.
 */
export const endedAgents = statement<
  [runnerId: string, ids: string[], days: number, isSaved: boolean],
  { id: string }
>(
  'ended-agents',
  `SELECT a.id FROM runners r, agents a
   WHERE r.id = $1 AND a.id = ANY($2::uuid[]) AND r.tenant IN (0, a.tenant)
     AND (a.pool = r.pool OR a.home = r.name) AND a.ended_at <= now() - $3::float8 * interval '1 day'
     AND (NOT $4 OR EXISTS (
       SELECT FROM checkpoints c
       WHERE c.tenant = a.tenant AND c.agent = a.id AND c.run = a.run_count AND c.final AND c.completed_at IS NOT NULL))
   ORDER BY a.ended_at, a.id`,
);

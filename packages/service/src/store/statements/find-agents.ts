import type { Phase } from '@muster/sdk/contract';
import type { AgentRow } from '../agent-columns.ts';
import { statement } from '../connection.ts';

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
  'created_at',
] as const satisfies readonly (keyof AgentRow)[];

export type FoundRow = Pick<AgentRow, (typeof foundColumns)[number]> & { n: number };

const found = foundColumns.map((column) => `a.${column}`).join(', ');

export const findAgents = statement<WantedParameters, FoundRow>(
  'find-agents',
  `SELECT q.n::int, ${found} FROM ${wantedAgents(found)}`,
);

/** `n` is the number of the wanted agent. */
type FoundKey = [n: number, id: string, phase: Phase, workspace: string];

/** The same for very many agents of one request: one list in JSON is read several times as fast as separate rows. */
export const findAgentKeys = statement<WantedParameters, { found: FoundKey[] | null }>(
  'find-agent-keys',
  `SELECT json_agg(json_build_array(q.n, a.id, a.phase, a.workspace)) AS found
   FROM ${wantedAgents('a.id, a.phase, a.workspace')}`,
);

export interface AttentionRow {
  /** The numbers of the agents that are PENDING or RUNNING, joined by commas. */
  working: string;
  /** Of the others, the first in the list, and the one whose phase changed last. */
  first: string | null;
  last: string | null;
}

/** Which agents of a list work, and which need attention. Lists are in text form. */
export const readAttention = statement<[tenants: string, ids: string], AttentionRow>(
  'read-attention',
  `SELECT coalesce(string_agg(q.n::text, ',') FILTER (WHERE w.works), '') AS working,
     (array_agg(a.id ORDER BY q.n) FILTER (WHERE NOT w.works))[1] AS first,
     (array_agg(a.id ORDER BY a.since DESC) FILTER (WHERE NOT w.works))[1] AS last
   FROM unnest($1::int[], $2::uuid[]) WITH ORDINALITY AS q (tenant, id, n)
   JOIN agents a ON a.tenant = q.tenant AND a.id = q.id
   CROSS JOIN LATERAL (SELECT a.phase IN ('PHASE_PENDING', 'PHASE_RUNNING') AS works) w`,
);

export type PeekedRow = Pick<AgentRow, 'tenant' | 'id' | 'phase' | 'sequence' | 'since' | 'run_count'>;

/** The current phase and sequence of watched agents. */
export const peekAgents = statement<[tenants: number[], ids: string[]], PeekedRow>(
  'peek-agents',
  `SELECT a.tenant, a.id, a.phase, a.sequence, a.since, a.run_count
   FROM unnest($1::int[], $2::uuid[]) AS q (tenant, id)
   JOIN agents a ON a.tenant = q.tenant AND a.id = q.id`,
);

/** An owner of an agent with this path, for an error message. */
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
       SELECT e.id FROM agents e
       WHERE e.root = q.root AND e.parent IS NOT NULL AND NOT e.is_live AND ${hasPathBelow('e', 'q.path')}
         AND e.tenant = q.tenant AND e.current AND ${isBelow('e', 'q.id')}
       ORDER BY e.since DESC LIMIT 1
     )) END AS settled
   FROM unnest($1::int[], $2::uuid[], $3::text[], $4::uuid[], $5::boolean[])
     WITH ORDINALITY AS q (tenant, root, path, id, "all", n)
   JOIN agents a ON a.tenant = q.tenant AND a.id = q.id
   CROSS JOIN LATERAL (
     SELECT count(*) FILTER (WHERE d.phase IN ('PHASE_PENDING', 'PHASE_RUNNING')) AS working,
       (array_agg(d.id ORDER BY d.since DESC) FILTER (WHERE d.phase = 'PHASE_WAITING_FOR_INPUT'))[1] AS waiting
     FROM agents d
     WHERE d.root = q.root AND d.parent IS NOT NULL AND d.is_live AND d.tenant = q.tenant AND ${isBelow('d', 'q.id')}
   ) live`,
);

/** Children that settled during the live run of their parent and that it has not looked at. */
export const readUnseenChildren = statement<[tenant: number, parent: string], { path: string }>(
  'read-unseen-children',
  `SELECT k.path FROM agent_states s
   CROSS JOIN LATERAL json_array_elements_text(s.memory -> 'news') AS child (id)
   JOIN agents k ON k.tenant = s.tenant AND k.id = child.id::uuid
   WHERE s.tenant = $1 AND s.agent = $2`,
);

/**
 * Which of the given agents ended at least this number of days ago, of those that this runner may have run. `isSaved` returns
 * only those whose last run left a checkpoint; with `orKilled` also those that were killed, and these first. Unknown agents are not returned: rows of agents are never deleted, so an
 * unknown one more likely means a wrong database than files without an owner.
 */
export const endedAgents = statement<
  [runnerId: string, ids: string[], days: number, isSaved: boolean, orKilled: boolean],
  { id: string }
>(
  'ended-agents',
  `SELECT a.id FROM runners r, agents a
   WHERE r.id = $1 AND a.id = ANY($2::uuid[]) AND r.tenant IN (0, a.tenant)
     AND (a.pool = r.pool OR a.home = r.name) AND a.ended_at <= now() - $3::float8 * interval '1 day'
     AND (NOT $4 OR $5 AND a.phase = 'PHASE_CANCELED' OR EXISTS (
       SELECT FROM checkpoints c
       WHERE c.tenant = a.tenant AND c.agent = a.id AND c.run = a.run_count AND c.final AND c.completed_at IS NOT NULL))
   ORDER BY $5 AND a.phase = 'PHASE_CANCELED' DESC, a.ended_at, a.id`,
);

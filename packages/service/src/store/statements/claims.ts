import type { Candidate } from '../../domain/scheduling.ts';
import { statement } from '../connection.ts';

/** A number of a pool's document `p`; documents from before it had a maximum may hold a larger one. */
const limitOf = (field: 'maxRuns' | 'maxRunsTotal'): string =>
  `least((p.document ->> '${field}')::numeric, 1000000)::int`;

/** How many live runs a tenant has in a pool, on all runners. */
const liveRuns = (tenant: string, pool: string): string => `(
     SELECT count(*)::int FROM runs h JOIN agents o ON o.tenant = h.tenant AND o.id = h.agent
     WHERE h.tenant = ${tenant} AND h.state <> 'ENDED' AND o.pool = ${pool}
   )`;

/** How many more runs the tenant of the pool `p` may have in it; null without a limit. */
const freeRuns = `CASE WHEN p.document ->> 'maxRunsTotal' IS NOT NULL
     THEN ${limitOf('maxRunsTotal')} - ${liveRuns('p.tenant', 'p.name')} END`;

/** The home runner and the backend that an agent needs, as in the index over waiting agents; empty if it needs none. */
const home = "coalesce(a.home, '')";
const backend = "CASE WHEN a.model LIKE 'rehearsal-_' THEN '' ELSE a.backend END";

/**
 * How many kinds of waiting agents of a tenant are looked at. Kinds that only other runners may take have the home of a
 * live runner, and a tenant has fewer of those (`runnersPerTenant`, with two backends and rehearsals).
 */
const maxKinds = 4000;

/**
 * Agents that this runner could claim for one kind of slot. Tenants come in the order of their turns, beginning after
 * `lastTenant`, and of each tenant the agents that wait longest. `tenant` 0 serves every tenant. `backends` has '' if the
 * slot is one for rehearsals.
 *
 * The cost does not depend on how many agents wait. Tenants are found one after another in the index, so those without waiting
 * agents cost nothing; it ends when twice `limit` tenants have candidates, because the last run that one of them may have
 * can go to the other kind of slot. Tenants that are closed or may have no more runs here are left out before their agents
 * are looked at. An agent lives where its workspace is: its home runner comes first, and another only when that one is gone or could
 * not run it. So the agents of a tenant are of a few kinds, by home and backend, and the
 * runner may take either all of a kind or none. Kinds are found like tenants, and at most `limit` agents of each are
 * read: however many agents wait for another runner, they hide none that this one can take.
 */
export const findCandidates = statement<
  [
    tenant: number,
    pool: string,
    backends: string[],
    name: string,
    id: string,
    lastTenant: number,
    limit: number,
  ],
  Candidate
>(
  'find-candidates',
  `WITH RECURSIVE ring AS (
     SELECT CASE $1::int WHEN 0 THEN $6::int % (SELECT max(id) + 1 FROM tenants) ELSE $1 - 1 END AS start,
       CASE $1 WHEN 0 THEN 2147483647 ELSE $1 END AS up_to
   ), turns (turn, tenant, up_to) AS (
     SELECT 0, start, up_to FROM ring
     UNION ALL
     SELECT t.turn + 1, a.tenant, a.up_to FROM turns t CROSS JOIN ring CROSS JOIN LATERAL (
       (SELECT a.tenant, t.up_to FROM agents a
        WHERE a.pool = $2 AND a.claimable_at IS NOT NULL AND a.tenant > t.tenant AND a.tenant <= t.up_to
        ORDER BY a.tenant LIMIT 1)
       UNION ALL
       (SELECT a.tenant, ring.start FROM agents a
        WHERE $1 = 0 AND t.up_to > ring.start
          AND a.pool = $2 AND a.claimable_at IS NOT NULL AND a.tenant <= ring.start
        ORDER BY a.tenant LIMIT 1)
       LIMIT 1
     ) a
   )
   SELECT c.tenant, c.room, w.id, w.claimable_at
   FROM (
     SELECT t.turn, t.tenant, l.room, w.ids, w.times
     FROM turns t
     CROSS JOIN LATERAL (
       SELECT (
         SELECT least(${freeRuns}, ${limitOf('maxRuns')} - (
           SELECT count(*)::int FROM runs h
           WHERE h.runner_id = $5 AND h.gone_at IS NULL AND h.tenant = t.tenant AND h.state <> 'ENDED'))
         FROM resources p WHERE p.tenant = t.tenant AND p.kind = 'pool' AND p.name = $2
       ) AS room
     ) l
     CROSS JOIN LATERAL (
       SELECT array_agg(w.id ORDER BY w.claimable_at) AS ids,
         array_agg(w.claimable_at ORDER BY w.claimable_at) AS times
       FROM (
         WITH RECURSIVE kinds (home, backend) AS (
           (SELECT ${home}, ${backend} FROM agents a
            WHERE a.pool = $2 AND a.tenant = t.tenant AND a.claimable_at IS NOT NULL
            ORDER BY ${home}, ${backend} LIMIT 1)
           UNION ALL
           SELECT a.home, a.backend FROM kinds k CROSS JOIN LATERAL (
             SELECT ${home} AS home, ${backend} AS backend FROM agents a
             WHERE a.pool = $2 AND a.tenant = t.tenant AND a.claimable_at IS NOT NULL
               AND (${home}, ${backend}) > (k.home, k.backend)
             ORDER BY ${home}, ${backend} LIMIT 1
           ) a
         )
         SELECT a.id, a.claimable_at
         FROM (SELECT home, backend FROM kinds LIMIT ${maxKinds}) k
         CROSS JOIN LATERAL (
           SELECT a.id, a.claimable_at FROM agents a
           WHERE a.pool = $2 AND a.tenant = t.tenant AND ${home} = k.home AND ${backend} = k.backend
             AND a.claimable_at <= now()
           ORDER BY a.claimable_at LIMIT $7
         ) a
         WHERE k.backend = ANY ($3::text[])
           AND (k.home IN ('', $4) OR NOT EXISTS (
             SELECT FROM runners r
             WHERE r.name = k.home AND r.tenant IN (0, t.tenant) AND r.lease_until > now() AND NOT r.leaving
               AND r.pool = $2 AND (k.backend = '' OR k.backend = ANY (r.backends))))
         ORDER BY a.claimable_at LIMIT $7
       ) w
     ) w
     WHERE t.turn > 0 AND coalesce(l.room, 1) > 0 AND w.ids IS NOT NULL
       AND NOT EXISTS (SELECT FROM tenants n WHERE n.id = t.tenant AND n.closed_at IS NOT NULL)
     LIMIT $7 * 2
   ) c CROSS JOIN LATERAL unnest(c.ids, c.times) AS w (id, claimable_at)
   ORDER BY c.turn, w.claimable_at`,
);

export interface PoolLimitsRow {
  tenant: number;
  name: string;
  max_runs: number | null;
  /** How many more runs the tenant may have in the pool, on all runners; null without a limit. */
  free_runs: number | null;
}

export const readPoolLimits = statement<[tenants: number[], pools: string[]], PoolLimitsRow>(
  'read-pool-limits',
  `SELECT p.tenant, p.name, ${limitOf('maxRuns')} AS max_runs, ${freeRuns} AS free_runs
   FROM unnest($1::int[], $2::text[]) AS q (tenant, name)
   JOIN resources p ON p.tenant = q.tenant AND p.kind = 'pool' AND p.name = q.name
   WHERE p.document IS NOT NULL`,
);

export interface PoolWorkRow {
  tenant: number;
  pool: string;
  /** Agents that a runner may claim now, and live runs; of both, those that need a slot for rehearsals. */
  waiting: number;
  waiting_rehearsed: number;
  running: number;
  running_rehearsed: number;
}

/** What waits and runs, by tenant and pool. Nothing waits for a tenant that is closed. */
const poolWork = (isWanted: string): string =>
  `SELECT a.tenant, a.pool, count(*) FILTER (WHERE a.waits)::int AS waiting,
     count(*) FILTER (WHERE a.waits AND a.backend = '')::int AS waiting_rehearsed,
     count(*) FILTER (WHERE NOT a.waits)::int AS running,
     count(*) FILTER (WHERE NOT a.waits AND a.backend = '')::int AS running_rehearsed
   FROM (
     SELECT a.tenant, a.pool, ${backend} AS backend, true AS waits FROM agents a
     WHERE a.claimable_at <= now() AND ${isWanted}
       AND NOT EXISTS (SELECT FROM tenants n WHERE n.id = a.tenant AND n.closed_at IS NOT NULL)
     UNION ALL
     SELECT a.tenant, a.pool, ${backend}, false FROM runs h JOIN agents a ON a.tenant = h.tenant AND a.id = h.agent
     WHERE h.state <> 'ENDED' AND ${isWanted}
   ) a GROUP BY a.tenant, a.pool`;

/** No row: nothing waits or runs. */
export const readPoolWork = statement<[tenant: number, pool: string], PoolWorkRow>(
  'read-pool-work',
  poolWork('a.tenant = $1 AND a.pool = $2'),
);

export const readAllPoolWork = statement<[], PoolWorkRow>('read-all-pool-work', poolWork('true'));

/**
 * Of pools with a limit over all runners, one transaction at a time may claim runs, so that none counts without those
 * that another is about to start. False: another one is claiming. The first number tells these advisory locks from
 * others on the same server.
 */
export const lockPools = statement<[tenants: number[], pools: string[]], { locked: boolean }>(
  'lock-pools',
  `SELECT CASE WHEN p.document ->> 'maxRunsTotal' IS NULL THEN true
     ELSE pg_try_advisory_xact_lock(7301987, hashtext(q.tenant || '/' || q.name)) END AS locked
   FROM unnest($1::int[], $2::text[]) WITH ORDINALITY AS q (tenant, name, n)
   LEFT JOIN resources p ON p.tenant = q.tenant AND p.kind = 'pool' AND p.name = q.name
   ORDER BY q.n`,
);

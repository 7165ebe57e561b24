import type { Backend } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

export interface RunnerRow {
  tenant: number;
  id: string;
  name: string;
  pool: string;
  build: string;
  capabilities: string[];
  backends: Backend[];
  rehearses: boolean;
  free_real: number;
  free_rehearsed: number;
  polls: number;
  leaving: boolean;
}

/**
 * Renews the lease of a runner. An older poll than the last one renews nothing and returns no row, and so does an id that
 * a runner of another tenant has: runs know their runner by its id alone.
 */
export const renewLease = statement<[runner: string, leaseMs: number], { id: string }>(
  'renew-lease',
  `INSERT INTO runners
   SELECT r.tenant, r.id, r.name, r.pool, r.build, r.capabilities, r.backends, r.rehearses, r.free_real,
     r.free_rehearsed, r.polls, now() + make_interval(secs => $2 / 1000.0), r.leaving
   FROM json_populate_record(NULL::runners, $1::json) r
   WHERE NOT EXISTS (SELECT FROM runners o WHERE o.id = r.id AND o.tenant <> r.tenant)
   ON CONFLICT (tenant, id) DO UPDATE
   SET free_real = excluded.free_real, free_rehearsed = excluded.free_rehearsed, polls = excluded.polls,
     lease_until = excluded.lease_until, leaving = excluded.leaving, capabilities = excluded.capabilities,
     backends = excluded.backends, rehearses = excluded.rehearses, build = excluded.build
   WHERE runners.polls < excluded.polls
   RETURNING id`,
);

export const endLease = statement<[tenant: number, id: string], never>(
  'end-lease',
  'UPDATE runners SET lease_until = now(), leaving = true WHERE tenant = $1 AND id = $2',
);

/** A process that holds a runner's folder alone declares its predecessors dead. */
export const replaceRunners = statement<[tenant: number, name: string, id: string], never>(
  'replace-runners',
  `UPDATE runners SET lease_until = now(), leaving = true
   WHERE tenant = $1 AND name = $2 AND id <> $3 AND lease_until > now()`,
);

export const takeSlots = statement<[tenant: number, id: string, real: number, rehearsed: number], never>(
  'take-slots',
  `UPDATE runners SET free_real = greatest(0, free_real - $3), free_rehearsed = greatest(0, free_rehearsed - $4)
   WHERE tenant = $1 AND id = $2`,
);

export interface CandidateRow {
  tenant: number;
  id: string;
  rehearsal: boolean;
  max_runs: number | null;
  held: number;
}

/**
 * Agents that this runner could claim, longest waiting first. An agent lives where its workspace is: its home runner
 * comes first, and another only when that one is gone or could not run it. `tenant` 0 serves every tenant.
 */
export const findCandidates = statement<
  [
    tenant: number,
    pool: string,
    backends: string[],
    name: string,
    id: string,
    anyReal: boolean,
    anyRehearsed: boolean,
    limit: number,
  ],
  CandidateRow
>(
  'find-candidates',
  `SELECT a.tenant, a.id, a.settings ->> 'model' LIKE 'rehearsal-_' AS rehearsal,
     (SELECT (p.document ->> 'maxRuns')::int FROM resources p
      WHERE p.tenant = a.tenant AND p.kind = 'pool' AND p.name = a.pool) AS max_runs,
     (SELECT count(*)::int FROM runs h
      WHERE h.runner_id = $5 AND h.gone_at IS NULL AND h.tenant = a.tenant AND h.state <> 'ENDED') AS held
   FROM agents a
   WHERE a.claimable_at <= now() AND a.pool = $2 AND ($1 = 0 OR a.tenant = $1)
     AND CASE WHEN a.settings ->> 'model' LIKE 'rehearsal-_' THEN $7 ELSE $6 AND a.backend = ANY ($3::text[]) END
     AND (a.home IS NULL OR a.home = $4 OR NOT EXISTS (
       SELECT FROM runners r
       WHERE r.name = a.home AND r.tenant IN (0, a.tenant) AND r.lease_until > now() AND NOT r.leaving
         AND r.pool = a.pool AND (a.settings ->> 'model' LIKE 'rehearsal-_' OR a.backend = ANY (r.backends))))
   ORDER BY a.claimable_at LIMIT $8`,
);

export interface HeldRow {
  tenant: number;
  agent: string;
  number: number;
  state: 'STARTING' | 'RUNNING' | 'STOPPING' | 'ENDED';
}

export const newestPoll = statement<[tenant: number, runnerId: string], { polls: number }>(
  'newest-poll',
  'SELECT polls FROM runners WHERE tenant = $1 AND id = $2',
);

/** The runs of a runner whose processes may live. */
export const findHeld = statement<[runnerId: string], HeldRow>(
  'find-held',
  'SELECT tenant, agent, number, state FROM runs WHERE runner_id = $1 AND gone_at IS NULL',
);

export interface FleetRow {
  tenant: number;
  name: string;
  pool: string;
  backends: Backend[];
  rehearses: boolean;
  free_real: number;
  free_rehearsed: number;
  /** Live runs by tenant. */
  held: Record<string, number> | null;
}

/** Every runner that is there right now, and what it is busy with. */
export const readFleet = statement<[], FleetRow>(
  'read-fleet',
  `SELECT r.tenant, r.name, r.pool, r.backends, r.rehearses, r.free_real, r.free_rehearsed,
     (SELECT json_object_agg(h.tenant, h.n) FROM (
       SELECT h.tenant, count(*)::int AS n FROM runs h
       WHERE h.runner_id = r.id AND h.gone_at IS NULL AND h.state <> 'ENDED' GROUP BY h.tenant
     ) h) AS held
   FROM runners r WHERE r.lease_until > now() AND NOT r.leaving`,
);

export const readPoolLimits = statement<
  [tenants: number[], pools: string[]],
  { tenant: number; name: string; max_runs: number | null }
>(
  'read-pool-limits',
  `SELECT p.tenant, p.name, (p.document ->> 'maxRuns')::int AS max_runs
   FROM unnest($1::int[], $2::text[]) AS q (tenant, name)
   CROSS JOIN LATERAL (
     SELECT * FROM resources p
     WHERE p.tenant = q.tenant AND p.kind = 'pool' AND p.name = q.name AND p.document IS NOT NULL OFFSET 0
   ) p`,
);

export const deleteOldRunners = statement<[], never>(
  'delete-old-runners',
  `DELETE FROM runners r WHERE r.lease_until < now() - interval '1 day'
     AND NOT EXISTS (SELECT FROM runs h WHERE h.runner_id = r.id AND h.gone_at IS NULL)`,
);

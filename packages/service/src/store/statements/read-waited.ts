import type { FollowUpState, Phase, PhaseReason } from '@muster/sdk/contract';
import { statement } from '../connection.ts';
import { hasPathBelow, isBelow } from './below.ts';

/** What waits look at beyond the phase of an agent, for many waits in one query. */

export interface ProgressRow {
  n: number;
  phase: Phase;
  reason: PhaseReason;
  /** The batch that the agent's run was given, or that will be tried again. */
  current_batch: number | null;
  state: FollowUpState;
  /** The batch that the message was delivered in. */
  batch: number | null;
}

/** How far messages have come; no row for a message that does not exist. */
export const readProgress = statement<[tenants: number[], agents: string[], ids: string[]], ProgressRow>(
  'read-progress',
  `SELECT q.n::int, a.phase, a.reason, a.current_batch, f.state, f.batch
   FROM unnest($1::int[], $2::uuid[], $3::text[]) WITH ORDINALITY AS q (tenant, agent, id, n)
   CROSS JOIN LATERAL (
     SELECT a.phase, a.reason, (a.memory #>> '{batch,id}')::int AS current_batch FROM agents a
     WHERE a.tenant = q.tenant AND a.id = q.agent OFFSET 0
   ) a
   CROSS JOIN LATERAL (
     SELECT f.state, f.batch FROM follow_ups f WHERE f.tenant = q.tenant AND f.agent = q.agent AND f.id = q.id OFFSET 0
   ) f`,
);

export interface SettledRow {
  n: number;
  /** Of the agent above. */
  phase: Phase;
  /** How many below it are PENDING or RUNNING. */
  working: number;
  /** The one that came to rest last; else the one that ended last, which is looked for only if it matters. */
  settled: string | null;
}

/** Agents with the standing of what is below them: at most 500 live ones, and the ended ones once the wait is over. */
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

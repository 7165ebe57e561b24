import { statement } from '../connection.ts';
import type { AgentRow, RunRow } from '../rows.ts';
import { runColumns } from './read-runs.ts';

export type LoadedAgentRow = AgentRow & { run: RunRow | null };

/**
 * Agents with their newest run, read after their rows are locked so that both are of one moment. The run is not looked
 * for by the agent's count: a count that is wrong must not hide a run that holds a slot.
 */
export const loadAgents = statement<[tenants: number[], ids: string[]], LoadedAgentRow>(
  'load-agents',
  `SELECT a.*, (
     SELECT row_to_json(r) FROM (
       SELECT ${runColumns.join(', ')} FROM runs r
       WHERE r.tenant = a.tenant AND r.agent = a.id ORDER BY r.number DESC LIMIT 1
     ) r
   ) AS run,
     CASE WHEN a.home IS NOT NULL THEN (
       SELECT 'deferral' = ANY (h.capabilities) FROM runners h
       WHERE h.name = a.home AND h.tenant IN (0, a.tenant) AND h.pool = a.pool ORDER BY h.lease_until DESC LIMIT 1
     ) END AS home_deferral
   FROM unnest($1::int[], $2::uuid[]) AS q (tenant, id)
   CROSS JOIN LATERAL (SELECT * FROM agents a WHERE a.tenant = q.tenant AND a.id = q.id OFFSET 0) a`,
);

import { limits, type Task } from '@muster/sdk/contract';
import { type AgentRow, shownAgentColumns } from '../agent-columns.ts';
import { statement } from '../connection.ts';
import type { AgentBriefRow, AgentStateRow } from '../rows.ts';
import { type StatusRunRow, statusRunColumns } from '../run-columns.ts';
import { deliveryOrder, type ShownFollowUpRow, shownColumns } from './follow-ups.ts';
import { type WantedParameters, wantedAgents } from './load-agents.ts';
import { childrenCost, needsInput } from './shared-sql.ts';

export interface StatusRow
  extends Pick<AgentRow, (typeof shownAgentColumns)[number]>,
    Omit<AgentStateRow, 'memory'>,
    AgentBriefRow {
  n: number;
  /** What it asked, or what has to be fixed, while it waits for that. */
  needs_input: string | null;
  run: StatusRunRow | null;
  tasks: Task[] | null;
  plan: { at: string; data: Record<string, unknown> } | null;
  follow_ups: (ShownFollowUpRow & { schema_left_out: boolean })[] | null;
  child_paths: string[] | null;
  children_cost: number | null;
}

/**
 * Everything that a status shows, for many callers in one query. Each part that an agent has none of costs at most one
 * look into an index.
 */
export const readStatus = statement<WantedParameters, StatusRow>(
  'read-status',
  `SELECT q.n::int, ${shownAgentColumns.map((column) => `a.${column}`).join(', ')},
     s.settings, s.result, s.response, s.structured_output, s.labels, b.description, b.expected_output, b.repos,
     ${needsInput} AS needs_input,
     CASE WHEN a.run_count > 0 THEN (
       SELECT row_to_json(r) FROM (
         SELECT ${statusRunColumns.join(', ')} FROM runs r
         WHERE r.tenant = a.tenant AND r.agent = a.id AND r.number = a.run_count
       ) r
     ) END AS run,
     (SELECT c.tasks FROM checklists c WHERE c.tenant = a.tenant AND c.agent = a.id) AS tasks,
     CASE WHEN s.result -> 'plan' IS NOT NULL THEN (
       SELECT json_build_object('at', t.at, 'data', t.data) FROM timeline t
       WHERE t.tenant = a.tenant AND t.agent = a.id AND t.sequence = (s.result #>> '{plan,sequence}')::bigint
         AND t.at = (s.result #>> '{plan,at}')::timestamptz
     ) END AS plan,
     CASE WHEN a.queued + a.deferred > 0 THEN (
       SELECT json_agg(row_to_json(u)) FROM (
         SELECT ${shownColumns}, left(f.description, ${limits.listedTextBytes + 1}) AS description,
           CASE WHEN octet_length(f.change ->> 'outputSchema') <= ${limits.listedTextBytes}
             THEN f.change ->> 'outputSchema' END AS output_schema,
           coalesce(octet_length(f.change ->> 'outputSchema') > ${limits.listedTextBytes}, false) AS schema_left_out
         FROM follow_ups f
         WHERE f.tenant = a.tenant AND f.agent = a.id AND f.state IN ('QUEUED', 'DEFERRED')
         ORDER BY ${deliveryOrder}
       ) u
     ) END AS follow_ups,
     (SELECT array_agg(k.path) FROM (
       SELECT k.path FROM agents k WHERE k.tenant = a.tenant AND k.parent = a.id AND k.current ORDER BY k.id LIMIT 1000
     ) k) AS child_paths,
     ${childrenCost} AS children_cost
   FROM ${wantedAgents([...shownAgentColumns, 'root', 'queued', 'deferred'].map((column) => `a.${column}`).join(', '))}
   JOIN agent_states s ON s.tenant = a.tenant AND s.agent = a.id
   JOIN agent_briefs b ON b.tenant = a.tenant AND b.agent = a.id`,
);

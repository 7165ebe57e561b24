import type { Phase, ReportItem, StopKind, Task } from '@muster/sdk/contract';
import { statement } from '../connection.ts';
import { rowsOf } from '../tables.ts';

/** A report of output, as a row. */
export interface OutputRow {
  tenant: number;
  agent: string;
  run: number;
  runner: string;
  report: number;
  /** Null leaves it as it is; the same holds for the response. */
  current_action: string | null;
  response: string | null;
  items: readonly ReportItem[];
}

const outputColumns = {
  tenant: 'int',
  agent: 'uuid',
  run: 'int',
  runner: 'uuid',
  report: 'int',
  current_action: 'text',
  response: 'text',
  items: 'json',
} as const satisfies Record<keyof OutputRow, string>;

export interface AppendedRow {
  agent: string;
  phase: Phase;
  sequence: number;
  stop: StopKind;
  /** Null: it has no checklist. */
  tasks: Task[] | null;
  activated: string[] | null;
  question: string | null;
}

/**
 * Appends what agents said and did to their timelines, for reports that need no decision. It is a whole transaction, so
 * a report takes one round trip. It has at most one report of each agent.
 *
 * A report is left out, and has no row in the reply, unless its run is the agent's newest, belongs to this runner, has not
 * ended and has not taken the report before; and it is left out while another transaction has the agent. Both rows are
 * locked without waiting. PostgreSQL looks at them again after it has the locks, so the conditions hold for their newest
 * versions and not for those of the snapshot. The clock is read after the last lock, so that times never go back.
 */
export const appendOutput = statement<[reports: string], AppendedRow>(
  'append-output',
  `WITH held AS MATERIALIZED (
     SELECT n.tenant, n.agent, n.run, n.report, n.current_action, n.response, n.items, a.phase, a.sequence, json_array_length(n.items) AS added, r.stop
     FROM ${rowsOf(outputColumns)}
     JOIN agents a ON a.tenant = n.tenant AND a.id = n.agent
     JOIN runs r ON r.tenant = n.tenant AND r.agent = n.agent AND r.number = n.run
     WHERE a.run_count = n.run AND a.phase = 'PHASE_RUNNING'
       AND r.runner_id = n.runner AND r.state <> 'ENDED' AND r.reports < n.report
     FOR NO KEY UPDATE OF a, r SKIP LOCKED
   ), clock AS MATERIALIZED (
     SELECT date_trunc('milliseconds', clock_timestamp()) AS now FROM (SELECT count(*) FROM held) h
   ), agent AS (
     UPDATE agents t SET sequence = h.sequence + h.added, progress_at = clock.now
     FROM held h CROSS JOIN clock WHERE t.tenant = h.tenant AND t.id = h.agent
   ), run AS (
     UPDATE runs t SET reports = h.report, current_action = coalesce(h.current_action, t.current_action),
       response = coalesce(h.response, t.response)
     FROM held h WHERE t.tenant = h.tenant AND t.agent = h.agent AND t.number = h.run
   ), said AS (
     UPDATE agent_states t SET response = h.response
     FROM held h WHERE t.tenant = h.tenant AND t.agent = h.agent AND h.response IS NOT NULL
   ), entry AS (
     INSERT INTO timeline (tenant, agent, sequence, at, run, type, follow_up_id, text, data)
     SELECT h.tenant, h.agent, h.sequence + i.n, clock.now, h.run, i.item ->> 'type', '',
       coalesce(i.item ->> 'text', ''), coalesce(i.item -> 'data', '{}')
     FROM held h CROSS JOIN clock CROSS JOIN json_array_elements(h.items) WITH ORDINALITY AS i (item, n)
   )
   SELECT h.agent, h.phase, h.sequence + h.added AS sequence, h.stop, c.tasks, s.memory -> 'activated' AS activated,
     s.memory ->> 'question' AS question
   FROM held h
   JOIN agent_states s ON s.tenant = h.tenant AND s.agent = h.agent
   LEFT JOIN checklists c ON c.tenant = h.tenant AND c.agent = h.agent`,
);

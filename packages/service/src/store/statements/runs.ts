import { statement } from '../connection.ts';
import type { AgentStateRow, LoadedRun, RunResultRow } from '../rows.ts';
import { loadedRunFields, type ShownRunRow, shownRunColumns } from '../run-columns.ts';
import { boundedPage } from './shared-sql.ts';

const columns = shownRunColumns.join(', ');

/** A page of the runs of an agent, newest first, with no more of what they said and produced than the given bytes each. */
export const readRuns = statement<
  [tenant: number, agent: string, before: number, limit: number, mostBytesEach: number, mostBytes: number],
  ShownRunRow & RunResultRow & { output_left_out: boolean; found: number }
>(
  'read-runs',
  boundedPage({
    rows: `SELECT ${columns}, left(response, $5 + 1) AS response, error, trace_id,
         CASE WHEN octet_length(structured_output::text) <= $5 THEN structured_output END AS structured_output,
         coalesce(octet_length(structured_output::text) > $5, false) AS output_left_out
       FROM runs WHERE tenant = $1 AND agent = $2 AND number < $3 ORDER BY number DESC LIMIT $4 + 1`,
    bytes: `coalesce(octet_length(response), 0) + coalesce(octet_length(structured_output::text), 0)
       + coalesce(octet_length(error::text), 0) + octet_length(follow_up_ids::text)`,
    order: 'number DESC',
    limit: '$4',
    mostBytes: '$6',
  }),
);

export const readRun = statement<[tenant: number, agent: string, number: number], ShownRunRow & RunResultRow>(
  'read-run',
  `SELECT ${columns}, response, structured_output, error, trace_id FROM runs WHERE tenant = $1 AND agent = $2 AND number = $3`,
);

/** Runs that are no longer the newest of their agents. */
export const loadRuns = statement<
  [tenants: number[], agents: string[], numbers: number[]],
  { agent: string; loaded: LoadedRun }
>(
  'load-runs',
  `SELECT r.agent, (SELECT row_to_json(l) FROM (SELECT ${loadedRunFields}) l) AS loaded
   FROM unnest($1::int[], $2::uuid[], $3::int[]) AS q (tenant, agent, number)
   JOIN runs r ON r.tenant = q.tenant AND r.agent = q.agent AND r.number = q.number`,
);

export interface DiffsRow extends Pick<AgentStateRow, 'result'> {
  diffs: { repo: string; text: string; working_tree: boolean }[];
}

/** What the branch of an agent changed, in the order of its repositories' names. */
export const readDiffs = statement<[tenant: number, agent: string], DiffsRow>(
  'read-diffs',
  `SELECT s.result, coalesce(
     (SELECT json_agg(json_build_object('repo', d.repo, 'text', d.text, 'working_tree', d.working_tree) ORDER BY d.repo)
      FROM diffs d WHERE d.tenant = s.tenant AND d.agent = s.agent), '[]') AS diffs
   FROM agent_states s WHERE s.tenant = $1 AND s.agent = $2`,
);

/** The workspace of a live run that this runner holds, and the repositories that it had when the agent was spawned. */
export const readHeldWorkspace = statement<
  [tenant: number, agent: string, run: number, runnerId: string],
  { workspace: string; repos: string[] }
>(
  'read-held-workspace',
  `SELECT a.workspace, b.repos FROM runs r
   JOIN agents a ON (a.tenant, a.id) = (r.tenant, r.agent)
   JOIN agent_briefs b ON (b.tenant, b.agent) = (r.tenant, r.agent)
   WHERE r.tenant = $1 AND r.agent = $2 AND r.number = $3 AND r.runner_id = $4 AND r.state <> 'ENDED'`,
);

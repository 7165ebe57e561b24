import { statement } from '../connection.ts';

/**
 * Writes of a whole batch, one statement per table. The rows travel as one JSON text: `json_populate_recordset` turns
 * it back into rows of the table itself, so no statement repeats a list of columns that a migration would outdate.
 * Rows to change are found by their key first and then by where they lie: see `connection.ts` on plans.
 */
type Write = [rows: string];

/** The given rows of a table, each with the place of the stored row that has the same key. */
const located = (table: string, key: readonly string[]): string =>
  `(SELECT n.*, k.place FROM json_populate_recordset(NULL::${table}, $1::json) n
    CROSS JOIN LATERAL (
      SELECT k.ctid AS place FROM ${table} k WHERE ${key.map((c) => `k.${c} = n.${c}`).join(' AND ')} OFFSET 0
    ) k) n`;

export const insertAgents = statement<Write, never>(
  'insert-agents',
  'INSERT INTO agents SELECT * FROM json_populate_recordset(NULL::agents, $1::json)',
);

export const updateAgents = statement<Write, never>(
  'update-agents',
  `UPDATE agents a
   SET phase = n.phase, reason = n.reason, since = n.since, claimable_at = n.claimable_at, run_count = n.run_count,
     sequence = n.sequence, queued = n.queued, deferred = n.deferred, next_deliver_at = n.next_deliver_at,
     progress_at = n.progress_at, ended_at = n.ended_at
   FROM ${located('agents', ['tenant', 'id'])} WHERE a.ctid = n.place`,
);

/** The same and what a run changes. */
export const updateWholeAgents = statement<Write, never>(
  'update-whole-agents',
  `UPDATE agents a
   SET phase = n.phase, reason = n.reason, since = n.since, claimable_at = n.claimable_at, run_count = n.run_count,
     sequence = n.sequence, queued = n.queued, deferred = n.deferred, next_deliver_at = n.next_deliver_at,
     progress_at = n.progress_at, ended_at = n.ended_at, current = n.current, settings = n.settings,
     memory = n.memory, result = n.result, cost = n.cost, input_tokens = n.input_tokens,
     cached_tokens = n.cached_tokens, output_tokens = n.output_tokens, home = n.home, deferral = n.deferral,
     rehearsed = n.rehearsed, sandboxed = n.sandboxed, session = n.session, labels = n.labels, unpushed = n.unpushed,
     checkpoint_at = n.checkpoint_at,
     swept = a.swept AND n.ended_at IS NOT NULL
   FROM ${located('agents', ['tenant', 'id'])} WHERE a.ctid = n.place`,
);

export const insertRuns = statement<Write, never>(
  'insert-runs',
  'INSERT INTO runs SELECT * FROM json_populate_recordset(NULL::runs, $1::json)',
);

export const updateRuns = statement<Write, never>(
  'update-runs',
  `UPDATE runs r
   SET state = n.state, outcome = n.outcome, stop = n.stop, ended_at = n.ended_at, gone_at = n.gone_at,
     reports = n.reports, current_action = n.current_action, cost = n.cost, input_tokens = n.input_tokens,
     cached_tokens = n.cached_tokens, output_tokens = n.output_tokens
   FROM ${located('runs', ['tenant', 'agent', 'number'])} WHERE r.ctid = n.place`,
);

/** What the rows leave out stays as it is. */
export const updateRunResults = statement<Write, never>(
  'update-run-results',
  `UPDATE runs r
   SET response = coalesce(n.response, r.response),
     structured_output = coalesce(n.structured_output, r.structured_output), error = coalesce(n.error, r.error)
   FROM ${located('runs', ['tenant', 'agent', 'number'])} WHERE r.ctid = n.place`,
);

/** The id of a message that was removed or cleared may be used again, for another one. */
export const upsertFollowUps = statement<Write, never>(
  'upsert-follow-ups',
  `INSERT INTO follow_ups SELECT * FROM json_populate_recordset(NULL::follow_ups, $1::json)
   ON CONFLICT (tenant, agent, id) DO UPDATE
   SET state = excluded.state, position = excluded.position, description = excluded.description,
     change = excluded.change, tasks = excluded.tasks, deliver_at = excluded.deliver_at,
     queued_at = excluded.queued_at, batch = excluded.batch, digest = excluded.digest`,
);

export const updateFollowUps = statement<Write, never>(
  'update-follow-ups',
  `UPDATE follow_ups f SET state = n.state, position = n.position, batch = n.batch
   FROM ${located('follow_ups', ['tenant', 'agent', 'id'])} WHERE f.ctid = n.place`,
);

export const upsertChecklists = statement<Write, never>(
  'upsert-checklists',
  `INSERT INTO checklists SELECT * FROM json_populate_recordset(NULL::checklists, $1::json)
   ON CONFLICT (tenant, agent) DO UPDATE SET tasks = excluded.tasks`,
);

export const deleteLabels = statement<Write, never>(
  'delete-labels',
  `DELETE FROM labels l USING json_populate_recordset(NULL::labels, $1::json) n
   WHERE l.tenant = n.tenant AND l.agent = n.agent`,
);

export const insertLabels = statement<Write, never>(
  'insert-labels',
  'INSERT INTO labels SELECT * FROM json_populate_recordset(NULL::labels, $1::json)',
);

export const insertTimeline = statement<Write, never>(
  'insert-timeline',
  'INSERT INTO timeline SELECT * FROM json_populate_recordset(NULL::timeline, $1::json)',
);

export const upsertDiffs = statement<Write, never>(
  'upsert-diffs',
  `INSERT INTO diffs SELECT * FROM json_populate_recordset(NULL::diffs, $1::json)
   ON CONFLICT (tenant, agent, repo, working_tree) DO UPDATE SET text = excluded.text`,
);

export const insertReplies = statement<Write, never>(
  'insert-replies',
  `INSERT INTO replies SELECT * FROM json_populate_recordset(NULL::replies, $1::json)
   ON CONFLICT (tenant, key_id, key)
   DO UPDATE SET digest = excluded.digest, reply = excluded.reply, created_at = excluded.created_at`,
);

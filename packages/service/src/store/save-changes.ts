import type { Entry, NewDiff, NewFollowUp, Run, RunResult } from '../domain/agent.ts';
import type { Change } from '../domain/loaded-agents.ts';
import { type Connection, statement } from './connection.ts';
import { agentRow, hotFields, runRow } from './rows.ts';

/**
 * Writes of a whole batch, one statement per table. The rows are sent as one JSON text: `json_populate_recordset` turns
 * it into rows of the table, so no statement repeats a list of columns that a migration would outdate. Rows to change
 * are found by their key first and then by their `ctid`: `connection.ts` explains the plans.
 */
type Write = [rows: string];

/** The given rows of a table, each with the `ctid` of the stored row that has the same key. */
const located = (table: string, key: readonly string[]): string =>
  `(SELECT n.*, k.place FROM json_populate_recordset(NULL::${table}, $1::json) n
    CROSS JOIN LATERAL (
      SELECT k.ctid AS place FROM ${table} k WHERE ${key.map((c) => `k.${c} = n.${c}`).join(' AND ')} OFFSET 0
    ) k) n`;

const insertAgents = statement<Write, never>(
  'insert-agents',
  'INSERT INTO agents SELECT * FROM json_populate_recordset(NULL::agents, $1::json)',
);

const hotColumns = `phase = n.phase, reason = n.reason, since = n.since, claimable_at = n.claimable_at,
     run_count = n.run_count, sequence = n.sequence, queued = n.queued, deferred = n.deferred,
     next_deliver_at = n.next_deliver_at, progress_at = n.progress_at, ended_at = n.ended_at`;

const updateAgents = statement<Write, never>(
  'update-agents',
  `UPDATE agents a SET ${hotColumns} FROM ${located('agents', ['tenant', 'id'])} WHERE a.ctid = n.place`,
);

/** The same, and what a run changes. */
const updateWholeAgents = statement<Write, never>(
  'update-whole-agents',
  `UPDATE agents a
   SET ${hotColumns},
     current = n.current, settings = n.settings, memory = n.memory, result = n.result, cost = n.cost,
     input_tokens = n.input_tokens, cached_tokens = n.cached_tokens, output_tokens = n.output_tokens, home = n.home,
     deferral = n.deferral, rehearsed = n.rehearsed, sandboxed = n.sandboxed, session = n.session,
     labels = n.labels, unpushed = n.unpushed, checkpoint_at = n.checkpoint_at,
     swept = a.swept AND n.ended_at IS NOT NULL
   FROM ${located('agents', ['tenant', 'id'])} WHERE a.ctid = n.place`,
);

const insertRuns = statement<Write, never>(
  'insert-runs',
  'INSERT INTO runs SELECT * FROM json_populate_recordset(NULL::runs, $1::json)',
);

const updateRuns = statement<Write, never>(
  'update-runs',
  `UPDATE runs r
   SET state = n.state, outcome = n.outcome, stop = n.stop, ended_at = n.ended_at, gone_at = n.gone_at,
     reports = n.reports, current_action = n.current_action, cost = n.cost, input_tokens = n.input_tokens,
     cached_tokens = n.cached_tokens, output_tokens = n.output_tokens
   FROM ${located('runs', ['tenant', 'agent', 'number'])} WHERE r.ctid = n.place`,
);

/** Fields that are left out stay unchanged. */
const updateRunResults = statement<Write, never>(
  'update-run-results',
  `UPDATE runs r
   SET response = coalesce(n.response, r.response),
     structured_output = coalesce(n.structured_output, r.structured_output), error = coalesce(n.error, r.error)
   FROM ${located('runs', ['tenant', 'agent', 'number'])} WHERE r.ctid = n.place`,
);

/** The id of a message that was removed or cleared may be used again. */
const upsertFollowUps = statement<Write, never>(
  'upsert-follow-ups',
  `INSERT INTO follow_ups SELECT * FROM json_populate_recordset(NULL::follow_ups, $1::json)
   ON CONFLICT (tenant, agent, id) DO UPDATE
   SET state = excluded.state, position = excluded.position, description = excluded.description,
     change = excluded.change, tasks = excluded.tasks, deliver_at = excluded.deliver_at,
     queued_at = excluded.queued_at, batch = excluded.batch, digest = excluded.digest`,
);

const updateFollowUps = statement<Write, never>(
  'update-follow-ups',
  `UPDATE follow_ups f SET state = n.state, position = n.position, batch = n.batch
   FROM ${located('follow_ups', ['tenant', 'agent', 'id'])} WHERE f.ctid = n.place`,
);

const upsertChecklists = statement<Write, never>(
  'upsert-checklists',
  `INSERT INTO checklists SELECT * FROM json_populate_recordset(NULL::checklists, $1::json)
   ON CONFLICT (tenant, agent) DO UPDATE SET tasks = excluded.tasks`,
);

const deleteLabels = statement<Write, never>(
  'delete-labels',
  `DELETE FROM labels l USING json_populate_recordset(NULL::labels, $1::json) n
   WHERE l.tenant = n.tenant AND l.agent = n.agent`,
);

const insertLabels = statement<Write, never>(
  'insert-labels',
  'INSERT INTO labels SELECT * FROM json_populate_recordset(NULL::labels, $1::json)',
);

const insertTimeline = statement<Write, never>(
  'insert-timeline',
  'INSERT INTO timeline SELECT * FROM json_populate_recordset(NULL::timeline, $1::json)',
);

const upsertDiffs = statement<Write, never>(
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

/** The changes of one agent in one batch, combined. */
interface CombinedChange {
  readonly before: Change['before'];
  after: Change['after'];
  readonly entries: Entry[];
  /** Every run that changed: a batch may end one and start the next. */
  readonly runs: Map<number, Run>;
  readonly admitted: Map<string, NewFollowUp>;
  readonly runResults: Map<number, RunResult>;
  /** By repository; the newest counts. */
  readonly diffs: Map<string, NewDiff>;
}

function combine(changes: readonly Change[]): CombinedChange[] {
  const combined = new Map<string, CombinedChange>();
  for (const change of changes) {
    const { id } = change.after.agent;
    let one = combined.get(id);
    if (!one) {
      one = {
        before: change.before,
        after: change.after,
        entries: [],
        runs: new Map(),
        runResults: new Map(),
        admitted: new Map(),
        diffs: new Map(),
      };
      combined.set(id, one);
    }
    one.after = change.after;
    one.entries.push(...change.entries);
    const { run } = change.after;
    if (run && run !== change.before?.run) one.runs.set(run.number, run);
    for (const followUp of change.admitted) one.admitted.set(followUp.id, followUp);
    const { runResult } = change;
    if (runResult) {
      one.runResults.set(runResult.runId, { ...one.runResults.get(runResult.runId), ...runResult });
    }
    for (const diff of change.diffs) one.diffs.set(`${diff.workingTree} ${diff.repo}`, diff);
  }
  return [...combined.values()];
}

/** Writes what a batch changed, one statement per table in one round trip. Unchanged parts of an agent are not written. */
export async function saveChanges(connection: Connection, changes: readonly Change[]): Promise<void> {
  const combined = combine(changes);
  const sent: Promise<unknown>[] = [];
  const write = (statement: typeof insertAgents, rows: readonly unknown[]): void => {
    if (rows.length > 0) sent.push(statement(connection, JSON.stringify(rows)));
  };
  const existing = combined.filter((f) => f.before !== null);
  const created = combined.filter((f) => f.before === null);

  write(
    updateAgents,
    existing.filter((f) => !isWhole(f)).map((f) => hotFields(f.after.agent)),
  );
  write(
    updateWholeAgents,
    existing.filter(isWhole).map((f) => agentRow(f.after.agent)),
  );
  write(
    insertAgents,
    created.map((f) => agentRow(f.after.agent)),
  );
  write(updateRuns, combined.flatMap(changedRun));
  write(insertRuns, combined.flatMap(newRun));
  write(updateRunResults, combined.flatMap(runResultRows));
  write(upsertFollowUps, combined.flatMap(newFollowUps));
  write(updateFollowUps, combined.flatMap(movedFollowUps));
  write(upsertChecklists, combined.flatMap(checklistRow));
  const relabelled = combined.filter(isRelabelled);
  write(deleteLabels, relabelled.filter((f) => f.before !== null).map(keyOf));
  write(insertLabels, relabelled.flatMap(labelRows));
  write(insertTimeline, combined.flatMap(timelineRows));
  write(upsertDiffs, combined.flatMap(diffRows));
  await Promise.all(sent);
}

/** Whether more than the frequently changed part of the row differs. */
function isWhole({ before, after }: CombinedChange): boolean {
  const a = before?.agent;
  const b = after.agent;
  return (
    !a ||
    a.settings !== b.settings ||
    a.memory !== b.memory ||
    a.result !== b.result ||
    a.usage !== b.usage ||
    a.current !== b.current ||
    a.home !== b.home ||
    a.deferral !== b.deferral ||
    a.rehearsed !== b.rehearsed ||
    a.sandboxed !== b.sandboxed ||
    a.session !== b.session ||
    a.unpushed !== b.unpushed ||
    a.checkpointAt !== b.checkpointAt ||
    a.labels !== b.labels
  );
}

/** A row of `labels` also says whether the agent is live. */
function isRelabelled({ before, after }: CombinedChange): boolean {
  const had = before?.agent.labels ?? {};
  const hasAny = Object.keys(had).length + Object.keys(after.agent.labels).length > 0;
  return hasAny && (had !== after.agent.labels || before?.agent.endedAt !== after.agent.endedAt);
}

const labelRows = (f: CombinedChange) =>
  Object.entries(f.after.agent.labels).map(([key, value]) => ({
    ...keyOf(f),
    key,
    value,
    is_live: f.after.agent.endedAt === null,
  }));

const isNew = ({ before }: CombinedChange, run: Run): boolean => run.number > (before?.run?.number ?? 0);

const newRun = (f: CombinedChange) =>
  [...f.runs.values()].filter((r) => isNew(f, r)).map((r) => runRow(f.after.agent, r));
const changedRun = (f: CombinedChange) =>
  [...f.runs.values()].filter((r) => !isNew(f, r)).map((r) => runRow(f.after.agent, r));

const runResultRows = (f: CombinedChange) =>
  [...f.runResults.values()].map(({ runId, response, structuredOutput, error }) => ({
    ...keyOf(f),
    number: runId,
    response,
    structured_output: structuredOutput,
    error,
  }));

const keyOf = ({ after }: CombinedChange) => ({ tenant: after.agent.tenant, agent: after.agent.id });

/** Written out, because objects put together by spreading cost more than all other rows of a batch. */
const newFollowUps = (f: CombinedChange) =>
  [...f.admitted.values()].flatMap(({ id, description }) => {
    const followUp = f.after.followUps.get(id);
    if (!followUp) return [];
    const { state, position, change, tasks, deliverAt, queuedAt, batch, digest } = followUp;
    return [
      {
        tenant: f.after.agent.tenant,
        agent: f.after.agent.id,
        id,
        state,
        position,
        description,
        change,
        tasks,
        deliver_at: deliverAt,
        queued_at: queuedAt,
        batch,
        digest,
      },
    ];
  });

const movedFollowUps = (f: CombinedChange) =>
  [...f.after.followUps.values()]
    .filter((followUp) => {
      const was = f.before?.followUps.get(followUp.id);
      return was && was !== followUp && !f.admitted.has(followUp.id);
    })
    .map(({ id, state, position, batch }) => ({ ...keyOf(f), id, state, position, batch }));

const checklistRow = (f: CombinedChange) =>
  f.after.checklist !== f.before?.checklist && (f.before || f.after.checklist.length > 0)
    ? [{ ...keyOf(f), tasks: f.after.checklist }]
    : [];

const diffRows = (f: CombinedChange) =>
  [...f.diffs.values()].map(({ repo, text, workingTree }) => ({
    ...keyOf(f),
    repo,
    text,
    working_tree: workingTree,
  }));

const timelineRows = (f: CombinedChange) =>
  f.entries.map((entry) => ({
    tenant: f.after.agent.tenant,
    agent: f.after.agent.id,
    sequence: entry.sequence,
    at: entry.at,
    run: entry.runId,
    type: entry.type,
    follow_up_id: entry.followUpId,
    text: entry.text,
    data: entry.data,
  }));

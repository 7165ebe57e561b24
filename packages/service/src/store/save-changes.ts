import type { Agent, Brief, Entry, NewDiff, NewFollowUp, Run, RunResult } from '../domain/agent.ts';
import type { AgentChange } from '../domain/loaded-agents.ts';
import {
  agentColumns,
  agentTable,
  changingAgentColumns,
  hasColdChange,
  hotAgentColumns,
} from './agent-columns.ts';
import { type ColumnTable, parametersOf } from './column-table.ts';
import { type Connection, statement } from './connection.ts';
import {
  changingFollowUpColumns,
  followUpColumns,
  followUpKeyColumns,
  followUpTable,
  type SavedFollowUp,
} from './follow-up-columns.ts';
import { changedStateFields } from './rows.ts';
import { changingRunColumns, runColumns, runTable, type SavedRun } from './run-columns.ts';
import { saveCredit } from './save-credit.ts';
import { saveThreads } from './save-threads.ts';
import { saveUsage } from './save-usage.ts';
import { saveEvents } from './subscribers.ts';
import {
  agentBriefColumns,
  agentStateColumns,
  assigned,
  type Columns,
  checklistColumns,
  diffColumns,
  insertInto,
  labelColumns,
  listParameters,
  listsOf,
  replyColumns,
  rowsOf,
  runResultColumns,
  timelineColumns,
  updateOf,
} from './tables.ts';

/** Writes the rows of a whole batch to one table. */
type Write<R = object> = (connection: Connection, rows: readonly R[]) => Promise<unknown>;

/** The rows are sent as one JSON text. */
function write(name: string, text: string): Write {
  const send = statement<[rows: string], never>(name, text);
  return (connection, rows) => send(connection, JSON.stringify(rows));
}

/** The rows are sent as a list per column. */
function writeLists(name: string, columns: Columns, textOf: (rows: string) => string): Write {
  const send = statement<string[], never>(name, textOf(listsOf(columns)));
  return (connection, rows) => send(connection, ...listParameters(columns, rows, columnOf));
}

const columnOf = (name: string) => (row: object) => (row as Record<string, unknown>)[name];

/** The same of a hot table, without rows in between. */
const writeTo =
  <Item>(table: ColumnTable<Item>) =>
  (name: string, columns: Columns, textOf: (rows: string) => string): Write<Item> => {
    const send = statement<string[], never>(name, textOf(listsOf(columns)));
    return (connection, items) => send(connection, ...parametersOf(table, columns, items));
  };

const writeAgents = writeTo<Agent>(agentTable);
const writeRuns = writeTo<SavedRun>(runTable);
const writeFollowUps = writeTo<SavedFollowUp>(followUpTable);

const insertAgents = writeAgents('insert-agents', agentColumns, (rows) =>
  insertInto('agents', agentColumns, rows),
);
const insertAgentStates = write('insert-agent-states', insertInto('agent_states', agentStateColumns));
const insertAgentBriefs = write('insert-agent-briefs', insertInto('agent_briefs', agentBriefColumns));

const updateAgents = writeAgents('update-agents', hotAgentColumns, (rows) =>
  updateOf('agents', hotAgentColumns, ['tenant', 'id'], rows),
);

/**
 * The same, and what a run changes. The history of an agent that lives again is kept again. Stored settings that are
 * broken have no model; that must not refuse a kill.
 */
const updateWholeAgents = writeAgents(
  'update-whole-agents',
  changingAgentColumns,
  (rows) => `UPDATE agents t
   SET ${assigned(changingAgentColumns, 'n', ['tenant', 'id', 'model'])}, model = coalesce(n.model, t.model),
     history_deleted = t.history_deleted AND n.ended_at IS NOT NULL
   FROM ${rows} WHERE t.tenant = n.tenant AND t.id = n.id`,
);

/** A column that is left out stays as it is; PostgreSQL does not write a large one again then. */
const updateAgentStates = write(
  'update-agent-states',
  `UPDATE agent_states t
   SET settings = coalesce(n.settings, t.settings), memory = coalesce(n.memory, t.memory),
     result = coalesce(n.result, t.result), response = coalesce(n.response, t.response),
     labels = coalesce(n.labels, t.labels),
     structured_output = CASE WHEN n.has_output THEN n.structured_output ELSE t.structured_output END
   FROM ${rowsOf({ ...agentStateColumns, has_output: 'boolean' })} WHERE t.tenant = n.tenant AND t.agent = n.agent`,
);

const insertRuns = writeRuns('insert-runs', runColumns, (rows) => insertInto('runs', runColumns, rows));
const updateRuns = writeRuns('update-runs', changingRunColumns, (rows) =>
  updateOf('runs', changingRunColumns, ['tenant', 'agent', 'number'], rows),
);

/** Fields that are left out stay unchanged. */
const updateRunResults = write(
  'update-run-results',
  `UPDATE runs t
   SET response = coalesce(n.response, t.response),
     structured_output = coalesce(n.structured_output, t.structured_output), error = coalesce(n.error, t.error),
     trace_id = coalesce(n.trace_id, t.trace_id)
   FROM ${rowsOf(runResultColumns)} WHERE t.tenant = n.tenant AND t.agent = n.agent AND t.number = n.number`,
);

const followUpKey = ['tenant', 'agent', 'id'];

/** The id of a message that was removed or cleared may be used again: the entry of the former one keeps its text. */
const keepTexts = writeFollowUps(
  'keep-texts',
  followUpKeyColumns,
  (rows) => `UPDATE timeline t SET text = f.description
   FROM ${rows}
   JOIN follow_ups f ON f.tenant = n.tenant AND f.agent = n.agent AND f.id = n.id
   WHERE t.tenant = f.tenant AND t.agent = f.agent AND t.sequence = f.sequence AND t.at = f.queued_at
     AND t.text IS NULL`,
);

const insertFollowUps = writeFollowUps('insert-follow-ups', followUpColumns, (rows) =>
  insertInto('follow_ups', followUpColumns, rows),
);

/** Messages whose ids were used before. */
const replaceFollowUps = writeFollowUps('replace-follow-ups', followUpColumns, (rows) =>
  updateOf('follow_ups', followUpColumns, followUpKey, rows),
);

const updateFollowUps = writeFollowUps('update-follow-ups', changingFollowUpColumns, (rows) =>
  updateOf('follow_ups', changingFollowUpColumns, followUpKey, rows),
);

const upsertChecklists = write(
  'upsert-checklists',
  `${insertInto('checklists', checklistColumns)}
   ON CONFLICT (tenant, agent) DO UPDATE SET tasks = excluded.tasks`,
);

const deleteLabels = write(
  'delete-labels',
  `DELETE FROM labels t USING ${rowsOf({ tenant: 'int', agent: 'uuid' })}
   WHERE t.tenant = n.tenant AND t.agent = n.agent`,
);

const insertLabels = write('insert-labels', insertInto('labels', labelColumns));
const insertTimeline = writeLists('insert-timeline', timelineColumns, (rows) =>
  insertInto('timeline', timelineColumns, rows),
);

const upsertDiffs = write(
  'upsert-diffs',
  `${insertInto('diffs', diffColumns)}
   ON CONFLICT (tenant, agent, repo, working_tree) DO UPDATE SET text = excluded.text`,
);

export const insertReplies = write(
  'insert-replies',
  `${insertInto('replies', replyColumns)}
   ON CONFLICT (tenant, key_id, key)
   DO UPDATE SET digest = excluded.digest, reply = excluded.reply, created_at = excluded.created_at`,
);

/** The changes of one agent in one batch, combined. */
interface CombinedChange {
  readonly before: AgentChange['before'];
  after: AgentChange['after'];
  readonly brief: Brief | null;
  readonly entries: Entry[];
  /** Every run that changed: a batch may end one and start the next. */
  readonly runs: Map<number, Run>;
  readonly admitted: Map<string, NewFollowUp>;
  readonly runResults: Map<number, RunResult>;
  /** By repository; the newest counts. */
  readonly diffs: Map<string, NewDiff>;
}

function combine(changes: readonly AgentChange[]): CombinedChange[] {
  const combined = new Map<string, CombinedChange>();
  for (const change of changes) {
    const { id } = change.after.agent;
    let one = combined.get(id);
    if (!one) {
      one = {
        before: change.before,
        after: change.after,
        brief: change.brief,
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
    if (change.olderRun) one.runs.set(change.olderRun.number, change.olderRun);
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
export async function saveChanges(connection: Connection, changes: readonly AgentChange[]): Promise<void> {
  const combined = combine(changes);
  const sent: Promise<unknown>[] = [];
  const send = <R>(write: Write<R>, rows: readonly R[]): void => {
    if (rows.length > 0) sent.push(write(connection, rows));
  };
  const existing = combined.filter((f) => f.before !== null);
  const created = combined.filter((f) => f.before === null);

  send(updateAgents, existing.filter((f) => !isWhole(f)).map(agentAfter));
  send(updateWholeAgents, existing.filter(isWhole).map(agentAfter));
  send(updateAgentStates, existing.filter(hasNewState).map(stateFields));
  send(insertAgents, created.map(agentAfter));
  send(insertAgentStates, created.map(stateFields));
  send(insertAgentBriefs, created.flatMap(briefRow));
  send(updateRuns, combined.flatMap(changedRun));
  send(insertRuns, combined.flatMap(newRun));
  send(updateRunResults, combined.flatMap(runResultRows));
  send(
    insertFollowUps,
    combined.flatMap((f) => admittedRows(f, (id) => !wasUsed(f, id))),
  );
  const reused = existing.flatMap((f) => admittedRows(f, (id) => wasUsed(f, id)));
  send(keepTexts, reused);
  send(replaceFollowUps, reused);
  send(updateFollowUps, combined.flatMap(movedFollowUps));
  send(upsertChecklists, combined.flatMap(checklistRow));
  const relabelled = combined.filter(isRelabelled);
  send(deleteLabels, relabelled.filter((f) => f.before !== null).map(keyOf));
  send(insertLabels, relabelled.flatMap(labelRows));
  send(insertTimeline, combined.flatMap(timelineRows));
  send(upsertDiffs, combined.flatMap(diffRows));
  const reviewed = changes.filter((change) => change.threadChanges.length > 0);
  if (reviewed.length > 0) sent.push(...saveThreads(connection, reviewed));
  sent.push(
    ...saveUsage(connection, changes),
    ...saveEvents(connection, changes),
    ...saveCredit(connection, changes),
  );
  await Promise.all(sent);
}

const agentAfter = ({ after }: CombinedChange): Agent => after.agent;

const isWhole = ({ before, after }: CombinedChange): boolean =>
  !before || hasColdChange(before.agent, after.agent);

function hasNewState({ before, after }: CombinedChange): boolean {
  const a = before?.agent;
  const b = after.agent;
  return (
    a?.settings !== b.settings || a.memory !== b.memory || a.result !== b.result || a.labels !== b.labels
  );
}

const stateFields = ({ before, after }: CombinedChange) => changedStateFields(before?.agent, after.agent);

/** How much of a description a list is searched by; without half of a character at its end. */
const searchedOf = (description: string): string =>
  description.slice(0, 8192).replace(/[\ud800-\udbff]$/, '');

const briefRow = (f: CombinedChange) =>
  f.brief
    ? [
        {
          ...keyOf(f),
          description: f.brief.description,
          expected_output: f.brief.expectedOutput,
          repos: f.brief.repos,
          traceparent: f.brief.traceparent,
          searched: `${f.after.agent.path.join('/')} ${searchedOf(f.brief.description)}`,
        },
      ]
    : [];

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

const savedRuns = ({ after: { agent }, runs }: CombinedChange, isWanted: (run: Run) => boolean): SavedRun[] =>
  [...runs.values()].filter(isWanted).map((run) => ({ agent, run }));
const newRun = (f: CombinedChange) => savedRuns(f, (run) => isNew(f, run));
const changedRun = (f: CombinedChange) => savedRuns(f, (run) => !isNew(f, run));

const runResultRows = (f: CombinedChange) =>
  [...f.runResults.values()].map(({ runId, response, structuredOutput, error, traceId }) => ({
    ...keyOf(f),
    number: runId,
    response,
    structured_output: structuredOutput,
    error,
    trace_id: traceId,
  }));

const keyOf = ({ after }: CombinedChange) => ({ tenant: after.agent.tenant, agent: after.agent.id });

/** Whether the id had a message before, which was removed or cleared. */
const wasUsed = ({ before }: CombinedChange, id: string): boolean => before?.followUps.has(id) ?? false;

const admittedRows = (
  { after: { agent, followUps }, admitted }: CombinedChange,
  isWanted: (id: string) => boolean,
): SavedFollowUp[] =>
  [...admitted.values()].flatMap((one) => {
    const followUp = followUps.get(one.id);
    return followUp && isWanted(one.id) ? [{ agent, followUp, admitted: one }] : [];
  });

const movedFollowUps = ({ before, after: { agent, followUps }, admitted }: CombinedChange): SavedFollowUp[] =>
  [...followUps.values()]
    .filter((followUp) => {
      const was = before?.followUps.get(followUp.id);
      return was && was !== followUp && !admitted.has(followUp.id);
    })
    .map((followUp) => ({ agent, followUp }));

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
    text: isStoredApart(f, entry) ? null : entry.text,
    data: entry.data,
  }));

/** A description is stored once: with its agent or its follow-up. */
const isStoredApart = ({ brief, admitted }: CombinedChange, { type, followUpId, sequence }: Entry): boolean =>
  (type === 'AGENT_SPAWNED' && brief !== null) || admitted.get(followUpId)?.sequence === sequence;

import type { Entry, NewDiff, NewFollowUp, Run, RunResult } from '../domain/agent.ts';
import type { Change } from '../domain/loaded-agents.ts';
import type { Connection } from './connection.ts';
import { agentRow, hotFields, runRow } from './rows.ts';
import * as save from './statements/save.ts';

/** The changes of one agent in one batch, folded into one. */
interface Folded {
  readonly before: Change['before'];
  after: Change['after'];
  readonly entries: Entry[];
  /** Every run that changed: a batch may end one and start the next. */
  readonly runs: Map<number, Run>;
  readonly admitted: Map<string, NewFollowUp>;
  readonly runResults: Map<number, RunResult>;
  /** By repository; the last word counts. */
  readonly diffs: Map<string, NewDiff>;
}

function fold(changes: readonly Change[]): Folded[] {
  const folded = new Map<string, Folded>();
  for (const change of changes) {
    const { id } = change.after.agent;
    let one = folded.get(id);
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
      folded.set(id, one);
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
  return [...folded.values()];
}

/**
 * Sends what a batch of decisions changed, set by set and in one flight. Unchanged parts of an agent are not touched.
 */
export async function saveChanges(connection: Connection, changes: readonly Change[]): Promise<void> {
  const folded = fold(changes);
  const flight: Promise<unknown>[] = [];
  const write = (statement: typeof save.insertAgents, rows: readonly unknown[]): void => {
    if (rows.length > 0) flight.push(statement(connection, JSON.stringify(rows)));
  };
  const existing = folded.filter((f) => f.before !== null);
  const created = folded.filter((f) => f.before === null);

  write(
    save.updateAgents,
    existing.filter((f) => !isWhole(f)).map((f) => hotFields(f.after.agent)),
  );
  write(
    save.updateWholeAgents,
    existing.filter(isWhole).map((f) => agentRow(f.after.agent)),
  );
  write(
    save.insertAgents,
    created.map((f) => agentRow(f.after.agent)),
  );
  write(save.updateRuns, folded.flatMap(changedRun));
  write(save.insertRuns, folded.flatMap(newRun));
  write(save.updateRunResults, folded.flatMap(runResultRows));
  write(save.upsertFollowUps, folded.flatMap(newFollowUps));
  write(save.updateFollowUps, folded.flatMap(movedFollowUps));
  write(save.upsertChecklists, folded.flatMap(checklistRow));
  const relabelled = folded.filter(isRelabelled);
  write(save.deleteLabels, relabelled.filter((f) => f.before !== null).map(keyOf));
  write(save.insertLabels, relabelled.flatMap(labelRows));
  write(save.insertTimeline, folded.flatMap(timelineRows));
  write(save.upsertDiffs, folded.flatMap(diffRows));
  await Promise.all(flight);
}

/** Did more change than the hot part of the row? */
function isWhole({ before, after }: Folded): boolean {
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

/** The rows that find it by a label also say whether it is live. */
function isRelabelled({ before, after }: Folded): boolean {
  const had = before?.agent.labels ?? {};
  const hasAny = Object.keys(had).length + Object.keys(after.agent.labels).length > 0;
  return hasAny && (had !== after.agent.labels || before?.agent.endedAt !== after.agent.endedAt);
}

const labelRows = (f: Folded) =>
  Object.entries(f.after.agent.labels).map(([key, value]) => ({
    ...keyOf(f),
    key,
    value,
    is_live: f.after.agent.endedAt === null,
  }));

const isNew = ({ before }: Folded, run: Run): boolean => run.number > (before?.run?.number ?? 0);

const newRun = (f: Folded) =>
  [...f.runs.values()].filter((r) => isNew(f, r)).map((r) => runRow(f.after.agent, r));
const changedRun = (f: Folded) =>
  [...f.runs.values()].filter((r) => !isNew(f, r)).map((r) => runRow(f.after.agent, r));

const runResultRows = (f: Folded) =>
  [...f.runResults.values()].map(({ runId, response, structuredOutput, error }) => ({
    ...keyOf(f),
    number: runId,
    response,
    structured_output: structuredOutput,
    error,
  }));

const keyOf = ({ after }: Folded) => ({ tenant: after.agent.tenant, agent: after.agent.id });

const newFollowUps = (f: Folded) =>
  [...f.admitted.values()].flatMap(({ id, description }) => {
    const followUp = f.after.followUps.get(id);
    if (!followUp) return [];
    const { tenant, id: agent } = f.after.agent;
    const {
      state,
      position,
      change,
      tasks,
      batch,
      digest,
      deliverAt: deliver_at,
      queuedAt: queued_at,
    } = followUp;
    return [
      {
        tenant,
        agent,
        id,
        state,
        position,
        description,
        change,
        tasks,
        deliver_at,
        queued_at,
        batch,
        digest,
      },
    ];
  });

const movedFollowUps = (f: Folded) =>
  [...f.after.followUps.values()]
    .filter((followUp) => {
      const was = f.before?.followUps.get(followUp.id);
      return was && was !== followUp && !f.admitted.has(followUp.id);
    })
    .map(({ id, state, position, batch }) => ({ ...keyOf(f), id, state, position, batch }));

const checklistRow = (f: Folded) =>
  f.after.checklist !== f.before?.checklist && (f.before || f.after.checklist.length > 0)
    ? [{ ...keyOf(f), tasks: f.after.checklist }]
    : [];

const diffRows = (f: Folded) =>
  [...f.diffs.values()].map(({ repo, text, workingTree }) => ({
    ...keyOf(f),
    repo,
    text,
    working_tree: workingTree,
  }));

const timelineRows = (f: Folded) =>
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

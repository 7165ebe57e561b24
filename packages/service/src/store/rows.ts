import {
  type Agent,
  type Brief,
  type ChecklistTask,
  type ChildView,
  type FollowUp,
  freshMemory,
  type Memory,
  type Result,
  type Run,
  type Settings,
} from '../domain/agent.ts';
import type { Policy } from '../domain/policy.ts';
import type { Comment, Thread } from '../domain/thread.ts';
import { readAgentTimes } from './agent-columns.ts';
import type { ReadState } from './agent-store.ts';
import { isoTime } from './connection.ts';
import { readFollowUpTimes } from './follow-up-columns.ts';
import { readRunTimes } from './run-columns.ts';
import { type BudgetRow, budgetOf } from './statements/budgets.ts';
import type { RowOf } from './tables.ts';

/** The row of `agent_states`. */
export interface AgentStateRow extends Pick<Agent, 'settings' | 'labels'> {
  memory: StoredMemory;
  result: StoredResult;
  response: string;
  structured_output: unknown;
}

export type AgentBriefRow = RowOf<Brief, never>;

/** The rest of a result is in separate columns. */
type StoredResult = Omit<Result, 'response' | 'structuredOutput'>;

/** What a run said and produced; null in what a run does not have. */
export interface RunResultRow {
  response: string | null;
  structured_output: unknown;
  error: Result['error'];
  trace_id: string | null;
}

/** The stored field `news` is `unseenChildren` in the domain; rows of every version have it under that name. */
type StoredMemory = Omit<Memory, 'unseenChildren'> & { readonly news: readonly string[] };

/**
 * No column constraint guards what is stored as JSON. A missing field (written by an older version, or edited by hand)
 * gets the value of a new row, because every command, and a kill above all, must work with what it loads.
 */
const memoryOf = ({ news, ...stored }: Partial<StoredMemory>): Memory => ({
  ...freshMemory,
  ...stored,
  unseenChildren: listOf(news),
  activated: listOf(stored.activated),
  batch: stored.batch
    ? {
        ...stored.batch,
        preface: stored.batch.preface ?? '',
        followUpIds: listOf(stored.batch.followUpIds),
        ephemeralTaskIds: listOf(stored.batch.ephemeralTaskIds),
      }
    : null,
});

const listOf = (stored: readonly string[] | null | undefined): readonly string[] =>
  Array.isArray(stored) ? stored : [];

/** The tasks of a checklist or a message, each with every field. */
export const tasksOf = (stored: readonly Partial<ChecklistTask>[] | null): ChecklistTask[] =>
  (Array.isArray(stored) ? stored : []).filter((task) => typeof task?.id === 'string').map(taskOf);

const taskOf = (stored: Partial<ChecklistTask>): ChecklistTask => ({
  id: stored.id ?? '',
  subject: stored.subject ?? '',
  description: stored.description ?? '',
  status: stored.status ?? 'TASK_STATUS_PENDING',
  blocks: [...listOf(stored.blocks)],
  blockedBy: [...listOf(stored.blockedBy)],
  activation: stored.activation ?? null,
  persona: stored.persona ?? '',
  dedupKey: stored.dedupKey ?? '',
  ephemeral: stored.ephemeral ?? false,
  ...(stored.note && { note: stored.note }),
});

/** Loaded as JSON, with its times in PostgreSQL's own ISO form; the reader changes the object that was parsed. */
type Loaded<T> = { -readonly [Field in keyof T]: T[Field] };

/** `attachmentIds` is null if it has none. */
export type LoadedFollowUp = Omit<Loaded<FollowUp>, 'attachmentIds'> & { attachmentIds: string[] | null };
export type LoadedRun = Loaded<Run>;

/** An agent as it is loaded for a command. */
export interface LoadedAgentRow {
  agent: Loaded<Omit<Agent, 'memory' | 'result'>> & {
    memory: Partial<StoredMemory> | null;
    result: Partial<StoredResult> | null;
  };
  response: string;
  /** What the newest poll of its home runner said; null when that runner is gone. */
  home_deferral: boolean | null;
  run: LoadedRun | null;
  /** Null: not wanted, as the other parts. */
  queue: LoadedFollowUp[] | null;
  checklist: Partial<ChecklistTask>[] | null;
  children: ChildRow[] | null;
  policies: Policy[] | null;
  budgets: BudgetRow[] | null;
}

/** Made of the object that was parsed, which nobody else has: a copy of this many fields takes longer than all the rest. */
function agentOf({ agent: parsed, response, home_deferral }: LoadedAgentRow): Agent {
  readAgentTimes(parsed);
  const { result } = parsed;
  const agent = parsed as Loaded<Agent>;
  agent.settings ??= {} as Settings;
  agent.memory = memoryOf(parsed.memory ?? {});
  agent.result = {
    ...result,
    error: result?.error ?? null,
    branch: result?.branch ?? '',
    response,
    structuredOutput: undefined,
  };
  agent.deferral = home_deferral ?? agent.deferral;
  return agent;
}

function storedMemory({ unseenChildren, ...memory }: Memory): StoredMemory {
  return { ...memory, news: unseenChildren };
}

const storedResult = ({
  error,
  branch,
  pushed,
  diffs,
  workingTrees,
  plan,
  context,
}: Result): StoredResult => ({
  error,
  branch,
  ...(pushed && { pushed }),
  ...(diffs && { diffs }),
  ...(workingTrees && { workingTrees }),
  ...(plan && { plan }),
  ...(context && { context }),
});

/** What differs of the row of `agent_states`; a column that is left out stays as it is. */
export function changedStateFields(before: Agent | undefined, after: Agent) {
  const { result } = after;
  const hasOutput = before?.result.structuredOutput !== result.structuredOutput;
  return {
    tenant: after.tenant,
    agent: after.id,
    ...(before?.settings !== after.settings && { settings: after.settings }),
    ...(before?.memory !== after.memory && { memory: storedMemory(after.memory) }),
    ...(before?.result !== result && { result: storedResult(result) }),
    ...(before?.result.response !== result.response && { response: result.response }),
    ...(hasOutput && { structured_output: result.structuredOutput, has_output: true }),
    ...(before?.labels !== after.labels && { labels: after.labels }),
  };
}

export const readStateOf = ({ loaded: row }: { readonly loaded: LoadedAgentRow }): ReadState => ({
  state: { agent: agentOf(row), run: row.run && runOf(row.run), followUps: new Map(), checklist: [] },
  parts: {
    ...(row.queue && { queue: row.queue.map(followUpOf) }),
    ...(row.checklist && { checklist: tasksOf(row.checklist) }),
    ...(row.children && { children: row.children.map(childOf) }),
    ...(row.policies && { policies: row.policies }),
    ...(row.budgets && { budgets: row.budgets.map(budgetOf) }),
  },
});

export function runOf(loaded: LoadedRun): Run {
  readRunTimes(loaded);
  return loaded;
}

export function followUpOf(loaded: LoadedFollowUp): FollowUp {
  readFollowUpTimes(loaded);
  const followUp = loaded as Loaded<FollowUp>;
  followUp.tasks = tasksOf(loaded.tasks);
  followUp.attachmentIds = listOf(loaded.attachmentIds);
  return followUp;
}

type CommentRow = RowOf<Comment, never>;

/** A thread with its comments, which came as JSON. */
export interface ThreadRow extends RowOf<Thread, 'comments'> {
  agent: string;
  comments: CommentRow[];
}

export const threadOf = (row: ThreadRow): Thread => ({
  id: row.id,
  repo: row.repo,
  path: row.path,
  line: row.line,
  startLine: row.start_line,
  side: row.side,
  quote: row.quote,
  state: row.state,
  answer: row.answer,
  changeRequest: row.change_request,
  hostId: row.host_id,
  url: row.url,
  openedBy: row.opened_by,
  toldBy: row.told_by,
  createdAt: row.created_at,
  comments: row.comments.map(({ host_id, at, ...comment }) => ({
    ...comment,
    hostId: host_id,
    at: isoTime(at),
  })),
});

interface ChildRow extends RowOf<ChildView, 'path'> {
  path: string;
}

const childOf = (row: ChildRow): ChildView => ({
  ...row,
  since: isoTime(row.since),
  path: row.path.split('/'),
});

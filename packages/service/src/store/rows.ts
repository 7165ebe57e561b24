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
  type Usage,
} from '../domain/agent.ts';
import type { Comment, Thread } from '../domain/thread.ts';
import { mapTimes, type UsageColumns } from './agent-columns.ts';
import type { ReadState } from './agent-store.ts';
import { isoTime } from './connection.ts';
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

export interface RunRow extends RowOf<Run, 'usage'>, UsageColumns {}

/** What a run said and produced; null in what a run does not have. */
export interface RunResultRow {
  response: string | null;
  structured_output: unknown;
  error: Result['error'];
}

export interface FollowUpRow extends RowOf<FollowUp, 'attachmentIds'> {
  /** Null: it has none. */
  attachment_ids: string[] | null;
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

const usageOf = (row: UsageColumns): Usage => ({
  cost: row.cost,
  inputTokens: row.input_tokens,
  cachedInputTokens: row.cached_tokens,
  outputTokens: row.output_tokens,
});

/** An agent as it is loaded for a command. It came as JSON, with its times in PostgreSQL's own ISO form. */
export interface LoadedAgentRow {
  agent: { -readonly [Field in Exclude<keyof Agent, 'memory' | 'result'>]: Agent[Field] } & {
    memory: Partial<StoredMemory> | null;
    result: Partial<StoredResult> | null;
  };
  response: string;
  /** What the newest poll of its home runner said; null when that runner is gone. */
  home_deferral: boolean | null;
  run: RunRow | null;
  /** Null: not wanted, as the other parts. */
  queue: FollowUpRow[] | null;
  checklist: Partial<ChecklistTask>[] | null;
  children: ChildRow[] | null;
}

const isoTimeOrNull = (value: string | null): string | null => value && isoTime(value);

/** Made of the object that was parsed, which nobody else has: a copy of this many fields takes longer than all the rest. */
function agentOf({ agent: parsed, response, home_deferral }: LoadedAgentRow): Agent {
  mapTimes(parsed, isoTimeOrNull);
  const { result } = parsed;
  const agent = parsed as { -readonly [Field in keyof Agent]: Agent[Field] };
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
    ...(row.queue && { queue: row.queue.map(queuedOf) }),
    ...(row.checklist && { checklist: tasksOf(row.checklist) }),
    ...(row.children && { children: row.children.map(childOf) }),
  },
});

export const runOf = (row: RunRow): Run => ({
  number: row.number,
  batch: row.batch,
  state: row.state,
  outcome: row.outcome,
  stop: row.stop,
  runnerId: row.runner_id,
  runner: row.runner,
  startedAt: isoTime(row.started_at),
  endedAt: isoTimeOrNull(row.ended_at),
  goneAt: isoTimeOrNull(row.gone_at),
  reports: row.reports,
  currentAction: row.current_action,
  followUpIds: row.follow_up_ids,
  usage: usageOf(row),
});

export const runRow = (agent: Agent, run: Run) => ({
  tenant: agent.tenant,
  agent: agent.id,
  number: run.number,
  batch: run.batch,
  state: run.state,
  outcome: run.outcome,
  stop: run.stop,
  runner_id: run.runnerId,
  runner: run.runner,
  started_at: run.startedAt,
  ended_at: run.endedAt,
  gone_at: run.goneAt,
  reports: run.reports,
  current_action: run.currentAction,
  follow_up_ids: run.followUpIds,
  cost: run.usage.cost,
  input_tokens: run.usage.inputTokens,
  cached_tokens: run.usage.cachedInputTokens,
  output_tokens: run.usage.outputTokens,
});

export const followUpOf = (row: FollowUpRow): FollowUp => ({
  id: row.id,
  state: row.state,
  position: row.position,
  change: row.change,
  tasks: tasksOf(row.tasks),
  deliverAt: row.deliver_at,
  queuedAt: row.queued_at,
  batch: row.batch,
  steerBatch: row.steer_batch,
  attachmentIds: listOf(row.attachment_ids),
  digest: row.digest,
});

const queuedOf = (row: FollowUpRow): FollowUp =>
  followUpOf({
    ...row,
    deliver_at: isoTimeOrNull(row.deliver_at),
    queued_at: isoTime(row.queued_at),
  });

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

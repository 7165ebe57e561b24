import {
  type AgentBudget,
  type AgentEntry,
  type AgentId,
  type AgentStatus,
  agentPage,
  type ChangeRequest,
  type FollowUp,
  limits,
  type PendingFollowUp,
  type PhaseReason,
  plainText,
  planStepsIn,
  type Run,
  reasonRow,
  type Tenant,
  type TimelineEntry,
} from '@muster/sdk/contract';
import type { Agent, DiffStat, Result } from '../../domain/agent.ts';
import { isAnswered } from '../../domain/batch.ts';
import { waitingReason, wouldRehearse } from '../../domain/scheduling.ts';
import { cutText } from '../../lib/cut-text.ts';
import { listedFields, statusFields } from '../../store/agent-columns.ts';
import { isoTime } from '../../store/connection.ts';
import { type RunResultRow, tasksOf } from '../../store/rows.ts';
import type { ShownRunRow } from '../../store/run-columns.ts';
import type { ShownChangeRequest } from '../../store/statements/change-requests.ts';
import type { FollowUpDetailRow, ShownFollowUpRow } from '../../store/statements/follow-ups.ts';
import type { ListRow } from '../../store/statements/list-agents.ts';
import type { StatusRow } from '../../store/statements/status.ts';
import type { TimelineRow } from '../../store/statements/timeline.ts';
import type { RunnerCapacity } from '../runners/runner-capacity.ts';

/** Rows as the API shows them. */
export function agentIdOf(
  tenant: Tenant,
  row: Pick<StatusRow, 'owner_provider' | 'account' | 'workspace'>,
  path: readonly string[],
): AgentId {
  return {
    tenant: { provider: tenant.provider, org: tenant.org },
    ownerProvider: row.owner_provider,
    account: row.account,
    agent: [...path],
    workspace: row.workspace,
  };
}

export const agentIdOfAgent = (tenant: Tenant, agent: Agent): AgentId =>
  agentIdOf(
    tenant,
    { owner_provider: agent.ownerProvider, account: agent.account, workspace: agent.workspace },
    agent.path,
  );

export const dashboardUrl = (publicUrl: string, id: AgentId): string => `${publicUrl}${agentPage(id)}`;

/** A budget of an agent, as it is shown. */
export type ShownBudget = Omit<AgentBudget, 'agentId'> & {
  readonly isOfAgent: boolean;
};

/** What a view of agents needs beside their rows. */
export interface ViewContext {
  readonly capacity: RunnerCapacity;
  readonly publicUrl: string;
  readonly now: string;
  /** By the id of their agent. */
  readonly changeRequests: ReadonlyMap<string, ChangeRequest[]>;
  readonly budgets: ReadonlyMap<string, readonly ShownBudget[]>;
}

type Waiting = Pick<StatusRow, 'phase' | 'reason' | 'claimable_at'>;

/** The reason of an agent that waits for a runner depends on the runners of now, not of when it began to wait. */
export const waitsForRunner = (row: Waiting, now: string): boolean =>
  row.phase === 'PHASE_PENDING' &&
  (row.reason === 'STARTING' ||
    (reasonRow({ phaseReason: row.reason }).endsAtTime === true && (row.claimable_at ?? now) <= now));

/** When the agent continues by itself. */
function wakesAt(
  row: Waiting & Pick<StatusRow, 'next_deliver_at'>,
  reason: PhaseReason,
  now: string,
): string | null {
  if (row.phase === 'PHASE_PENDING' && reasonRow({ phaseReason: reason }).timeWord)
    return (row.claimable_at ?? now) > now ? row.claimable_at : null;
  const isWaiting = row.phase === 'PHASE_WAITING_FOR_INPUT' || reason === 'CHILDREN';
  return isWaiting ? row.next_deliver_at : null;
}

const iso = (time: string | null): string | null => time && isoTime(time);

/** What a status and a list both show of an agent. It is spread last, because fields after a spread are added slowly. */
function sharedOf(
  row: StatusRow | ListRow,
  { model, persona }: { model: string; persona: string },
  tenant: Tenant,
  { capacity, publicUrl, now, budgets }: ViewContext,
) {
  const agentId = agentIdOf(tenant, row, row.path.split('/'));
  const { pool, backend, home } = row;
  const waiting = { tenant: row.tenant, pool, backend, home, model };
  const reason = waitsForRunner(row, now)
    ? waitingReason(waiting, capacity.runners, capacity.limits(row.tenant, pool))
    : row.reason;
  return {
    agentId,
    phaseReason: reason,
    phaseSince: row.since,
    needsInput: row.needs_input ?? '',
    wakesAt: wakesAt(row, reason, now),
    runCount: String(row.run_count),
    description: row.description,
    persona,
    model,
    rehearsed: row.rehearsed ?? wouldRehearse(waiting, capacity.runners),
    sandboxed: row.sandboxed ?? true,
    repos: row.repos,
    unpushed: row.unpushed && { isSaved: true, ...row.unpushed },
    cost: row.cost,
    treeCost: row.cost + (row.children_cost ?? 0),
    inputTokens: String(row.input_tokens),
    cachedInputTokens: String(row.cached_tokens),
    outputTokens: String(row.output_tokens),
    totalTokens: String(row.input_tokens + row.output_tokens),
    budgets: (budgets.get(row.id) ?? []).map(({ isOfAgent, ...budget }) => ({
      ...budget,
      agentId: isOfAgent ? agentIdOf(tenant, row, budget.name.split('/')) : null,
    })),
    dashboardUrl: dashboardUrl(publicUrl, agentId),
    labels: row.labels,
    ...listedFields(row),
  };
}

/** A record in the catalog, in a status and in a list. */
export const changeRequestOf = (row: ShownChangeRequest, tenant: Tenant): ChangeRequest => ({
  name: row.name,
  integration: row.integration,
  repo: row.repo,
  number: row.number,
  url: row.url,
  title: row.title,
  state: row.state,
  agentId: agentIdOf(tenant, row, row.path.split('/')),
  branch: row.branch,
  base: row.base,
  headSha: row.head_sha,
  checks: row.checks,
  review: row.review,
  rounds: row.rounds,
  paused: row.paused,
  problem: row.told.postProblem ?? row.told.problem ?? '',
  createdAt: row.created_at,
  updatedAt: row.updated_at,
});

export function statusOf(row: StatusRow, tenant: Tenant, context: ViewContext): AgentStatus {
  const { settings, result, run } = row;
  return {
    run: run && {
      runId: String(run.number),
      state: run.state,
      outcome: run.outcome,
      startedAt: iso(run.started_at) ?? '',
      endedAt: iso(run.ended_at),
      runnerId: run.runner,
      account: run.account,
      followUpIds: run.follow_up_ids,
      currentAction: run.current_action,
    },
    expectedOutput: row.expected_output,
    response: row.response,
    structuredOutput: row.structured_output ?? null,
    outputSchema: settings.outputSchema,
    reasoningEffort: settings.reasoningEffort,
    serviceTier: settings.serviceTier,
    fastMode: settings.fastMode,
    tasks: tasksOf(row.tasks),
    plan: planOf(row.plan),
    context: contextOf(result.context),
    followUps: (row.follow_ups ?? []).map(shownFollowUpOf),
    children: (row.child_paths ?? []).map((child) => agentIdOf(tenant, row, child.split('/'))),
    branch: result.branch,
    diffStat: diffStatOf(result.diffs),
    changeRequests: context.changeRequests.get(row.id) ?? [],
    error: result.error,
    timedOut: false,
    ...statusFields(row),
    ...sharedOf(row, settings, tenant, context),
  };
}

/** An empty plan is none: the agent has given it up. */
function planOf(stored: StatusRow['plan']): AgentStatus['plan'] {
  const steps = planStepsIn(stored?.data ?? {});
  return stored && steps.length > 0 ? { steps, updatedAt: isoTime(stored.at) } : null;
}

const contextOf = (context: Result['context']): AgentStatus['context'] =>
  context ? { usedTokens: String(context.usedTokens), windowTokens: String(context.windowTokens) } : null;

/** Over all repositories; null when nothing was measured yet. */
export function diffStatOf(diffs: Result['diffs']): DiffStat | null {
  if (!diffs) return null;
  const sum = { files: 0, insertions: 0, deletions: 0 };
  for (const { files, insertions, deletions } of Object.values(diffs)) {
    sum.files += files;
    sum.insertions += insertions;
    sum.deletions += deletions;
  }
  return sum;
}

const followUpOf = (row: ShownFollowUpRow) => ({
  followUpId: row.id,
  state: row.state,
  description: row.description,
  deliverAt: iso(row.deliver_at),
  queuedAt: iso(row.queued_at) ?? '',
  agent: row.persona ?? '',
  model: row.model ?? '',
  reasoningEffort: row.effort ?? '',
  serviceTier: row.tier ?? '',
  fastMode: row.fast_mode,
  outputSchema: row.output_schema ?? '',
  steer: row.steer,
  attachmentIds: row.attachment_ids ?? [],
});

function shownFollowUpOf(row: ShownFollowUpRow & { schema_left_out: boolean }): PendingFollowUp {
  const { text, truncated } = cutText(row.description, limits.listedTextBytes);
  return { ...followUpOf(row), description: text, truncated: truncated || row.schema_left_out };
}

export const queuedFollowUpOf = (row: ShownFollowUpRow): PendingFollowUp => ({
  ...followUpOf(row),
  truncated: false,
});

export function answeredFollowUpOf(row: FollowUpDetailRow, run: Run | null): FollowUp {
  const { state, batch, phase, reason, current_batch: currentBatch } = row;
  const answered = isAnswered({ state, batch, phase, reason, currentBatch });
  return {
    ...followUpOf(row),
    tasks: tasksOf(row.tasks),
    run,
    answered,
    answer: answered ? (run?.response ?? '') : '',
  };
}

export const entryOf = (row: ListRow, tenant: Tenant, context: ViewContext): AgentEntry => ({
  childCount: row.child_count,
  news: plainText(row.needs_input || row.response, limits.newsLength),
  currentAction: plainText(row.current_action, limits.newsLength),
  taskCount: row.task_count,
  tasksDone: row.tasks_done,
  sequence: String(row.sequence),
  queued: row.queued + row.deferred,
  error: row.error,
  seen: String(row.seen),
  pinned: row.is_pinned,
  changeRequests: context.changeRequests.get(row.id) ?? [],
  ...sharedOf(row, row, tenant, context),
});

export const timelineEntryOf = (row: TimelineRow): TimelineEntry => ({
  sequence: String(row.sequence),
  at: row.at,
  runId: String(row.run),
  type: row.type,
  followUpId: row.follow_up_id,
  text: row.text,
  data: row.data,
});

export const runOf = (row: ShownRunRow & RunResultRow): Run => ({
  runId: String(row.number),
  state: row.state,
  outcome: row.outcome,
  startedAt: row.started_at,
  endedAt: row.ended_at,
  runnerId: row.runner,
  account: row.account,
  followUpIds: row.follow_up_ids,
  batch: String(row.batch),
  cost: row.cost,
  inputTokens: String(row.input_tokens),
  cachedInputTokens: String(row.cached_tokens),
  outputTokens: String(row.output_tokens),
  response: row.response ?? '',
  structuredOutput: row.structured_output ?? null,
  error: row.error,
  traceId: row.trace_id ?? '',
  truncated: false,
});

export function listedRunOf(row: ShownRunRow & RunResultRow & { output_left_out: boolean }): Run {
  const { text, truncated } = cutText(row.response ?? '', limits.listedTextBytes);
  return { ...runOf(row), response: text, truncated: truncated || row.output_left_out };
}

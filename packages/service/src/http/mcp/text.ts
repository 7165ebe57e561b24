import {
  type AgentEntry,
  type AgentId,
  type AgentIdInput,
  type AgentStatus,
  budgetText,
  type ChangeRequest,
  changeRequestNotes,
  contextText,
  type FollowUp,
  isOpenTask,
  needsAttention,
  noRunnerText,
  planSummary,
  providerName,
  type Run,
  reasonRow,
  type Task,
  taskMarks,
  unpushedText,
  usd,
} from '@muster/sdk/contract';
import type { Principal } from '../../control/access/principal.ts';
import { accountScope } from '../../control/agents/identify.ts';
import { invalidField, unlessRefused } from '../errors.ts';

/** How tools name agents, and what they return about them as text and as data. */

const ownPath = (caller: Principal): readonly string[] => caller.agent?.path ?? [];

export const ownId = (caller: Principal): AgentIdInput => idBelow(caller, []);

/** The agent with a name, a path from the caller (`api/tests`), or a path from the root, as messages name it. */
export function childId(caller: Principal, name: string): AgentIdInput {
  const own = ownPath(caller);
  const path = name.split('/');
  const isFromRoot = path.length > own.length && own.every((element, i) => path[i] === element);
  return idBelow(caller, isFromRoot ? path.slice(own.length) : path);
}

const idBelow = ({ tenant, ownerProvider, account, agent }: Principal, rest: string[]): AgentIdInput => ({
  tenant: { provider: tenant.provider, org: tenant.org },
  ownerProvider,
  account,
  workspace: agent?.workspace ?? '',
  agent: [...(agent?.path ?? []), ...rest],
});

export const nameOfChild = (caller: Principal, path: readonly string[]): string =>
  path.slice(ownPath(caller).length).join('/');

/** The agent that a user means by `fix-login/tests`, or `web:fix-login/tests` with the workspace before it. */
export function namedId(
  caller: Principal,
  name: string,
  { workspace, account }: { workspace?: string | undefined; account?: string | undefined },
): AgentIdInput {
  const [, before, path = ''] = /^(?:([^:/]*):)?(.*)$/s.exec(name) ?? [];
  if (before && workspace && before !== workspace)
    throw invalidField('workspace', `differs from the workspace in "${name}"; pass only one of the two`);
  const owner = unlessRefused(accountScope(account, caller));
  if (owner === null || owner.account === null) throw invalidField('account', 'must be one account');
  return {
    ownerProvider: owner.ownerProvider,
    account: owner.account,
    workspace: before || workspace,
    agent: path.split('/').filter(Boolean),
  };
}

const responseLength = 10_000;
const detailLength = 2_000;

type Line = string | false | null | undefined;
const lines = (...all: Line[]): string => all.filter(Boolean).join('\n');

/** A title with lines below it; nothing without lines. */
export const section = (title: string, items: readonly string[]): string =>
  items.length === 0 ? '' : [title, ...items].join('\n');

export const truncate = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length)}… (truncated: ${text.length} characters in total)`;

export function checklistText(tasks: readonly Task[]): string {
  const listed = tasks.filter(({ status }) => status !== 'TASK_STATUS_DELETED');
  return (
    section('id and subject; [ ] pending, [~] in progress, [x] completed', listed.map(taskText)) ||
    'The checklist is empty.'
  );
}

export function taskText(task: Task): string {
  const pattern = task.activation?.filesModified?.pattern;
  const notes = [
    task.blockedBy.length > 0 && `blocked by ${task.blockedBy.join(', ')}`,
    pattern !== undefined && `active once you push a change to ${pattern || 'a file'}`,
  ].filter(Boolean);
  return lines(
    `- [${taskMarks[task.status]}] ${task.id}: ${task.subject}${notes.length > 0 ? ` (${notes.join('; ')})` : ''}`,
    task.description !== '' && `  ${truncate(task.description, detailLength)}`,
  );
}

export const phaseText = ({ phase, phaseReason }: Pick<AgentStatus, 'phase' | 'phaseReason'>): string =>
  `${phase.slice('PHASE_'.length)} (${phaseReason})`;

/** The name by which users' tools take an agent. */
export const nameOfAgent = ({ workspace, agent }: Pick<AgentId, 'workspace' | 'agent'>): string =>
  `${workspace}:${agent.join('/')}`;

/** The owner of an agent, unless it is the caller. */
const otherAccount = (caller: Principal, { ownerProvider, account }: AgentId): string | undefined =>
  ownerProvider === caller.ownerProvider && account === caller.account
    ? undefined
    : `${providerName(ownerProvider)}/${account}`;

/** What `needsInput` of the agent is. */
const labelOf = (agent: Pick<AgentEntry, 'phase' | 'phaseReason'>): string =>
  reasonRow(agent).needsInput === 'fix' ? 'Blocked' : 'Question';

/** The status of an agent in one line. */
export function statusLine(
  name: string,
  agent: Pick<AgentEntry, 'phase' | 'phaseReason' | 'needsInput'>,
): string {
  const input =
    agent.needsInput && `, ${labelOf(agent).toLowerCase()}: ${truncate(agent.needsInput, detailLength)}`;
  return `- ${name}: ${phaseText(agent)}${input}`;
}

const countText = (count: number, one: string, more: string): string =>
  `${count} ${count === 1 ? one : more}`;

/** `team=web, tier=1` */
export const labelsText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .sort()
    .join(', ');

/** An agent in a list. */
export function entryLine(caller: Principal, entry: AgentEntry): string {
  const owner = otherAccount(caller, entry.agentId);
  const notes = [
    owner && `of ${owner}`,
    entry.childCount > 0 && countText(entry.childCount, 'child', 'children'),
    `$${entry.treeCost.toFixed(2)}`,
    labelsText(entry.labels),
  ].filter(Boolean);
  return `${statusLine(nameOfAgent(entry.agentId), entry)} [${notes.join(', ')}]`;
}

export const identityData = (caller: Principal, agentId: AgentId): Record<string, unknown> => ({
  agent: agentId.agent.join('/'),
  workspace: agentId.workspace,
  account: otherAccount(caller, agentId),
});

const pick = <T, K extends keyof T>(value: T, ...keys: K[]) =>
  Object.fromEntries(keys.map((key) => [key, value[key]])) as Pick<T, K>;

export const entryData = (caller: Principal, entry: AgentEntry): Record<string, unknown> => ({
  ...identityData(caller, entry.agentId),
  ...pick(entry, 'phase', 'model', 'description', 'queued', 'error', 'unpushed', 'checkpointAt', 'labels'),
  reason: entry.phaseReason,
  since: entry.phaseSince,
  question: entry.needsInput,
  children: entry.childCount,
  cost: entry.treeCost,
});

/** What an agent's parent, or a user who waited for the agent, needs to know. */
export function summaryText(name: string, status: AgentStatus): string {
  const { needsInput, response, structuredOutput, error, branch, run, tasks, checkpointAt } = status;
  const unpushed = unpushedText(status.unpushed);
  return lines(
    `${name}: ${phaseText(status)}`,
    needsInput && `${labelOf(status)}: ${needsInput}`,
    status.phaseReason === 'NO_RUNNER' && noRunnerText(status),
    error && `Error: ${error.code}: ${error.message}`,
    response && `Response: ${truncate(response, responseLength)}`,
    structuredOutput !== null && `Structured output: ${JSON.stringify(structuredOutput)}`,
    branch && `Branch: ${branch}`,
    unpushed &&
      `Unpushed: ${unpushed}; ${checkpointAt ? `last ${status.unpushed?.isSaved === false ? 'partly ' : ''}saved at ${checkpointAt}` : 'not saved'}`,
    !needsAttention(status.phase) && run?.currentAction && `Current action: ${run.currentAction}`,
    section('Change requests:', status.changeRequests.map(changeRequestText)),
    section('Open tasks:', tasks.filter(isOpenTask).map(taskText)),
  );
}

export const changeRequestText = (request: ChangeRequest): string =>
  `- ${request.name}: ${request.repo}#${request.number}, ${changeRequestNotes(request)}: ${request.url}`;

/** The same, with the agent that it belongs to. */
export function listedRequestText(caller: Principal, request: ChangeRequest): string {
  const { agentId } = request;
  const owner = agentId && otherAccount(caller, agentId);
  return `${changeRequestText(request)}${agentId ? ` [agent ${nameOfAgent(agentId)}${owner ? ` of ${owner}` : ''}]` : ''}`;
}

/** The summary as data. `identity` names the agent. */
export const summaryData = (identity: Record<string, unknown>, status: AgentStatus) => ({
  ...identity,
  ...pick(
    status,
    'phase',
    'structuredOutput',
    'error',
    'branch',
    'unpushed',
    'checkpointAt',
    'changeRequests',
  ),
  reason: status.phaseReason,
  question: status.needsInput,
  response: truncate(status.response, responseLength),
  openTasks: status.tasks.filter(isOpenTask).map(({ id, subject }) => ({ id, subject })),
});

export function statusText(status: AgentStatus): string {
  const { diffStat, followUps, children, labels, wakesAt } = status;
  return lines(
    summaryText(nameOfAgent(status.agentId), status),
    diffStat &&
      `Changes: ${countText(diffStat.files, 'file', 'files')}, +${diffStat.insertions} -${diffStat.deletions}`,
    wakesAt && `Continues at ${wakesAt}`,
    status.plan && `Plan: ${planSummary(status.plan.steps)}`,
    status.context && `Context: ${contextText(status.context)}`,
    section('Queued messages:', queueLines(followUps)),
    children.length > 0 && `Children: ${children.map(nameOfAgent).join(', ')}`,
    Object.keys(labels).length > 0 && `Labels: ${labelsText(labels)}`,
    `Persona ${status.persona}, model ${status.model}, run ${status.runCount}. Cost: $${status.cost.toFixed(2)}; with the agents below it: $${status.treeCost.toFixed(2)}.`,
    `Dashboard: ${status.dashboardUrl}`,
  );
}

export const statusData = (caller: Principal, status: AgentStatus): Record<string, unknown> => ({
  ...summaryData(identityData(caller, status.agentId), status),
  ...pick(
    status,
    'wakesAt',
    'persona',
    'model',
    'labels',
    'diffStat',
    'plan',
    'context',
    'cost',
    'treeCost',
    'dashboardUrl',
  ),
  since: status.phaseSince,
  run: status.runCount,
  queue: status.followUps.map(({ followUpId, description, deliverAt, truncated }) => ({
    id: followUpId,
    text: description,
    truncated,
    deliverAt,
  })),
  children: status.children.map(nameOfAgent),
});

export const ownStatusText = (status: AgentStatus): string =>
  lines(
    `You are ${status.agentId.agent.join('/')}, in run ${status.runCount}: ${phaseText(status)}.`,
    `Persona ${status.persona}, model ${status.model}, workspace ${status.agentId.workspace}.`,
    status.branch && `Your branch: ${status.branch}`,
    `Open tasks: ${status.tasks.filter(isOpenTask).length} of ${status.tasks.length}. Queued messages: ${status.followUps.length}. Children: ${status.children.length}.`,
    `Cost so far: $${status.cost.toFixed(4)}; with the agents below you: $${status.treeCost.toFixed(4)}.`,
  );

export const budgetLine = (budget: AgentStatus['budgets'][number]): string => {
  const { name, agentId, spentUsd, reservedUsd, amountUsd } = budget;
  const left = usd(Math.max(0, amountUsd - spentUsd - reservedUsd));
  return `${agentId ? `Of the agent ${name}` : name}: ${left} left; ${budgetText(budget)}.`;
};

export const queueLines = (followUps: AgentStatus['followUps']): string[] =>
  followUps.map((followUp) => `- ${followUpText(followUp)}`);

export function followUpText({
  description,
  deliverAt,
  truncated,
}: AgentStatus['followUps'][number]): string {
  const when = deliverAt === null ? '' : `(scheduled for ${deliverAt}) `;
  // A status has only the beginning of a long text, so its length is unknown.
  const text = truncated
    ? `${description.slice(0, detailLength)}… (truncated)`
    : truncate(description, detailLength);
  return `${when}${text || '(no text: images, tasks or settings)'}`;
}

export const runText = (run: Run): string =>
  lines(
    `Run ${run.runId}: ${run.outcome || run.state}, from ${run.startedAt}${run.endedAt ? ` to ${run.endedAt}` : ''}, $${run.cost.toFixed(2)}`,
    run.followUpIds.length > 0 && `Messages: ${run.followUpIds.join(', ')}`,
    run.error && `Error: ${run.error.code}: ${run.error.message}`,
    run.response &&
      `Response: ${run.response}${run.truncated ? `… (truncated: pass run ${run.runId} to read all)` : ''}`,
    run.structuredOutput !== null && `Structured output: ${JSON.stringify(run.structuredOutput)}`,
  );

export function messageText(message: FollowUp): string {
  const { followUpId, state, deliverAt, description, attachmentIds, tasks, run, answered, answer } = message;
  return lines(
    `${followUpId}: ${state}${state === 'DEFERRED' ? ` until ${deliverAt}` : ''}${run ? `, run ${run.runId}` : ''}, ${answered ? 'answered' : 'not answered yet'}`,
    description && `Text: ${description}`,
    attachmentIds.length > 0 && `Images: ${attachmentIds.join(', ')}`,
    section('Tasks:', tasks.map(taskText)),
    answer && `Answer: ${answer}`,
    run?.error && `Error: ${run.error.code}: ${run.error.message}`,
  );
}

import type { AgentEntry, AgentStatus, FollowUp, Phase, Run } from '@muster/sdk/contract';
import type { Principal } from '../../control/principal.ts';
import { nameOfAgent, otherAccount } from './named-agent.ts';
import { childData, childLine, childText, followUpText, taskText } from './wording.ts';

/** Agents in words for a user's model: what a parent is told of a child, and what only their owner asks about. */

export const shortPhases = [
  'pending',
  'running',
  'waiting_for_input',
  'completed',
  'failed',
  'canceled',
] as const;
export const phaseOf = (short: (typeof shortPhases)[number]): Phase =>
  `PHASE_${short.toUpperCase() as Uppercase<typeof short>}`;

const counted = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`;

/** `team=web, tier=1`; nothing where there are none. */
export const labelsText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .sort()
    .join(', ');

export function agentLine(caller: Principal, entry: AgentEntry): string {
  const owner = otherAccount(caller, entry.agentId);
  const notes = [
    owner && `of ${owner}`,
    entry.childCount > 0 && counted(entry.childCount, 'child', 'children'),
    `$${entry.treeCost.toFixed(2)}`,
    labelsText(entry.labels),
  ].filter(Boolean);
  return `${childLine(nameOfAgent(entry.agentId), entry)} [${notes.join(', ')}]`;
}

export const entryData = (caller: Principal, entry: AgentEntry): Record<string, unknown> => ({
  agent: entry.agentId.agent.join('/'),
  workspace: entry.agentId.workspace,
  account: otherAccount(caller, entry.agentId),
  phase: entry.phase,
  reason: entry.phaseReason,
  since: entry.phaseSince,
  question: entry.needsInput,
  model: entry.model,
  children: entry.childCount,
  cost: entry.treeCost,
  description: entry.description,
  queued: entry.queued,
  error: entry.error,
  unpushed: entry.unpushed,
  checkpointAt: entry.checkpointAt,
  labels: entry.labels,
});

/** How an agent stands, as far as one needs to know who waited for it. */
export const newsText = (status: AgentStatus): string => childText(nameOfAgent(status.agentId), status);

export function newsData(caller: Principal, status: AgentStatus): Record<string, unknown> {
  const { child: _, ...data } = childData('', status);
  return {
    agent: status.agentId.agent.join('/'),
    workspace: status.agentId.workspace,
    account: otherAccount(caller, status.agentId),
    ...data,
  };
}

export function statusText(status: AgentStatus): string {
  const { diffStat, followUps, children, persona, model, runCount } = status;
  return [
    newsText(status),
    diffStat &&
      `It changed ${counted(diffStat.files, 'file', 'files')}: +${diffStat.insertions} -${diffStat.deletions}`,
    status.wakesAt !== null && `It goes on at ${status.wakesAt}`,
    followUps.length > 0 &&
      `Messages that wait:\n${followUps.map((each) => `- ${followUpText(each)}`).join('\n')}`,
    children.length > 0 && `Its children: ${children.map(nameOfAgent).join(', ')}`,
    Object.keys(status.labels).length > 0 && `Its labels: ${labelsText(status.labels)}`,
    `Persona ${persona}, model ${model}, run ${runCount}. Cost: $${status.cost.toFixed(2)}, with those below it $${status.treeCost.toFixed(2)}.`,
    `Dashboard: ${status.dashboardUrl}`,
  ]
    .filter(Boolean)
    .join('\n');
}

export const statusData = (caller: Principal, status: AgentStatus): Record<string, unknown> => ({
  ...newsData(caller, status),
  since: status.phaseSince,
  wakesAt: status.wakesAt,
  run: status.runCount,
  persona: status.persona,
  model: status.model,
  labels: status.labels,
  queue: status.followUps.map(({ followUpId, description, deliverAt, truncated }) => ({
    id: followUpId,
    text: description,
    truncated,
    deliverAt,
  })),
  children: status.children.map(nameOfAgent),
  diffStat: status.diffStat,
  cost: status.cost,
  treeCost: status.treeCost,
  dashboardUrl: status.dashboardUrl,
});

/** A run and what came of it. A list cuts a long answer. */
export function runText(run: Run): string {
  return [
    `Run ${run.runId}: ${run.outcome || run.state}, from ${run.startedAt}${run.endedAt ? ` to ${run.endedAt}` : ''}, $${run.cost.toFixed(2)}`,
    run.followUpIds.length > 0 && `Its messages: ${run.followUpIds.join(', ')}`,
    run.error && `It failed: ${run.error.code}: ${run.error.message}`,
    run.response &&
      `It said: ${run.response}${run.truncated ? `… (cut: name run ${run.runId} to read all)` : ''}`,
    run.structuredOutput !== null && `Its structured output: ${JSON.stringify(run.structuredOutput)}`,
  ]
    .filter(Boolean)
    .join('\n');
}

export function messageText(message: FollowUp): string {
  const { followUpId, state, deliverAt, description, tasks, run, answered, answer } = message;
  return [
    `${followUpId}: ${state}${state === 'DEFERRED' ? ` until ${deliverAt}` : ''}${run ? `, run ${run.runId}` : ''}, ${answered ? 'answered' : 'not answered yet'}`,
    description && `Its text: ${description}`,
    tasks.length > 0 && `Its tasks:\n${tasks.map(taskText).join('\n')}`,
    answer && `The answer: ${answer}`,
    run?.error && `The run failed: ${run.error.code}: ${run.error.message}`,
  ]
    .filter(Boolean)
    .join('\n');
}

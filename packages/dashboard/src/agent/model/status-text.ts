import type { AgentId, AgentStatus, Caller, Run, RunOutcome, RunState } from '@muster/sdk';
import { clock, noRunnerText, reasonRow } from '@muster/sdk/contract';
import { plural } from '../../parts/model/text.ts';

type StatusFields = Pick<
  AgentStatus,
  'phase' | 'phaseReason' | 'needsInput' | 'tasks' | 'error' | 'model' | 'backend' | 'pool' | 'wakesAt'
>;

const needsTexts = {
  'a person': 'waiting for you',
  'a runner': 'needs a runner',
  nothing: 'continues automatically',
} as const;

/** What the agent needs to continue; empty while it works, after it ended, and where it only can go on. */
export function needsText(status: StatusFields & Pick<AgentStatus, 'agentId'>, isOwn: boolean): string {
  const { needs } = reasonRow(status);
  if (!needs || status.phaseReason === 'RESTING') return '';
  if (status.phaseReason === 'QUESTION' && isOwn) return '';
  // The head says when it continues.
  if (needs === 'nothing' && status.wakesAt !== null) return '';
  return needs === 'a person' && !isOwn ? `waiting for ${status.agentId.account}` : needsTexts[needs];
}

/** Why a person can't command an agent, and whom to ask. */
export function readOnlyText({ account }: AgentId, role: Caller['role']): string {
  if (role === 'share') return 'Read-only access.';
  return role === 'member'
    ? `${account} owns this agent. Ask ${account} to answer or change it.`
    : `Your key can only read agents. Ask ${account}, who owns this agent, to answer or change it.`;
}

/** Why the agent has its status, and what to do about it. */
export function explanationOf(status: StatusFields): string {
  const { advice, ifError = advice } = reasonRow(status);
  const { wakesAt, model, needsInput } = status;
  const error = status.error?.message;
  const facts = {
    at: wakesAt ? ` at ${clock(wakesAt)}` : '',
    model,
    error: error ?? '',
    tasks: plural(openTasks(status), 'open task'),
    fix: advice.startsWith('{fix}') ? needsInput : needsInput.replace(/^The /, 'the '),
    noRunner: noRunnerText(status),
  };
  return (error ? ifError : advice).replace(/\{(\w+)\}/g, (_, name: keyof typeof facts) => facts[name]);
}

const openTasks = ({ tasks }: Pick<StatusFields, 'tasks'>): number =>
  tasks.filter(({ status }) => /PENDING|IN_PROGRESS/.test(status)).length;

const stateTexts: Readonly<Record<Exclude<RunState, 'ENDED'>, string>> = {
  STARTING: 'starting',
  RUNNING: 'working',
  STOPPING: 'stopping',
};
const outcomeTexts: Readonly<Record<RunOutcome, string>> = {
  COMPLETED: 'completed',
  INTERRUPTED: 'interrupted',
  KILLED: 'killed',
  FAILED: 'failed',
  LOST: 'lost: runner disconnected',
  PARKED: 'paused',
  HANDED_BACK: 'handed back by runner',
};

export const isLiveRun = (run: Pick<Run, 'state'> | null): boolean => run !== null && run.state !== 'ENDED';

/** An outcome that this page does not know is shown as it is: the service may be newer. */
export const outcomeText = (outcome: string): string =>
  outcomeTexts[outcome as RunOutcome] ?? outcome.replaceAll('_', ' ').toLowerCase();

export function runText({ state, outcome }: Pick<Run, 'state' | 'outcome'>): string {
  if (state !== 'ENDED') return stateTexts[state];
  return outcome === '' ? 'ended' : outcomeText(outcome);
}

/** `2nd attempt of run 4`; empty for a first attempt. The number is 0 if its timeline entry was removed. */
export function attemptText({ runId, batch }: Pick<Run, 'runId' | 'batch'>, attempt: number): string {
  if (runId === batch) return '';
  return attempt > 1 ? `${ordinal(attempt)} attempt of run ${batch}` : `retry of run ${batch}`;
}

export function ordinal(count: number): string {
  const isTeen = count % 100 >= 11 && count % 100 <= 13;
  const ending = isTeen ? 'th' : (['th', 'st', 'nd', 'rd'][count % 10] ?? 'th');
  return `${count}${ending}`;
}

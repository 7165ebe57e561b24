import { isTerminal } from '@muster/sdk/contract';
import { type FollowUp, isUndelivered } from '../../packages/service/src/domain/agent.ts';
import type { AgentCommand } from '../../packages/service/src/domain/decide.ts';
import type { Decision } from '../../packages/service/src/domain/decision.ts';
import { type AgentHistory, type Histories, inState } from './history.ts';
import { holds } from './timeline-audit.ts';

export interface Step {
  readonly before: AgentHistory;
  readonly command: AgentCommand;
  readonly decision: Decision<unknown>;
  readonly after: AgentHistory;
  readonly all: Histories;
  readonly now: string;
}

const ids = (history: AgentHistory, state: 'QUEUED' | 'DEFERRED'): string =>
  inState(history, state)
    .sort((a, b) => a.position - b.position || (a.id < b.id ? -1 : 1))
    .map((f) => f.id)
    .join();

/** What must hold of one command and its decision. */
export function checkStep(step: Step): void {
  const { command, decision, before, all } = step;
  const changes = 'refused' in decision ? [] : decision.changes;
  for (const { after } of changes) {
    const { agent } = after;
    const isOwn = agent.id === before.agent.id || agent.id === before.agent.parent;
    const isBelow = command.type === 'kill' && agent.ancestors.includes(before.agent.id);
    holds(isOwn || isBelow, 'Reach', () => `${command.type} changed ${agent.path.join('/')} too`);
  }
  checkBlocked(step);
  checkUnpushed(step);
  switch (command.type) {
    case 'retry':
      return checkRetry(step, changes.length > 0);
    case 'resume':
      return checkResume(step, changes.length > 0);
    case 'reopen':
      return checkReopen(step, changes.length > 0);
    case 'queue':
      return checkQueue(step, changes.length > 0);
    case 'order':
      return checkOrder(step);
    case 'clear':
      holds(
        ids(step.before, 'DEFERRED') === ids(step.after, 'DEFERRED'),
        'ClearSparesDeferred',
        () => 'clear',
      );
      return holds(
        ids(step.after, 'QUEUED') === '',
        'NeverLost',
        () => `clear left ${ids(step.after, 'QUEUED')}`,
      );
    case 'stop':
      return checkStop(step, changes.length > 0);
    case 'report':
      return checkReport(step, changes.length > 0);
    case 'ask':
    case 'finish':
    case 'fail':
      return checkDeclaration(step, changes.length > 0);
    case 'claim':
      return checkClaim(step, changes.length > 0);
    case 'lose': {
      const run = before.runs.at(-1);
      const isCurrent = run?.number === command.runId && run.goneAt === null;
      holds(
        isCurrent === changes.length > 0,
        'FencedWrites',
        () => `lose ${command.runId} of ${run?.number}`,
      );
      const after = step.after.runs.at(-1);
      return holds(
        !isCurrent || after?.goneAt !== null,
        'Quiesces',
        () => `lost run ${run?.number} was not ended`,
      );
    }
    case 'due': {
      const late = inState(step.after, 'DEFERRED').filter((f) => (f.deliverAt ?? '') <= step.now);
      return holds(late.length === 0, 'NotBefore', () => `${late.map((f) => f.id)} were due and stayed`);
    }
    case 'label':
      return checkLabel(step);
    case 'kill': {
      const tree = [...all.values()].filter(
        ({ agent }) => agent.id === before.agent.id || agent.ancestors.includes(before.agent.id),
      );
      const left = tree.filter(({ agent }) => !isTerminal(agent.phase));
      return holds(
        left.length === 0,
        'KillReachesAll',
        () => `${left.map((h) => h.agent.path.join('/'))} live`,
      );
    }
    default:
      return;
  }
}

/** A BLOCKED agent keeps its batch and its queue until a message, a retry or a kill. */
function checkBlocked({ before, after, command, decision }: Step): void {
  if (before.agent.reason !== 'BLOCKED' || 'refused' in decision) return;
  const { phase, reason, memory } = after.agent;
  const wrong = () => `${command.type} left ${phase}/${reason} with batch ${memory.batch?.id}`;
  const kept = before.agent.memory.batch;
  const isMessage =
    (command.type === 'queue' && decision.changes.length > 0 && command.deliverAt === null) ||
    (command.type === 'due' && decision.changes.length > 0);
  if (command.type === 'kill') return holds(phase === 'PHASE_CANCELED', 'BlockedKeeps', wrong);
  if (command.type === 'retry' || isMessage) {
    holds(phase === 'PHASE_PENDING', 'BlockedKeeps', wrong);
    const isAbandoned = command.type === 'queue' && command.preempt;
    return holds(isAbandoned ? memory.batch === null : memory.batch === kept, 'BlockedKeeps', wrong);
  }
  holds(reason === 'BLOCKED' && memory.batch?.id === kept?.id, 'BlockedKeeps', wrong);
  const mayTake = ['clear', 'remove', 'queue', 'order'].includes(command.type);
  holds(mayTake || ids(before, 'QUEUED') === ids(after, 'QUEUED'), 'BlockedKeeps', wrong);
}

function checkRetry({ before, after, decision, now }: Step, isChanged: boolean): void {
  const { reason, claimableAt } = before.agent;
  const isDelayed = reason === 'RETRYING' || reason === 'PROVIDER_LIMIT';
  const mayRetry = reason === 'BLOCKED' || isDelayed;
  holds('refused' in decision === !mayRetry, 'BlockedKeeps', () => `retry of an agent that is ${reason}`);
  const isWaiting = reason === 'BLOCKED' || (isDelayed && (claimableAt ?? '') > now);
  holds(isChanged === isWaiting, 'BlockedKeeps', () => `retry of ${reason}, claimable ${claimableAt}`);
  if (isChanged)
    holds((after.agent.claimableAt ?? now) <= now, 'BlockedKeeps', () => 'it is not claimable after a retry');
}

/** Only the delay ends, and only if what the agent waits for is there. */
function checkResume({ before, after, command, now }: Step, isChanged: boolean): void {
  if (command.type !== 'resume') return;
  const { reason, claimableAt, memory } = before.agent;
  const isDelayed = (claimableAt ?? now) > now;
  const isReached = reason === 'RETRYING' && command.reached.includes(memory.awaits ?? '');
  const provider = memory.limitAccount?.split('/')[0];
  const hasOther =
    reason === 'PROVIDER_LIMIT' &&
    command.accounts.some((name) => name.startsWith(`${provider}/`) && name !== memory.limitAccount);
  holds(
    isChanged === (isDelayed && (isReached || hasOther)),
    'NotBefore',
    () => `resume of ${reason}, which awaits ${memory.awaits} or another account than ${memory.limitAccount}`,
  );
  if (!isChanged) return;
  const { batch } = after.agent.memory;
  holds(after.agent.claimableAt === now && batch === memory.batch, 'NotBefore', () => 'resume changed more');
}

function checkReopen({ before, after, decision, all }: Step, isChanged: boolean): void {
  const { phase, parent } = before.agent;
  const above = parent ? all.get(parent)?.agent.phase : undefined;
  const mayReopen =
    (phase === 'PHASE_COMPLETED' || phase === 'PHASE_FAILED') && !(above && isTerminal(above));
  holds(isChanged === mayReopen, 'KillIsFinal', () => `reopen of ${phase} below ${above}`);
  holds(
    'refused' in decision === (isTerminal(phase) && !mayReopen),
    'KillIsFinal',
    () => `reopen of ${phase}`,
  );
  if (!isChanged) return;
  const { phase: now, reason, endedAt, result, queued } = after.agent;
  const isOpen = now === 'PHASE_WAITING_FOR_INPUT' && reason === 'RESTING' && endedAt === null;
  holds(isOpen && result.error === null && queued === 0, 'KillIsFinal', () => `reopened as ${now}/${reason}`);
}

/** Another order, if anything: messages keep all but their positions, and those offered to a live turn keep these, too. */
function checkOrder({ before, after, decision }: Step): void {
  const isRefused = 'refused' in decision;
  const { phase, memory } = before.agent;
  for (const message of before.followUps.values()) {
    const now = after.followUps.get(message.id);
    const isOffered = phase === 'PHASE_RUNNING' && message.steerBatch === memory.batch?.id;
    const mayMove = message.state === 'QUEUED' && !isRefused && !isOffered;
    const isSame = JSON.stringify({ ...now, position: 0 }) === JSON.stringify({ ...message, position: 0 });
    holds(
      isSame && (mayMove || now?.position === message.position),
      'NeverLost',
      () => `order changed ${message.id}`,
    );
  }
}

/** The id of a removed message, and of a cleared one of a live agent, may be used again. */
const isFree = ({ state }: FollowUp, { agent }: AgentHistory): boolean =>
  state === 'REMOVED' || (state === 'CLEARED' && !isTerminal(agent.phase));

function checkQueue({ before, after, command, decision, now }: Step, isChanged: boolean): void {
  if (command.type !== 'queue') return;
  const known = before.followUps.get(command.followUpId);
  const isSame = known?.digest === command.digest;
  if (known && !isFree(known, before) && (isSame || !command.replace || !isUndelivered(known))) {
    holds(!isChanged, 'Replay', () => `${command.followUpId} was known and changed something`);
    return holds(
      'refused' in decision === !isSame,
      'Replay',
      () => `${command.followUpId} had another reply`,
    );
  }
  if ('refused' in decision) return holds(!isChanged, 'Replay', () => 'a refusal changed something');
  holds(
    after.followUps.has(command.followUpId),
    'AckedIsDurable',
    () => `${command.followUpId} is not there`,
  );
  const admitted = after.followUps.get(command.followUpId);
  holds(
    admitted?.digest === command.digest,
    'AckedIsDurable',
    () => `${command.followUpId} has other content`,
  );
  holds(
    command.deliverAt !== null || ids(after, 'QUEUED').endsWith(command.followUpId),
    'InOrder',
    () => `${command.followUpId} is not last of ${ids(after, 'QUEUED')}`,
  );
  if (!command.preempt) return;
  holds(ids(after, 'QUEUED') === command.followUpId, 'PreemptAtomic', () => `queued ${ids(after, 'QUEUED')}`);
  holds(ids(before, 'DEFERRED') === ids(after, 'DEFERRED'), 'ClearSparesDeferred', () => 'preempt');
  const [was, is] = [before.runs.at(-1), after.runs.at(-1)];
  holds(was?.state !== 'RUNNING' || is?.state === 'STOPPING', 'PreemptAtomic', () => `run is ${is?.state}`);
  holds(was?.state !== 'STARTING' || is?.state === 'STARTING', 'PreemptAtomic', () => `run is ${is?.state}`);
  const { batch } = after.agent.memory;
  holds(is?.state !== 'ENDED' || batch === null, 'PreemptAtomic', () => `batch ${batch?.id} goes before it`);
  const { phase, claimableAt } = after.agent;
  holds(
    phase === 'PHASE_RUNNING' || (claimableAt ?? now) <= now,
    'PreemptAtomic',
    () => `the agent waits until ${claimableAt}`,
  );
}

function checkStop({ before, after, command }: Step, isChanged: boolean): void {
  if (command.type !== 'stop') return;
  const run = before.runs.at(-1);
  const isCurrent = run?.number === command.runId && run.state !== 'ENDED';
  if (!isCurrent)
    return holds(!isChanged, 'StaleStopHarmless', () => `stop ${command.runId} of ${run?.number}`);
  const stopped = after.runs.at(-1);
  const expected = command.kind === 'KILL' ? 'ENDED' : 'STOPPING';
  holds(stopped?.state === expected, 'StaleStopHarmless', () => `${command.kind} left ${stopped?.state}`);
}

function checkReport({ before, after, command }: Step, isChanged: boolean): void {
  if (command.type !== 'report') return;
  const run = before.runs.at(-1);
  const isHolder = run?.number === command.runId && run.runnerId === command.runnerId;
  const isLive = isHolder && run.state !== 'ENDED';
  const confirms = isHolder && run.state === 'ENDED' && run.goneAt === null && command.gone === true;
  const isLater = isHolder && command.report > run.reports;
  const isNew = isLive && isLater;
  // The runner of a killed run reports after its end what the last checkpoint has.
  const saves =
    isLater && run.outcome === 'KILLED' && command.gone === true && command.unpushed !== undefined;
  holds(
    isChanged === (isNew || confirms || saves),
    'FencedWrites',
    () => `report ${command.report} of ${command.runId}`,
  );
  const reported = after.runs.at(-1);
  if (isNew && command.end) {
    holds(reported?.state === 'ENDED', 'FencedWrites', () => 'an end was not taken');
    const isStopped = run.stop !== '';
    holds(
      !isStopped || reported?.outcome === 'INTERRUPTED',
      'StoppedIsInterrupted',
      () => `${reported?.outcome}`,
    );
    const { question, finished } = after.agent.memory;
    const said = before.agent.memory;
    const ending = { question: '', finished: false, ...command.end };
    const isOwnEnd = reported?.outcome === 'COMPLETED';
    const isFailure = !isStopped && command.end.outcome === 'COMPLETED' && said.failure !== '';
    holds(!isFailure || after.agent.phase === 'PHASE_FAILED', 'SaidInTheRun', () => `${after.agent.phase}`);
    const isAsked = isOwnEnd && (said.question !== '' || ending.question !== '');
    holds((question !== '') === isAsked, 'SaidInTheRun', () => `"${question}" is left of ${said.question}`);
    const isFinished = isOwnEnd && (said.finished || ending.finished);
    holds(
      finished === isFinished,
      'SaidInTheRun',
      () => `finished is ${finished} after ${reported?.outcome}`,
    );
  }
}

/** The unpushed work is what the live run reported last, or a killed one whose process is gone; nothing else changes it. */
function checkUnpushed({ before, after, command, now }: Step): void {
  const run = before.runs.at(-1);
  const isTaken =
    command.type === 'report' &&
    run?.number === command.runId &&
    run.runnerId === command.runnerId &&
    command.report > run.reports &&
    (run.state !== 'ENDED' || (command.gone === true && run.outcome === 'KILLED'));
  const said = isTaken ? command.unpushed : null;
  const { unpushed, checkpointAt } = after.agent;
  const expected = said ?? before.agent.unpushed;
  holds(
    unpushed?.commits === expected?.commits && unpushed?.files === expected?.files,
    'UnpushedAsReported',
    () => `${command.type} left ${JSON.stringify(unpushed)}`,
  );
  const isSaved = said?.isSaved ?? false;
  holds(
    checkpointAt === (isSaved ? now : before.agent.checkpointAt),
    'UnpushedAsReported',
    () => `${command.type} left ${checkpointAt}`,
  );
}

/** Only the live run can ask, finish or fail, and the agent's phase changes only when the run ends. */
function checkDeclaration({ before, after, command }: Step, isChanged: boolean): void {
  if (command.type !== 'ask' && command.type !== 'finish' && command.type !== 'fail') return;
  const run = before.runs.at(-1);
  const isCurrent = run?.number === command.runId && run.state !== 'ENDED';
  const { question, finished, failure } = after.agent.memory;
  const isNoted =
    command.type === 'ask'
      ? question === command.question
      : command.type === 'finish'
        ? finished
        : failure === command.message;
  holds(!isChanged || isCurrent, 'FencedWrites', () => `${command.type} ${command.runId} of ${run?.number}`);
  holds(!isCurrent || isNoted, 'AckedIsDurable', () => `${command.type} was not noted`);
  holds(before.agent.reason === after.agent.reason, 'PhaseReason', () => `${command.type} moved the agent`);
}

/** Setting labels changes nothing else of the agent and adds no timeline entry. */
function checkLabel({ before, after, command, decision }: Step): void {
  if (command.type !== 'label') return;
  const merged = { ...before.agent.labels, ...command.labels };
  const expected = Object.entries(merged).filter(([, value]) => value !== '');
  const labels = JSON.stringify(Object.entries(after.agent.labels));
  holds(labels === JSON.stringify(expected.sort()), 'AckedIsDurable', () => `labels are ${labels}`);
  holds(!('refused' in decision), 'LabelsAreApart', () => 'labels were refused');
  // Values are never changed in place, so unchanged parts are identical.
  const isSame = (['checklist', 'followUps', 'runs'] as const).every((part) => before[part] === after[part]);
  const changed = (Object.keys(after.agent) as (keyof typeof after.agent)[]).filter(
    (field) => field !== 'labels' && before.agent[field] !== after.agent[field],
  );
  const isQuiet = before.entries.length === after.entries.length;
  holds(isSame && isQuiet && changed.length === 0, 'LabelsAreApart', () => `labels changed ${changed} too`);
}

function checkClaim({ before, after, command, now }: Step, isChanged: boolean): void {
  if (command.type !== 'claim') return;
  const { claimableAt, phase, memory } = before.agent;
  const isClaimable = claimableAt !== null && claimableAt <= now;
  holds(isChanged === isClaimable, 'ClaimableIffWork', () => `claimable ${claimableAt} at ${now}`);
  if (!isChanged) return;
  holds(!isTerminal(phase), 'KillIsFinal', () => `${phase} was claimed`);
  holds(
    memory.limitUntil === null || memory.limitUntil <= now,
    'NotBefore',
    () => `limit ${memory.limitUntil}`,
  );
  const isEarly = memory.retryAt !== null && memory.retryAt > now;
  holds(!isEarly, 'NotBefore', () => `it is retried at ${memory.retryAt}`);
  if (memory.blocked)
    holds(ids(after, 'QUEUED') === '', 'BlockedKeeps', () => `left ${ids(after, 'QUEUED')} behind`);
  const run = after.runs.at(-1);
  holds(
    run?.state === 'STARTING' && run.runnerId === command.runner.id,
    'OneLease',
    () => `${run?.runnerId}`,
  );
}

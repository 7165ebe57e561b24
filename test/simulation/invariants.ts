import { isTerminal, type Phase, type PhaseReason, type Task } from '@muster/sdk/contract';
import { type Entry, type Run, works } from '../../packages/service/src/domain/agent.ts';
import { type AgentHistory, type Histories, inState } from './history.ts';
import { holds, type TimelineAudit } from './timeline-audit.ts';

/**
 * What must hold of every agent and of every tree at every commit, checked over the whole history and without the code
 * under test. What must hold of one step is in `step-invariants.ts`.
 */
export function checkAgent(history: AgentHistory, audit: TimelineAudit, now: string): void {
  const name = history.agent.path.join('/');
  audit.atCommit();
  checkCounts(name, history, audit);
  checkRuns(name, history);
  checkPhase(name, history);
  checkClaimable(name, history, now);
  checkEphemeral(name, history);
  checkThreads(name, history);
}

/** Ephemeral tasks are removed with their batch. */
function checkEphemeral(name: string, { agent, runs, checklist }: AgentHistory): void {
  const last = runs.at(-1);
  if (agent.memory.batch !== null || !last) return;
  const left = checklist.filter((task) => task.ephemeral).map((task) => task.id);
  holds(left.length === 0, 'EphemeralLeave', () => `${name} keeps ${left} after ${last.outcome}`);
}

/**
 * A thread is PENDING exactly as long as a task for it is in the checklist or in a message that will be delivered: no thread
 * is forgotten, and an answered one is not sent again. A batch answers a thread once, however often it is tried.
 */
function checkThreads(name: string, history: AgentHistory): void {
  if (!history.threads || history.threads.size === 0) return;
  const messages = [...inState(history, 'QUEUED'), ...inState(history, 'DEFERRED')];
  const tasks = [...history.checklist, ...messages.flatMap((message) => message.tasks)];
  const told = new Set(tasks.filter((task) => task.ephemeral).map((task) => task.dedupKey));
  const batches = new Map(history.runs.map((run) => [run.number, run.batch]));
  for (const { id, answer, comments } of history.threads.values()) {
    holds(
      (answer === 'PENDING') === told.has(id),
      'ThreadsToldOnce',
      () => `${name}: ${id} is ${answer}, ${told.has(id) ? 'with' : 'without'} a task`,
    );
    const answers = comments.filter(({ kind }) => kind === 'AGENT');
    const answered = new Set(answers.map(({ run }) => batches.get(run ?? 0)));
    holds(
      answered.size === answers.length,
      'ThreadsAnsweredOnce',
      () => `${name}: ${id} was answered ${answers.length} times in ${answered.size} batches`,
    );
    const people = comments.filter(({ kind }) => kind === 'PERSON').map(({ body }) => body);
    holds(
      new Set(people).size === people.length,
      'ThreadsToldOnce',
      () => `${name}: ${id} has a comment twice`,
    );
  }
}

/** The agent's row, the rows of its follow-ups and its timeline agree. */
function checkCounts(name: string, history: AgentHistory, audit: TimelineAudit): void {
  const { agent, entries } = history;
  const queued = inState(history, 'QUEUED').sort((a, b) => a.position - b.position);
  const deferred = inState(history, 'DEFERRED');
  holds(agent.sequence === audit.sequence, 'TimelineOrder', () => `${name} counts ${agent.sequence}`);
  holds(entries.length === agent.sequence, 'TimelineOrder', () => `${name} has ${entries.length} entries`);
  holds(
    agent.phase === audit.phase && agent.reason === audit.reason,
    'TimelineOrder',
    () => `${name} is ${agent.phase}/${agent.reason}, its timeline says ${audit.phase}/${audit.reason}`,
  );
  holds(
    agent.queued === queued.length,
    'NeverLost',
    () => `${name} counts ${agent.queued} of ${queued.length}`,
  );
  holds(
    agent.deferred === deferred.length,
    'NeverLost',
    () => `${name} counts ${agent.deferred} of ${deferred.length} deferred`,
  );
  holds(
    queued.map((f) => f.id).join() === audit.queue.join(),
    'InOrder',
    () => `${name} has ${queued.map((f) => f.id)}, admitted were ${audit.queue}`,
  );
  holds(
    deferred.every((f) => audit.undelivered.get(f.id)?.state === 'DEFERRED'),
    'NeverLost',
    () => `${name}: ${deferred.map((f) => f.id)} are not all deferred in the timeline`,
  );
  holds(
    audit.undelivered.size === queued.length + deferred.length,
    'NeverLost',
    () => `${name}: ${[...audit.undelivered.keys()]} were not all kept`,
  );
  for (const [id, state] of audit.settled) {
    const followUp = history.followUps.get(id);
    holds(
      followUp?.state === state,
      'NeverLost',
      () => `${name}: ${id} is ${followUp?.state}, its timeline says ${state}`,
    );
    holds(
      state !== 'DELIVERED' || followUp?.batch !== null,
      'DeliveredAtMostOnce',
      () => `${name}: ${id} was delivered in no batch`,
    );
  }
  const soonest = deferred.map((f) => f.deliverAt ?? '').sort()[0] ?? null;
  holds(
    agent.nextDeliverAt === soonest,
    'NotBefore',
    () => `${name} wakes at ${agent.nextDeliverAt}, soonest is ${soonest}`,
  );
}

function checkRuns(name: string, { agent, runs }: AgentHistory): void {
  const live = runs.filter((run) => run.state !== 'ENDED');
  holds(live.length <= 1, 'OneLiveRun', () => `${name} has runs ${live.map((run) => run.number)}`);
  const numbers = runs.map((run) => run.number);
  holds(
    numbers.every((number, i) => number === i + 1) && agent.runCount === runs.length,
    'RunNumbersRise',
    () => `${name} counts ${agent.runCount}, has ${numbers}`,
  );
  for (const run of runs.slice(0, -1)) {
    holds(run.goneAt !== null, 'OneProcess', () => `${name} began ${run.number + 1}, ${run.number} may live`);
  }
  for (const run of runs) {
    const ended = run.state === 'ENDED';
    holds(
      ended === (run.endedAt !== null) && ended === (run.outcome !== '') && (ended || run.goneAt === null),
      'OneLiveRun',
      () => `${name}: run ${run.number} is ${run.state}, ${run.outcome}, ended ${run.endedAt}`,
    );
  }
  const batches = new Map<string, number>();
  for (const run of runs) {
    for (const id of run.followUpIds) {
      const batch = batches.get(id) ?? run.batch;
      holds(
        batch === run.batch,
        'DeliveredAtMostOnce',
        () => `${name}: ${id} is in ${batch} and ${run.batch}`,
      );
      batches.set(id, batch);
    }
  }
}

const runningReasons = { STARTING: 'STARTING', RUNNING: 'WORKING', STOPPING: 'STOPPING', ENDED: '' } as const;
const pendingReasons: readonly PhaseReason[] = [
  'STARTING',
  'RETRYING',
  'CHILDREN',
  'PROVIDER_LIMIT',
  'STOPPING',
  'BUDGET',
];

function checkPhase(name: string, history: AgentHistory): void {
  const { agent } = history;
  const { phase, reason } = agent;
  const run = history.runs.at(-1) ?? null;
  const isLive = run !== null && run.state !== 'ENDED';
  const wrong = () => `${name} is ${phase}/${reason}, run ${run?.number} ${run?.state} ${run?.outcome}`;
  holds(isLive === (phase === 'PHASE_RUNNING'), 'OneLiveRun', wrong);
  holds(isTerminal(phase) === (agent.endedAt !== null), 'KillIsFinal', wrong);
  const mayHoldQueue = phase === 'PHASE_PENDING' || isLive || /^(BLOCKED|BUDGET)$/.test(reason);
  holds(agent.queued === 0 || mayHoldQueue, 'NoStrandedQueue', wrong);
  holds(!isTerminal(phase) || agent.deferred === 0, 'NoStrandedQueue', wrong);
  switch (phase) {
    case 'PHASE_RUNNING':
      return holds(reason === runningReasons[run?.state ?? 'ENDED'], 'PhaseReason', wrong);
    case 'PHASE_PENDING':
      return holds(pendingReasons.includes(reason), 'PhaseReason', wrong);
    case 'PHASE_WAITING_FOR_INPUT':
      if (isReopened(history))
        return holds(reason === (agent.deferred > 0 ? 'DEFERRED' : 'RESTING'), 'PhaseReason', wrong);
      if (reason === 'BLOCKED') holds(agent.result.error !== null, 'PhaseReason', wrong);
      return holds(reason === restReason(history), 'PhaseReason', () => `${wrong()}: ${restReason(history)}`);
    case 'PHASE_COMPLETED':
      return holds(reason === 'FINISHED' && restReason(history) === 'FINISHED', 'PhaseReason', wrong);
    case 'PHASE_FAILED':
      return holds(reason === 'ERROR' && agent.result.error !== null, 'PhaseReason', wrong);
    case 'PHASE_CANCELED':
      return holds(reason === 'KILLED' || reason === 'PARENT_KILLED', 'PhaseReason', wrong);
    default:
      return holds(false, 'PhaseReason', wrong);
  }
}

/** It is idle because it was reopened, even with open tasks; a message may have been deferred since. */
function isReopened({ entries }: AgentHistory): boolean {
  const isOther = ({ type, data }: Entry) =>
    type === 'PHASE_CHANGED' && !(data.fromReason === 'RESTING' && data.reason === 'DEFERRED');
  return isTerminal(entries.findLast(isOther)?.data.from as Phase);
}

/** Rules 6 to 11 of a run's end, as far as they depend on the agent alone. */
function restReason({ agent, checklist }: AgentHistory): PhaseReason {
  const { memory } = agent;
  if (memory.budget && !memory.budget.isOver) return 'BUDGET';
  if (memory.blocked) return 'BLOCKED';
  if (memory.interrupted) return 'INTERRUPTED';
  if (memory.question) return 'QUESTION';
  if (hasUnfinished(checklist, memory.activated)) return 'TASKS_UNFINISHED';
  if (agent.deferred > 0) return 'DEFERRED';
  return memory.finished ? 'FINISHED' : 'RESTING';
}

/** An open task that is active and not blocked by an open task that is inactive. */
function hasUnfinished(checklist: readonly Task[], activated: readonly string[]): boolean {
  const open = checklist.filter((t) => t.status.endsWith('_PENDING') || t.status.endsWith('_IN_PROGRESS'));
  const idle = new Set(
    open.filter((t) => t.activation?.filesModified && !activated.includes(t.id)).map((t) => t.id),
  );
  for (let grew = true; grew; ) {
    const blocked = open.filter((t) => !idle.has(t.id) && t.blockedBy.some((id) => idle.has(id)));
    for (const task of blocked) idle.add(task.id);
    grew = blocked.length > 0;
  }
  return open.some((t) => !idle.has(t.id));
}

/** Work is claimable, now or when the provider allows it; nothing else is. */
function checkClaimable(name: string, { agent, runs }: AgentHistory, now: string): void {
  const { memory, phase, reason, claimableAt } = agent;
  const run: Run | null = runs.at(-1) ?? null;
  const behindPerson = memory.interrupted || memory.question !== '';
  const hasNews = memory.unseenChildren.length > 0 && !behindPerson;
  const hasWork =
    agent.queued > 0 || memory.batch !== null || memory.spawnDue || memory.prefaceDue || hasNews;
  const wrong = () =>
    `${name} is ${phase}/${reason}, claimable ${claimableAt}, ${agent.queued} queued, work ${hasWork}`;
  if (phase !== 'PHASE_PENDING') {
    holds(claimableAt === null, 'ClaimableIffWork', wrong);
    const mayHaveWork = phase === 'PHASE_RUNNING' || /^(BLOCKED|BUDGET)$/.test(reason);
    holds(mayHaveWork || !hasWork, 'ClaimableIffWork', wrong);
    return;
  }
  if (reason === 'CHILDREN') return holds(claimableAt === null && !hasWork, 'ClaimableIffWork', wrong);
  const mayStillRun = run !== null && run.goneAt === null;
  holds(hasWork, 'ClaimableIffWork', wrong);
  holds((reason === 'STOPPING') === mayStillRun, 'ClaimableIffWork', wrong);
  holds((claimableAt === null) === mayStillRun, 'ClaimableIffWork', wrong);
  holds(reason !== 'RETRYING' || memory.batch !== null, 'PhaseReason', wrong);
  const isLimited = memory.limitUntil !== null && memory.limitUntil > now;
  holds(!isLimited || mayStillRun || claimableAt === memory.limitUntil, 'NotBefore', wrong);
  const isDelayed = memory.retryAt !== null && memory.retryAt > now;
  holds(!isDelayed || (reason === 'RETRYING' && claimableAt === memory.retryAt), 'NotBefore', wrong);
}

/** What must hold between agents. */
export function checkTrees(histories: Histories): void {
  const holders = new Map<string, string>();
  const childWorks = new Set<string>();
  for (const { agent } of histories.values()) {
    if (agent.parent && works(agent)) childWorks.add(agent.parent);
  }
  for (const { agent } of histories.values()) {
    const name = agent.path.join('/');
    const ended = isTerminal(agent.phase);
    if (agent.current) {
      const identity = `${agent.tenant} ${agent.account} ${agent.workspace} ${name}`;
      holds(!holders.has(identity), 'OneHolder', () => `${name} is held twice`);
      holders.set(identity, agent.id);
    }
    holds(agent.current || ended, 'OneHolder', () => `${name} was replaced and has not ended`);
    if (ended) continue;
    for (const id of agent.ancestors) {
      const above = histories.get(id)?.agent;
      holds(above !== undefined, 'KillReachesAll', () => `${name} has no ancestor ${id}`);
      holds(
        above?.phase !== 'PHASE_CANCELED',
        'KillReachesAll',
        () => `${name} is ${agent.phase} below the killed ${above?.path.join('/')}`,
      );
      holds(above?.current === true, 'OneHolder', () => `${name} is live below a replaced agent`);
    }
    if (agent.reason === 'CHILDREN') {
      holds(childWorks.has(agent.id), 'ChildrenWake', () => `${name} waits for children, none works`);
    }
  }
}

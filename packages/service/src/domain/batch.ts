import {
  type FollowUpState,
  type Phase,
  type PhaseReason,
  type ReportRequest,
  reasonRow,
  type Task,
} from '@muster/sdk/contract';
import {
  type AgentState,
  type Batch,
  type ChildView,
  type FollowUp,
  type Instant,
  isUndelivered,
  keepsBatch,
  noFaults,
  type Settings,
  works,
} from './agent.ts';
import { deduplicated, joined, mirrored, withoutCycles, withoutPersonaTasks } from './checklist.ts';
import type { Draft } from './draft.ts';
import { settleThreads } from './review.ts';
import { applied, sameInForce, switchesPersona } from './settings.ts';

/** The first message, and those behind it up to the next one that changes a setting. The spawn counts as a message. */
function nextMessages(queue: readonly FollowUp[], spawnDue: boolean, settings: Settings): FollowUp[] {
  let inForce = settings;
  const stop = queue.findIndex((message, i) => {
    const next = applied(inForce, message.change);
    const isSplit = (spawnDue || i > 0) && !sameInForce(inForce, next);
    inForce = next;
    return isSplit;
  });
  return queue.slice(0, stop < 0 ? queue.length : stop);
}

/**
 * What the run of this number is given: the batch that is retried, else a new one from the queue. Settings take effect,
 * tasks join the checklist, messages are delivered.
 *
 * After BLOCKED, or a stop by a budget, the retried batch and the whole queue are one batch, so that a message can bring the
 * setting that fixes the fault.
 */
export function nextBatch(
  draft: Draft,
  number: number,
  children: readonly ChildView[],
  lines: readonly string[] = [],
): Batch {
  const { batch: retried, blocked, budget, spawnDue, claimedAt } = draft.agent.memory;
  const wasStopped = blocked !== '' || budget !== undefined;
  const id = retried?.id ?? number;
  const messages = wasStopped
    ? draft.queue()
    : retried
      ? []
      : nextMessages(draft.queue(), spawnDue, draft.agent.settings);
  for (const message of messages) deliver(draft, message, number, id);
  addTasks(draft, deduplicated(messages.flatMap((m) => m.tasks)));
  const isSame = retried !== null && messages.length === 0;
  return {
    id,
    tries: (retried?.tries ?? 0) + 1,
    spawn: spawnDue || (retried?.spawn ?? false),
    preface: [retried?.preface ?? '', preface(children, claimedAt), ...lines].filter(Boolean).join('\n'),
    followUpIds: [...(retried?.followUpIds ?? []), ...messages.map((m) => m.id)],
    ephemeralTaskIds: isSame
      ? retried.ephemeralTaskIds
      : draft.checklist.filter((t) => t.ephemeral).map((t) => t.id),
  };
}

/** The batch whose turn can be steered: that of a run that is starting or running. */
export function runningBatch({ agent, run }: Pick<AgentState, 'agent' | 'run'>): number | null {
  const isRunning = run?.state === 'STARTING' || run?.state === 'RUNNING';
  return isRunning ? (agent.memory.batch?.id ?? null) : null;
}

/**
 * What became of a message that was offered to the live run. If the harness took it, it is part of the run's batch.
 * Otherwise it is an ordinary message from now on.
 */
export function settleSteer(draft: Draft, { followUpId, sequence, taken }: Steered): void {
  const { batch } = draft.agent.memory;
  const message = draft.followUps.get(followUpId);
  const isWaiting = message?.state === 'QUEUED' && message.position === sequence;
  if (!isWaiting || !draft.run || !batch) {
    if (taken) {
      const text = `The message "${followUpId}" was removed or replaced, but the agent had already got it.`;
      draft.log('WARNING', { followUpId, text });
    }
    return;
  }
  if (!taken) {
    draft.followUps.set(followUpId, { ...message, steerBatch: null });
    return;
  }
  const { number } = draft.run;
  deliver(draft, message, number, batch.id, { steer: true });
  const tasks = deduplicated(message.tasks);
  addTasks(draft, tasks);
  const ephemeral = tasks.filter((task) => task.ephemeral).map((task) => task.id);
  const followUpIds = [...batch.followUpIds, followUpId];
  const ephemeralTaskIds = [...new Set([...batch.ephemeralTaskIds, ...ephemeral])];
  draft.remember({ batch: { ...batch, followUpIds, ephemeralTaskIds }, wasFinished: undefined });
  draft.setRun({ followUpIds });
}

type Steered = NonNullable<ReportRequest['steers']>[number];

function deliver(
  draft: Draft,
  message: FollowUp,
  number: number,
  batch: number,
  more: Record<string, unknown> = {},
): void {
  draft.moveFollowUp(message, 'DELIVERED', {
    runId: number,
    batch,
    data: {
      runId: String(number),
      ...(message.attachmentIds.length > 0 && { attachmentIds: message.attachmentIds }),
      ...more,
    },
  });
  const before = draft.agent.settings;
  if (switchesPersona(before, message.change)) {
    draft.checklist = withoutPersonaTasks(draft.checklist);
    addTasks(draft, message.change?.persona?.tasks ?? []);
  }
  const settings = applied(before, message.change);
  if (JSON.stringify(settings) === JSON.stringify(before)) return;
  draft.set({ settings });
  const { instructions: _, explicit: __, ...data } = settings;
  draft.log('SETTINGS_CHANGED', { runId: number, followUpId: message.id, data });
}

export function addTasks(draft: Draft, tasks: readonly Task[]): void {
  if (tasks.length === 0) return;
  const taken = new Set(draft.checklist.map((t) => t.id));
  const newTasks = tasks.filter((t) => !taken.has(t.id) && taken.add(t.id));
  draft.checklist = joined(draft.checklist, newTasks);
  for (const task of newTasks) logTask(draft, task);
  openCycles(draft);
}

/** The tasks of messages that are not delivered yet. */
export const undeliveredTasks = ({ followUps }: Pick<AgentState, 'followUps'>): Task[] =>
  [...followUps.values()].filter(isUndelivered).flatMap((f) => f.tasks);

const loggedEdges = 20;

/** Drops the edges that close a cycle, with a WARNING. Requests with a cycle are refused, but older versions stored some. */
export function openCycles(draft: Draft): void {
  const { tasks, dropped } = withoutCycles(draft.checklist);
  if (dropped.length === 0) return;
  draft.checklist = tasks;
  const [first] = dropped;
  draft.log('WARNING', {
    text: `Dropped ${dropped.length} task dependencies that closed a cycle, the first: "${first?.id}" blocked by "${first?.blocker}".`,
    data: { dropped: dropped.slice(0, loggedEdges).map(({ id, blocker }) => ({ id, blockedBy: blocker })) },
  });
}

export const logTask = (draft: Draft, { id, subject, status }: Task, note = ''): number =>
  draft.log('TASK_CHANGED', { text: subject, data: { id, status, ...(note && { note }) } });

/** Removes the ephemeral tasks of a batch that has ended, and their edges. */
export function dropEphemeral(draft: Draft, batch: Batch | null): void {
  if (!batch || batch.ephemeralTaskIds.length === 0) return;
  const leaving = new Set(batch.ephemeralTaskIds);
  const gone = draft.checklist.filter((t) => leaving.has(t.id));
  for (const { id, subject, status } of gone)
    draft.log('TASK_CHANGED', { text: subject, data: { id, status, removed: true } });
  draft.checklist = mirrored(draft.checklist.filter((t) => !leaving.has(t.id)));
  settleThreads(draft, gone);
}

/** Abandons a batch that waits for a retry. The description of the spawn is delivered with the next batch. */
export function abandonBatch(draft: Draft, by: string): void {
  const { batch } = draft.agent.memory;
  if (!batch) return;
  dropEphemeral(draft, batch);
  draft.remember({
    batch: null,
    spawnDue: draft.agent.memory.spawnDue || batch.spawn,
    ...noFaults,
  });
  draft.log('BATCH_ABANDONED', {
    followUpId: by,
    text: 'preempted',
    data: { batch: String(batch.id), followUpIds: batch.followUpIds },
  });
}

/**
 * A message is answered when its batch has ended and will not be retried, or when it will never be delivered. An idle
 * agent retries nothing, unless it keeps its batch until a person has acted.
 */
export function isAnswered(message: {
  readonly state: FollowUpState;
  readonly batch: number | null;
  readonly phase: Phase;
  readonly reason: PhaseReason;
  /** The batch of its agent's run, or the one that will be retried. */
  readonly currentBatch: number | null;
}): boolean {
  const { state, batch, phase, reason, currentBatch } = message;
  if (state === 'CLEARED' || state === 'REMOVED') return true;
  const mayBeTried = works({ phase }) || keepsBatch({ phase, reason });
  return state === 'DELIVERED' && (!mayBeTried || batch !== currentBatch);
}

/** Tells the parent how its children have changed since its last run began. */
function preface(children: readonly ChildView[], since: Instant | null): string {
  const changed = children.filter((child) => since === null || child.since > since);
  return changed.map(describeChild).join('\n');
}

function describeChild(child: ChildView): string {
  const name = `Your child ${child.path.join('/')}`;
  const row = reasonRow({ phaseReason: child.reason });
  switch (child.phase) {
    case 'PHASE_COMPLETED':
      return `${name} has finished.${quote(child.response)}`;
    case 'PHASE_FAILED':
      return `${name} has failed: ${child.error}`;
    case 'PHASE_CANCELED':
      return `${name} was ended (${child.reason}).`;
    case 'PHASE_WAITING_FOR_INPUT':
      if (row.needsInput === 'fix')
        return `${name} is ${row.status} until a person fixes this: ${child.error}`;
      return child.reason === 'QUESTION'
        ? `${name} needs input: ${child.question}`
        : `${name} is idle (${child.reason}).${quote(child.response)}`;
    default:
      return `${name} is working.`;
  }
}

const quote = (response: string): string => (response ? ` It said: ${response.slice(0, 2000)}` : '');

import { isOpenTask, limits, matchingGlobs, type Task, type TaskStatus } from '@muster/sdk/contract';
import { type ClosingEdge, edgesOfCycles, findCycle } from '../lib/task-graph.ts';
import type { ChecklistTask } from './agent.ts';
import { exhausted, invalid, precondition, type Refusal } from './refusal.ts';

/**
 * The checklist of an agent. `blockedBy` defines the dependencies; `mirrored` derives `blocks` from it after every
 * change, so that the two always agree.
 */
export function mirrored(tasks: readonly Task[]): Task[] {
  const nodes = new Map<string, { readonly blocks: string[]; seenBy?: Task }>();
  for (const { id, status } of tasks) if (status !== 'TASK_STATUS_DELETED') nodes.set(id, { blocks: [] });
  const blockedByOf = tasks.map((task) => {
    const self = nodes.get(task.id);
    const blockedBy: string[] = [];
    if (!self) return blockedBy;
    self.seenBy = task;
    for (const id of task.blockedBy) {
      const node = nodes.get(id);
      // An id that is repeated, or that of the task itself, is left out.
      if (!node || node.seenBy === task) continue;
      node.seenBy = task;
      node.blocks.push(task.id);
      blockedBy.push(id);
    }
    return blockedBy;
  });
  return tasks.map((task, i) => ({
    ...task,
    blockedBy: blockedByOf[i] as string[],
    blocks: nodes.get(task.id)?.blocks ?? [],
  }));
}

/**
 * Both lists together, with the `blocks` of the new tasks added to the `blockedBy` of those they block. Edges that both
 * tasks name are there twice.
 */
function added(tasks: readonly Task[], newTasks: readonly Task[]): Task[] {
  const blockers = new Map<string, string[]>();
  for (const task of newTasks) for (const id of task.blocks) append(blockers, id, task.id);
  return [...tasks, ...newTasks].map((task) => {
    const more = blockers.get(task.id);
    return more ? { ...task, blockedBy: [...task.blockedBy, ...more] } : task;
  });
}

const unique = (ids: readonly string[]): string[] => [...new Set(ids)];

function append(lists: Map<string, string[]>, key: string, value: string): void {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}

/** Adds tasks; edges to tasks that no longer exist are dropped. */
export function joined(checklist: readonly Task[], newTasks: readonly Task[]): Task[] {
  if (newTasks.length === 0) return [...checklist];
  return mirrored(added(checklist, newTasks));
}

/** Of the tasks of one delivery with the same key only the last is used; it gets the edges of the others. */
export function deduplicated(tasks: readonly Task[]): Task[] {
  const winners = new Map<string, Task>();
  for (const task of tasks) if (task.dedupKey) winners.set(task.dedupKey, task);
  const replacements = new Map<string, string>();
  const inherited = new Map<string, { blocks: string[]; blockedBy: string[] }>();
  for (const task of tasks) {
    const winner = winners.get(task.dedupKey);
    if (!winner || winner === task) continue;
    replacements.set(task.id, winner.id);
    const edges = inherited.get(winner.id) ?? { blocks: [], blockedBy: [] };
    edges.blocks.push(...task.blocks);
    edges.blockedBy.push(...task.blockedBy);
    inherited.set(winner.id, edges);
  }
  if (replacements.size === 0) return [...tasks];
  const rename = (ids: readonly string[], self: string) =>
    unique(ids.map((id) => replacements.get(id) ?? id)).filter((id) => id !== self);
  return tasks
    .filter((task) => !replacements.has(task.id))
    .map((task) => ({
      ...task,
      blocks: rename([...task.blocks, ...(inherited.get(task.id)?.blocks ?? [])], task.id),
      blockedBy: rename([...task.blockedBy, ...(inherited.get(task.id)?.blockedBy ?? [])], task.id),
    }));
}

/**
 * May these tasks be admitted? Ids must be new, references known (to the checklist, to undelivered messages, or among
 * themselves), and the whole free of cycles. `isDelivered`: they join the checklist now, with no other message.
 */
export function refuseTasks(
  newTasks: readonly Task[],
  checklist: readonly Task[],
  undelivered: readonly Task[],
  isDelivered = false,
): Refusal | null {
  if (newTasks.length === 0) return null;
  const present = [...checklist, ...undelivered];
  const tooMany = refuseSize([...present, ...newTasks]);
  if (tooMany) return tooMany;
  const taken = new Set(present.map((t) => t.id));
  const known = new Set([...taken, ...newTasks.map((t) => t.id)]);
  const seen = new Set<string>();
  for (const [i, task] of newTasks.entries()) {
    if (taken.has(task.id) || seen.has(task.id)) {
      return invalid(
        `tasks[${i}].id`,
        `"${task.id}" is already used by another task; give each task a unique id, or none`,
      );
    }
    seen.add(task.id);
    for (const field of ['blocks', 'blockedBy'] as const) {
      const unknown = task[field].findIndex((id) => !known.has(id));
      if (unknown >= 0) {
        return invalid(`tasks[${i}].${field}[${unknown}]`, `no task has the id "${task[field][unknown]}"`);
      }
    }
  }
  const cycle = isDelivered
    ? (cycleAmong(checklist, newTasks) ??
      (undelivered.length > 0 ? cycleAmong(added(checklist, deduplicated(newTasks)), undelivered) : null))
    : cycleAmong(checklist, [...undelivered, ...newTasks]);
  return cycle ? invalid('tasks', describeCycle(cycle)) : null;
}

/** All tasks of an agent together, those of undelivered messages included. */
export function refuseSize(tasks: readonly Task[]): Refusal | null {
  if (tasks.length > limits.tasksPerAgent)
    return exhausted(`tasks: an agent has at most ${limits.tasksPerAgent} tasks`);
  const bytes = tasks.reduce((sum, task) => sum + sizeBytes(task), 0);
  return bytes > limits.taskBytesPerAgent
    ? exhausted(`tasks: the tasks of an agent hold at most ${limits.taskBytesPerAgent} bytes together`)
    : null;
}

export const sizeBytes = (task: ChecklistTask): number => {
  const { id, subject, description, dedupKey, note = '', activation, blocks, blockedBy } = task;
  const texts = [id, subject, description, dedupKey, note, activation?.filesModified?.pattern ?? ''];
  return bytesOf(texts) + bytesOf(blocks) + bytesOf(blockedBy);
};

function bytesOf(texts: readonly string[]): number {
  let bytes = 0;
  for (const text of texts) bytes += Buffer.byteLength(text);
  return bytes;
}

/**
 * A cycle of the checklist and the undelivered messages together. Tasks of one key that are delivered in one batch are
 * merged, so the messages are looked at as they are and as if all of them were delivered in one batch.
 */
export function cycleAmong(checklist: readonly Task[], undelivered: readonly Task[]): string[] | null {
  const present = checklist.filter((t) => t.status !== 'TASK_STATUS_DELETED');
  const merged = deduplicated(undelivered);
  const cycle = cycleOf(undelivered, present);
  return cycle || merged.length === undelivered.length ? cycle : cycleOf(merged, present);
}

/** A cycle of these tasks and those that were there before. */
export const cycleOf = (newTasks: readonly Task[], present: readonly Task[] = []): string[] | null =>
  findCycle(added(present, newTasks));

const shownIds = 6;

/** Each task is blocked by the next. Long cycles and long ids are cut. */
export function describeCycle(cycle: readonly string[]): string {
  const shown = cycle.slice(0, shownIds).map((id) => `"${id.length > 40 ? `${id.slice(0, 40)}…` : id}"`);
  const more = cycle.length > shownIds ? [`… (${cycle.length} tasks)`] : [];
  return `tasks must not block each other in a cycle: ${[...shown, ...more, shown[0]].join(' is blocked by ')}`;
}

/** The checklist without the edges that close a cycle, and those edges. */
export function withoutCycles(tasks: readonly Task[]): { tasks: readonly Task[]; dropped: ClosingEdge[] } {
  const dropped = edgesOfCycles(tasks);
  if (dropped.length === 0) return { tasks, dropped };
  const blockersOf = new Map<string, Set<string>>();
  for (const { id, blocker } of dropped) blockersOf.set(id, (blockersOf.get(id) ?? new Set()).add(blocker));
  const opened = tasks.map((task) => {
    const gone = blockersOf.get(task.id);
    return gone ? { ...task, blockedBy: task.blockedBy.filter((id) => !gone.has(id)) } : task;
  });
  return { tasks: mirrored(opened), dropped };
}

const moves: Readonly<Record<TaskStatus, readonly TaskStatus[]>> = {
  TASK_STATUS_UNSPECIFIED: [],
  TASK_STATUS_PENDING: ['TASK_STATUS_IN_PROGRESS', 'TASK_STATUS_COMPLETED', 'TASK_STATUS_DELETED'],
  TASK_STATUS_IN_PROGRESS: ['TASK_STATUS_PENDING', 'TASK_STATUS_COMPLETED', 'TASK_STATUS_DELETED'],
  TASK_STATUS_COMPLETED: ['TASK_STATUS_IN_PROGRESS', 'TASK_STATUS_DELETED'],
  TASK_STATUS_DELETED: [],
};

/** May this task go to that status? */
export function refuseMove(tasks: readonly Task[], task: Task, to: TaskStatus): Refusal | null {
  if (task.status === to) return null;
  if (!moves[task.status].includes(to)) {
    return precondition('TASK_STATUS', task.id, `a task that is ${task.status} can't become ${to}`);
  }
  if (to !== 'TASK_STATUS_IN_PROGRESS' && to !== 'TASK_STATUS_COMPLETED') return null;
  const blockers = new Set(task.blockedBy);
  const blocker = tasks.find((t) => isOpenTask(t) && blockers.has(t.id));
  return blocker
    ? precondition(
        'TASK_BLOCKED',
        task.id,
        `task "${task.id}" is blocked by "${blocker.id}", which is not completed`,
      )
    : null;
}

/** A condition holds when a push of the current run touched a matching file. */
export function activatedBy(tasks: readonly Task[], files: readonly string[]): string[] {
  if (files.length === 0) return [];
  const patternOf = (task: Task) => task.activation?.filesModified?.pattern;
  const matching = matchingGlobs(tasks.map(patternOf).filter(Boolean) as string[], files);
  return tasks
    .filter((task) => {
      const pattern = patternOf(task);
      return pattern === '' || (pattern !== undefined && matching.has(pattern));
    })
    .map((task) => task.id);
}

/**
 * Unfinished tasks that count: active, and with no inactive task before them. A task is active without a condition,
 * or when its condition was met in this run.
 */
export function unfinished(tasks: readonly Task[], activated: readonly string[]): Task[] {
  const active = new Set(activated);
  const open = tasks.filter(isOpenTask);
  const behind = new Map<string, string[]>();
  for (const { id, blockedBy } of open) for (const blocker of blockedBy) append(behind, blocker, id);
  const inactive = open.filter((task) => task.activation?.filesModified && !active.has(task.id));
  const waiting = new Set(inactive.map((task) => task.id));
  // A set is iterated in the order of insertion, what is added meanwhile included: each task is visited once.
  for (const id of waiting) for (const next of behind.get(id) ?? []) waiting.add(next);
  return open.filter((task) => !waiting.has(task.id));
}

/** A persona switch takes away what the old persona brought and nothing else. */
export const withoutPersonaTasks = (tasks: readonly Task[]): Task[] =>
  mirrored(tasks.filter((t) => t.persona === ''));

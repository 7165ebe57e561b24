import { limits, matchingGlobs, type Task, type TaskStatus } from '@muster/sdk/contract';
import { exhausted, invalid, precondition, type Refusal } from './refusal.ts';

/**
 * The checklist of an agent. `blockedBy` is the truth about dependencies; `blocks` is its mirror and is made anew by
 * `mirrored` after every change, so the two can never disagree.
 */
export function mirrored(tasks: readonly Task[]): Task[] {
  const ids = new Set(tasks.filter((t) => t.status !== 'TASK_STATUS_DELETED').map((t) => t.id));
  const blocks = new Map<string, string[]>();
  const kept = tasks.map((task) => {
    const blockedBy = ids.has(task.id)
      ? unique(task.blockedBy).filter((id) => ids.has(id) && id !== task.id)
      : [];
    for (const id of blockedBy) blocks.set(id, [...(blocks.get(id) ?? []), task.id]);
    return { ...task, blockedBy };
  });
  return kept.map((task) => ({ ...task, blocks: blocks.get(task.id) ?? [] }));
}

/** Turns the `blocks` of newcomers into the `blockedBy` of those they block. */
function withEdges(tasks: readonly Task[], newcomers: readonly Task[]): Task[] {
  const blockers = new Map<string, string[]>();
  for (const task of newcomers) {
    for (const id of task.blocks) blockers.set(id, [...(blockers.get(id) ?? []), task.id]);
  }
  return tasks.map((task) => {
    const more = blockers.get(task.id);
    return more ? { ...task, blockedBy: unique([...task.blockedBy, ...more]) } : task;
  });
}

const unique = (ids: readonly string[]): string[] => [...new Set(ids)];

/** Adds tasks; edges to tasks that are gone by now are dropped. */
export function joined(checklist: readonly Task[], newcomers: readonly Task[]): Task[] {
  if (newcomers.length === 0) return [...checklist];
  return mirrored(withEdges([...checklist, ...newcomers], newcomers));
}

/** Within one delivery the last task of a key wins, and the edges of the others go to it. */
export function deduplicated(tasks: readonly Task[]): Task[] {
  const winners = new Map<string, Task>();
  for (const task of tasks) if (task.dedupKey) winners.set(task.dedupKey, task);
  const heirs = new Map<string, string>();
  const inherited = new Map<string, { blocks: string[]; blockedBy: string[] }>();
  for (const task of tasks) {
    const winner = winners.get(task.dedupKey);
    if (!winner || winner === task) continue;
    heirs.set(task.id, winner.id);
    const edges = inherited.get(winner.id) ?? { blocks: [], blockedBy: [] };
    edges.blocks.push(...task.blocks);
    edges.blockedBy.push(...task.blockedBy);
    inherited.set(winner.id, edges);
  }
  if (heirs.size === 0) return [...tasks];
  const rename = (ids: readonly string[], self: string) =>
    unique(ids.map((id) => heirs.get(id) ?? id)).filter((id) => id !== self);
  return tasks
    .filter((task) => !heirs.has(task.id))
    .map((task) => ({
      ...task,
      blocks: rename([...task.blocks, ...(inherited.get(task.id)?.blocks ?? [])], task.id),
      blockedBy: rename([...task.blockedBy, ...(inherited.get(task.id)?.blockedBy ?? [])], task.id),
    }));
}

/**
 * May these tasks be admitted? Ids must be new, references known (to the checklist, to undelivered messages, or among
 * themselves), and the whole free of cycles.
 */
export function refuseTasks(
  newcomers: readonly Task[],
  checklist: readonly Task[],
  undelivered: readonly Task[],
): Refusal | null {
  if (newcomers.length === 0) return null;
  const present = [...checklist, ...undelivered];
  if (present.length + newcomers.length > limits.tasksPerAgent) {
    return exhausted(`tasks: an agent has at most ${limits.tasksPerAgent} tasks`);
  }
  const taken = new Set(present.map((t) => t.id));
  const known = new Set([...taken, ...newcomers.map((t) => t.id)]);
  const seen = new Set<string>();
  for (const [i, task] of newcomers.entries()) {
    if (taken.has(task.id) || seen.has(task.id)) {
      return invalid(`tasks[${i}].id`, `"${task.id}" is taken; give each task an id of its own, or none`);
    }
    seen.add(task.id);
    for (const field of ['blocks', 'blockedBy'] as const) {
      const unknown = task[field].findIndex((id) => !known.has(id));
      if (unknown >= 0) {
        return invalid(`tasks[${i}].${field}[${unknown}]`, `no task has the id "${task[field][unknown]}"`);
      }
    }
  }
  return hasCycle(withEdges([...present, ...newcomers], newcomers))
    ? invalid('tasks', 'tasks may not block each other in a circle')
    : null;
}

export function hasCycle(tasks: readonly Task[]): boolean {
  const blockers = new Map(tasks.map((t) => [t.id, t.blockedBy]));
  const done = new Set<string>();
  const visit = (id: string, trail: Set<string>): boolean => {
    if (trail.has(id)) return true;
    if (done.has(id)) return false;
    trail.add(id);
    const cyclic = (blockers.get(id) ?? []).some((next) => visit(next, trail));
    trail.delete(id);
    done.add(id);
    return cyclic;
  };
  return tasks.some((t) => visit(t.id, new Set()));
}

const isOpen = (task: Task): boolean =>
  task.status === 'TASK_STATUS_PENDING' || task.status === 'TASK_STATUS_IN_PROGRESS';

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
  const blocker = tasks.find((t) => task.blockedBy.includes(t.id) && isOpen(t));
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
  const byId = new Map(tasks.map((t) => [t.id, t]));
  const isActive = (task: Task) => !task.activation?.filesModified || activated.includes(task.id);
  const counts = (task: Task): boolean =>
    isActive(task) &&
    task.blockedBy.every((id) => {
      const blocker = byId.get(id);
      return !blocker || !isOpen(blocker) || counts(blocker);
    });
  return tasks.filter((task) => isOpen(task) && counts(task));
}

/** A persona switch takes away what the old persona brought and nothing else. */
export const withoutPersonaTasks = (tasks: readonly Task[]): Task[] =>
  mirrored(tasks.filter((t) => t.persona === ''));

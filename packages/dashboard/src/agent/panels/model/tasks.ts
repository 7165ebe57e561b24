import type { Task, TimelineEntry } from '@muster/sdk';
import { matchingGlobs } from '@muster/sdk/contract';

/** More than the status: a pending task may be blocked by another one, or inactive until a push. */
export type TaskState = 'todo' | 'working' | 'blocked' | 'inactive' | 'done' | 'deleted';

export const taskStateTexts: Readonly<Record<TaskState, string>> = {
  todo: 'To do',
  working: 'In progress',
  blocked: 'Blocked',
  inactive: 'Inactive',
  done: 'Done',
  deleted: 'Deleted',
};

export function taskStateOf(
  task: Task,
  tasks: ReadonlyMap<string, Task>,
  activation: TaskActivation,
): TaskState {
  switch (task.status) {
    case 'TASK_STATUS_COMPLETED':
      return 'done';
    case 'TASK_STATUS_DELETED':
      return 'deleted';
    case 'TASK_STATUS_IN_PROGRESS':
      return 'working';
    default:
      if (openTasks(task.blockedBy, tasks).length > 0) return 'blocked';
      return activation === 'inactive' ? 'inactive' : 'todo';
  }
}

export const isDeleted = ({ status }: Task): boolean => status === 'TASK_STATUS_DELETED';

/** The ids of these tasks that are not done. */
export const openTasks = (ids: readonly string[], tasks: ReadonlyMap<string, Task>): string[] =>
  ids.filter((id) => {
    const status = tasks.get(id)?.status;
    return status === 'TASK_STATUS_PENDING' || status === 'TASK_STATUS_IN_PROGRESS';
  });

/** `always`: the task has no condition. `unknown`: the pushes of the run are not loaded yet. */
export type TaskActivation = 'always' | 'active' | 'inactive' | 'unknown';

/** Whether the pushes of the current run meet the condition of a task. */
export function activationOf(task: Task, pushedFiles: readonly string[] | undefined): TaskActivation {
  const pattern = task.activation?.filesModified?.pattern;
  if (pattern === undefined) return 'always';
  if (pushedFiles === undefined) return 'unknown';
  if (pushedFiles.length === 0) return 'inactive';
  if (pattern === '') return 'active';
  return matchingGlobs([pattern], pushedFiles).size > 0 ? 'active' : 'inactive';
}

export const pushedFilesOf = (pushes: readonly TimelineEntry[], runId: string): string[] =>
  pushes
    .filter((push) => push.runId === runId)
    .flatMap(({ data }) => (data.files as string[] | undefined) ?? []);

/** Each task after those that block it; otherwise in the given order. */
export function inWorkingOrder(tasks: readonly Task[]): Task[] {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  // A task is visited before its blockers, so even a cycle, which the service refuses, ends.
  const visited = new Set<string>();
  const ordered: Task[] = [];
  for (const first of tasks) {
    const stack: { task: Task; next: number }[] = [];
    const visit = (task: Task | undefined): void => {
      if (!task || visited.has(task.id)) return;
      visited.add(task.id);
      stack.push({ task, next: 0 });
    };
    visit(first);
    for (let top = stack.at(-1); top; top = stack.at(-1)) {
      const blocker = top.task.blockedBy[top.next];
      top.next += 1;
      if (blocker !== undefined) visit(byId.get(blocker));
      else ordered.push((stack.pop() ?? top).task);
    }
  }
  return ordered;
}

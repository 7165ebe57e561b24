import type { Task, TimelineEntry } from '@muster/sdk';
import { matchingGlobs } from '@muster/sdk/contract';

/** How a task stands, which is more than its status: an open one may have to wait for another, or for a push. */
export type TaskStanding = 'todo' | 'working' | 'blocked' | 'inactive' | 'done' | 'deleted';

export const standingWords: Readonly<Record<TaskStanding, string>> = {
  todo: 'To do',
  working: 'In progress',
  blocked: 'Blocked',
  inactive: 'Not active yet',
  done: 'Done',
  deleted: 'Deleted',
};

const isOpenTask = ({ status }: Task): boolean =>
  status === 'TASK_STATUS_PENDING' || status === 'TASK_STATUS_IN_PROGRESS';

export function standingOfTask(
  task: Task,
  tasks: ReadonlyMap<string, Task>,
  activity: TaskActivity,
): TaskStanding {
  switch (task.status) {
    case 'TASK_STATUS_COMPLETED':
      return 'done';
    case 'TASK_STATUS_DELETED':
      return 'deleted';
    case 'TASK_STATUS_IN_PROGRESS':
      return 'working';
    default:
      if (openAmong(task.blockedBy, tasks).length > 0) return 'blocked';
      return activity === 'inactive' ? 'inactive' : 'todo';
  }
}

/** Of these tasks those that are not done. */
export const openAmong = (ids: readonly string[], tasks: ReadonlyMap<string, Task>): string[] =>
  ids.filter((id) => {
    const task = tasks.get(id);
    return task !== undefined && isOpenTask(task);
  });

/** `always`: it has no condition. `unknown`: the pushes of the run are not known yet. */
export type TaskActivity = 'always' | 'active' | 'inactive' | 'unknown';

/** Whether the pushes of the current run have met the task's condition. */
export function activityOf(task: Task, pushedFiles: readonly string[] | undefined): TaskActivity {
  const pattern = task.activation?.filesModified?.pattern;
  if (pattern === undefined) return 'always';
  if (pushedFiles === undefined) return 'unknown';
  if (pushedFiles.length === 0) return 'inactive';
  if (pattern === '') return 'active';
  return matchingGlobs([pattern], pushedFiles).size > 0 ? 'active' : 'inactive';
}

/** The files that a run pushed, from its entries. */
export const filesPushedBy = (pushes: readonly TimelineEntry[], runId: string): string[] =>
  pushes
    .filter((push) => push.runId === runId)
    .flatMap(({ data }) => (data.files as string[] | undefined) ?? []);

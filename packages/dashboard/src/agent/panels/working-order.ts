import type { Task } from '@muster/sdk';

/** A checklist so that one can work through it from the top: each task behind those that block it, else as it came. */
export function workingOrder(tasks: readonly Task[]): Task[] {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const placed = new Set<string>();
  const ordered: Task[] = [];
  const place = (task: Task): void => {
    if (placed.has(task.id)) return;
    // Before its blockers are looked at: the service allows no circle, and one would not end here.
    placed.add(task.id);
    for (const id of task.blockedBy) {
      const blocker = byId.get(id);
      if (blocker) place(blocker);
    }
    ordered.push(task);
  };
  for (const task of tasks) place(task);
  return ordered;
}

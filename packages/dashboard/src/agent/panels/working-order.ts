import type { Task } from '@muster/sdk';

/** A checklist so that one can work through it from the top: each task behind those that block it, else as it came. */
export function workingOrder(tasks: readonly Task[]): Task[] {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  // A task is entered once, before its blockers are looked at: a cycle, which the service refuses, would end here too.
  const entered = new Set<string>();
  const ordered: Task[] = [];
  for (const first of tasks) {
    const trail: { task: Task; next: number }[] = [];
    const enter = (task: Task | undefined): void => {
      if (!task || entered.has(task.id)) return;
      entered.add(task.id);
      trail.push({ task, next: 0 });
    };
    enter(first);
    for (let at = trail.at(-1); at; at = trail.at(-1)) {
      const blocker = at.task.blockedBy[at.next];
      at.next += 1;
      if (blocker !== undefined) enter(byId.get(blocker));
      else ordered.push((trail.pop() ?? at).task);
    }
  }
  return ordered;
}

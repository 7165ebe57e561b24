/**
 * The graph of tasks, with an edge from each task to each of its blockers. Everything here is iterative and takes linear
 * time, because callers choose the size of the graph. Blockers that are not among the tasks are ignored.
 */
export interface GraphTask {
  readonly id: string;
  readonly blockedBy: readonly string[];
}

/** An edge that closes a cycle. */
export interface ClosingEdge {
  readonly id: string;
  readonly blocker: string;
}

interface Node extends GraphTask {
  /** The index of the next blocker to visit. */
  next: number;
  state: 'new' | 'on the trail' | 'done';
}

/** Visits every edge once, depth first. Without the edges that it yields the graph has no cycle. */
function* closingEdges(
  tasks: readonly GraphTask[],
): Generator<ClosingEdge & { readonly cycle: () => string[] }> {
  const nodes = new Map<string, Node>();
  for (const { id, blockedBy } of tasks) nodes.set(id, { id, blockedBy, next: 0, state: 'new' });
  for (const start of nodes.values()) {
    if (start.state === 'done') continue;
    start.state = 'on the trail';
    const trail = [start];
    for (let at = trail.at(-1); at; at = trail.at(-1)) {
      const { id } = at;
      const blocker = at.blockedBy[at.next];
      at.next += 1;
      if (blocker === undefined) {
        trail.pop();
        at.state = 'done';
        continue;
      }
      const next = nodes.get(blocker);
      if (next?.state === 'on the trail') {
        const cycle = () => trail.slice(trail.indexOf(next)).map((node) => node.id);
        yield { id, blocker, cycle };
      } else if (next?.state === 'new') {
        next.state = 'on the trail';
        trail.push(next);
      }
    }
  }
}

/** The ids of one cycle, each blocked by the next, the last by the first; null when there is none. */
export function findCycle(tasks: readonly GraphTask[]): string[] | null {
  for (const edge of closingEdges(tasks)) return edge.cycle();
  return null;
}

/** The edges to remove so that there is no cycle. */
export const edgesOfCycles = (tasks: readonly GraphTask[]): ClosingEdge[] =>
  [...closingEdges(tasks)].map(({ id, blocker }) => ({ id, blocker }));

/** Sorts each task after its blockers. Tasks in a cycle, and those blocked by one, are left out. */
export function inOrder<T extends GraphTask>(tasks: readonly T[]): T[] {
  const known = new Set(tasks.map((task) => task.id));
  const blocked = new Map<string, T[]>();
  const blockers = new Map<T, number>();
  const ready: T[] = [];
  for (const task of tasks) {
    const ids = new Set(task.blockedBy.filter((id) => known.has(id)));
    blockers.set(task, ids.size);
    if (ids.size === 0) ready.push(task);
    for (const id of ids) {
      const others = blocked.get(id);
      if (others) others.push(task);
      else blocked.set(id, [task]);
    }
  }
  for (const { id } of ready) {
    for (const task of blocked.get(id) ?? []) {
      const left = (blockers.get(task) ?? 0) - 1;
      blockers.set(task, left);
      if (left === 0) ready.push(task);
    }
  }
  return ready;
}

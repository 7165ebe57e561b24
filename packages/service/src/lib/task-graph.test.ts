import { describe, expect, test } from 'vitest';
import { edgesOfCycles, findCycle, type GraphTask, inOrder } from './task-graph.ts';

const task = (id: string, ...blockedBy: string[]): GraphTask => ({ id, blockedBy });
const most = 500;

/** Counts how often an edge is read: the cost of a walk, whatever the machine. */
function counted(tasks: readonly GraphTask[]): { tasks: GraphTask[]; reads: () => number } {
  let reads = 0;
  const watched = tasks.map(({ id, blockedBy }) => ({
    id,
    blockedBy: new Proxy(blockedBy, {
      get(target, key, receiver) {
        if (typeof key === 'string' && /^\d+$/.test(key)) reads += 1;
        return Reflect.get(target, key, receiver);
      },
    }),
  }));
  return { tasks: watched, reads: () => reads };
}

const layers = Array.from({ length: most }, (_, i) =>
  task(`t${i}`, ...(i < 2 ? [] : [`t${i - (i % 2) - 2}`, `t${i - (i % 2) - 1}`])),
);
const dense = Array.from({ length: most }, (_, i) =>
  task(`t${i}`, ...Array.from({ length: i }, (_, j) => `t${j}`)),
);
const chain = Array.from({ length: most }, (_, i) => task(`t${i}`, ...(i + 1 < most ? [`t${i + 1}`] : [])));

describe.each([
  ['layers of two', layers],
  ['every task blocked by all before it', dense],
  ['a chain, last first', chain],
])('%s', (_name, graph) => {
  const edges = graph.reduce((sum, { blockedBy }) => sum + blockedBy.length, 0);

  test.each([
    ['findCycle', findCycle],
    ['edgesOfCycles', edgesOfCycles],
    ['inOrder', inOrder],
  ])('%s reads each edge a few times at most', (_what, walk) => {
    const { tasks, reads } = counted(graph);
    walk(tasks);
    expect(reads()).toBeLessThanOrEqual(3 * (edges + graph.length));
  });

  test('has no cycle, and an order with every task after its blockers', () => {
    expect(findCycle(graph)).toBeNull();
    const place = new Map(inOrder(graph).map(({ id }, i) => [id, i]));
    expect(place.size).toBe(most);
    const placeOf = (id: string) => place.get(id) ?? most;
    expect(graph.filter((t) => t.blockedBy.some((id) => placeOf(id) >= placeOf(t.id)))).toEqual([]);
  });
});

describe('cycles', () => {
  test('a task that blocks itself is a cycle', () => {
    expect(findCycle([task('a'), task('b', 'b')])).toEqual(['b']);
  });

  test('the cycle is named in order, without the tasks that lead to it', () => {
    const tasks = [task('way', 'x'), task('x', 'y'), task('y', 'gone', 'z'), task('z', 'x')];
    expect(findCycle(tasks)).toEqual(['x', 'y', 'z']);
  });

  test('a cycle of 500 tasks is found, and removed with one edge', () => {
    const ring = chain.map((one, i) => (i === most - 1 ? task(one.id, 't0') : one));
    expect(findCycle(ring)).toHaveLength(most);
    expect(edgesOfCycles(ring)).toEqual([{ id: `t${most - 1}`, blocker: 't0' }]);
    expect(inOrder(ring)).toEqual([]);
  });

  test('without the closing edges no cycle is left of several that overlap', () => {
    const tasks = [task('a', 'b', 'c'), task('b', 'c', 'a'), task('c', 'a', 'b', 'c')];
    const closing = edgesOfCycles(tasks);
    const opened = tasks.map(({ id, blockedBy }) => ({
      id,
      blockedBy: blockedBy.filter((blocker) => !closing.some((e) => e.id === id && e.blocker === blocker)),
    }));
    expect(findCycle(opened)).toBeNull();
    expect(inOrder(opened)).toHaveLength(3);
  });
});

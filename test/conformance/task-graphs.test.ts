import type { Claim } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { writeResource } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

type Fields = Record<string, unknown>;
type TaskFields = Fields & { id: string };
const blockersOf = async (t: TestTenant, id: string): Promise<string[]> =>
  (await t.tasks('a')).find((task) => task.id === id)?.blockedBy.toSorted() ?? ['(no such task)'];

const layersOfTwo = (tasks: number): TaskFields[] =>
  Array.from({ length: tasks }, (_, i) => ({
    id: `t${i}`,
    blockedBy: i < 2 ? [] : [`t${i - (i % 2) - 2}`, `t${i - (i % 2) - 1}`],
  }));
const everyEdge = (tasks: number): TaskFields[] =>
  Array.from({ length: tasks }, (_, i) => ({
    id: `t${i}`,
    blockedBy: Array.from({ length: i }, (_, j) => `t${j}`),
  }));
const reversedChain = (tasks: number): TaskFields[] =>
  Array.from({ length: tasks }, (_, i) => ({ id: `t${i}`, blocks: i > 0 ? [`t${i - 1}`] : [] }));

describe('large graphs take time linear in tasks and edges', () => {
  type Graph = [name: string, tasks: TaskFields[], edges: number];
  const graphs: Graph[] = [
    ['64 tasks in layers of two', layersOfTwo(64), 124],
    ['500 tasks in layers of two', layersOfTwo(500), 996],
    ['a chain of 500 tasks, last first', reversedChain(500), 499],
  ];
  const largest: Graph = ['500 tasks with every edge there can be', everyEdge(500), 124_750];
  const dense: Graph = ['200 tasks with every edge there can be', everyEdge(200), 19_900];

  async function claimGraph(t: TestTenant, edges: number): Promise<Claim> {
    const claim = await t.start('a');
    expect(claim.tasks.flatMap((task) => task.blockedBy)).toHaveLength(edges);
    return claim;
  }

  async function endRun(t: TestTenant, claim: Claim): Promise<void> {
    await t.end(claim);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/TASKS_UNFINISHED');
  }

  test.each([...graphs, largest])(
    '%s, at spawn: claim, report, status, update, the end of the run',
    async (_, tasks, edges) => {
      const t = await newTestTenant(api);
      await t.spawn('a', { tasks });
      const claim = await claimGraph(t, edges);
      const { activeTaskIds } = await t.report(claim, { items: [{ type: 'MESSAGE', text: 'x' }] });
      expect(activeTaskIds).toHaveLength(claim.tasks.length);
      expect((await t.status('a')).tasks.flatMap((task) => task.blocks)).toHaveLength(edges);
      const first = claim.tasks.find((task) => task.blockedBy.length === 0);
      const answer = await t.updateTask({ id: first?.id, status: 'TASK_STATUS_COMPLETED' });
      expect(answer.status).toBe(200);
      await endRun(t, claim);
    },
  );

  test.each([...graphs, dense])('%s, in a message', async (_, tasks, edges) => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { description: 'm', tasks });
    await endRun(t, await claimGraph(t, edges));
  });

  test.each([...graphs, dense])('%s, added to the checklist', async (_, tasks, edges) => {
    const t = await newTestTenant(api);
    await t.rested('a');
    expect((await t.send('agent/tasks/create', 'a', { tasks })).status).toBe(200);
    await t.queue('a', 'go on');
    await endRun(t, await claimGraph(t, edges));
  });

  test('a task is active behind 249 layers, and not behind an inactive task', async () => {
    const t = await newTestTenant(api);
    const tasks = layersOfTwo(500);
    await t.spawn('a', {
      tasks: tasks.map((task) =>
        task.id === 't100' ? { ...task, activation: { filesModified: { pattern: '*.md' } } } : task,
      ),
    });
    const run = await t.start('a');
    const { activeTaskIds } = await t.report(run, { items: [] });
    expect(activeTaskIds).toEqual([...tasks.slice(0, 100).map(({ id }) => id), 't101']);
  });

  test('repeated references in a request are one edge', async () => {
    const t = await newTestTenant(api);
    const many = Array.from({ length: 500 }, () => 'first');
    await t.spawn('a', { tasks: [{ id: 'first' }, { id: 'second', blockedBy: many }] });
    expect(await blockersOf(t, 'second')).toEqual(['first']);
    await t.send('agent/tasks/update', 'a', { id: 'second', blockedBy: many });
    expect(await blockersOf(t, 'second')).toEqual(['first']);
  });

  test('the tasks of an agent have at most 4 MiB together, however they grow', async () => {
    const t = await newTestTenant(api);
    const idOf = (i: number) => `${i}`.padStart(128, '-');
    const long = 'x'.repeat(64 * 1024);
    await t.spawn('a');
    for (let i = 0; i < 63; i += 9) {
      const tasks = Array.from({ length: 9 }, (_, j) => ({ id: idOf(i + j), description: long }));
      await t.addTasks('a', ...tasks);
    }
    const refused = [
      await t.send('agent/tasks/create', 'a', { tasks: [{ description: long }] }),
      await t.send('agent/queue', 'a', { tasks: [{ description: long }] }),
    ];
    for (const answer of refused) expectError(answer, 'RESOURCE_EXHAUSTED');
    // Edges count too: each of these is 128 characters on both sides.
    const link = (i: number) =>
      t.send('agent/tasks/update', 'a', {
        id: idOf(i),
        blockedBy: Array.from({ length: i }, (_, j) => idOf(j)),
      });
    expect((await link(62)).status).toBe(200);
    await Promise.all([61, 60, 59, 58].map(link));
    expectError(await link(57), 'RESOURCE_EXHAUSTED');
    const done = { id: idOf(0), status: 'TASK_STATUS_COMPLETED' };
    expect((await t.send('agent/tasks/update', 'a', done)).status).toBe(200);
  });
});

describe('cycles are refused', () => {
  /** `a` works on a checklist with the task `there`. */
  async function working(more: Fields = {}): Promise<TestTenant> {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'there' }, { id: 'here' }], ...more });
    await t.start('a');
    return t;
  }
  const update = (t: TestTenant, fields: Fields) => t.send('agent/tasks/update', 'a', fields);
  const add = (t: TestTenant, tasks: Fields[], more: Fields = {}) =>
    t.send('agent/queue', 'a', { description: 'm', tasks, ...more });

  test('the error names the tasks of the cycle, and shortens a long one', async () => {
    const t = await working();
    const two = await add(t, [
      { id: 'x', blockedBy: ['y'] },
      { id: 'y', blockedBy: ['x'] },
    ]);
    expectError(two, 'INVALID_ARGUMENT', 'tasks');
    expect(JSON.stringify(two.body)).toContain('\\"x\\" is blocked by \\"y\\" is blocked by \\"x\\"');
    const ring = Array.from({ length: 100 }, (_, i) => ({
      id: `r${i}`.padEnd(128, '-'),
      blockedBy: [`r${(i + 1) % 100}`.padEnd(128, '-')],
    }));
    const long = await add(t, ring);
    expectError(long, 'INVALID_ARGUMENT', 'tasks');
    expect(JSON.stringify(long.body)).toContain('(100 tasks)');
    expect(JSON.stringify(long.body).length).toBeLessThan(2048);
  });

  const mergedIntoCycle = [
    { id: 'old', dedupKey: 'thread' },
    { id: 'between', blockedBy: ['old'] },
    { id: 'new', dedupKey: 'thread', blockedBy: ['between'] },
  ];
  test.each<[door: string, send: (t: TestTenant) => ReturnType<TestTenant['send']>]>([
    ['spawn', (t) => t.send('agent/spawn', 'b', { description: 'x', tasks: mergedIntoCycle })],
    ['queue-add', (t) => add(t, mergedIntoCycle)],
    ['tasks/create', (t) => t.send('agent/tasks/create', 'a', { tasks: mergedIntoCycle })],
  ])('%s refuses tasks that deduplication would merge into a cycle', async (_door, send) => {
    expectError(await send(await working()), 'INVALID_ARGUMENT', 'tasks');
  });

  test('queue-add refuses tasks that deduplication would merge with those of another message into a cycle', async () => {
    const t = await working();
    await t.queue('a', { description: 'm', tasks: mergedIntoCycle.slice(0, 2) });
    expectError(await add(t, mergedIntoCycle.slice(2)), 'INVALID_ARGUMENT', 'tasks');
    expectError(
      await add(t, [{ id: 'new', dedupKey: 'thread', blockedBy: ['between'] }], { fastMode: true }),
      'INVALID_ARGUMENT',
      'tasks',
    );
  });

  test('a persona whose tasks block each other is refused at use', async () => {
    const t = await working();
    await writeResource(api, 'persona', 'circular', {
      tasks: [
        { id: 'x', blockedBy: ['y'] },
        { id: 'y', blockedBy: ['x'] },
      ],
    });
    const spawned = await t.send('agent/spawn', 'b', { description: 'x', agent: 'circular' });
    expectError(spawned, 'INVALID_ARGUMENT', 'agent');
    expect(JSON.stringify(spawned.body)).toContain('\\"x\\" is blocked by \\"y\\"');
    expectError(await add(t, [], { agent: 'circular' }), 'INVALID_ARGUMENT', 'agent');
  });

  test('a persona may repeat an id: each task gets its own, and the agent keeps at most 500 tasks', async () => {
    const t = await working();
    await writeResource(api, 'persona', 'twice', {
      tasks: [
        { id: 'x', subject: 'one' },
        { id: 'x', subject: 'two' },
      ],
    });
    await t.spawn('b', { agent: 'twice' });
    expect(new Set((await t.tasks('b')).map(({ id }) => id)).size).toBe(2);
    await writeResource(api, 'persona', 'large', {
      tasks: Array.from({ length: 499 }, () => ({ subject: 's' })),
    });
    expectError(await add(t, [], { agent: 'large' }), 'RESOURCE_EXHAUSTED');
  });

  test.each<[field: string, fields: Fields]>([
    ['blockedBy', { id: 'there', blockedBy: ['here'] }],
    ['blocks', { id: 'here', blocks: ['there'] }],
  ])('tasks/update refuses a cycle through an undelivered message and names %s', async (field, fields) => {
    const t = await working();
    await t.queue('a', { description: 'm', tasks: [{ id: 'q', blocks: ['here'], blockedBy: ['there'] }] });
    expectError(await update(t, fields), 'INVALID_ARGUMENT', field);
    expect(await blockersOf(t, 'there')).toEqual([]);
  });

  test('tasks/create and queue-add check against the tasks of undelivered messages', async () => {
    const t = await working();
    await t.queue('a', { description: 'm', tasks: [{ id: 'q', blocks: ['there'] }] });
    expectError(
      await add(t, [{ id: 'x', blockedBy: ['there'], blocks: ['q'] }]),
      'INVALID_ARGUMENT',
      'tasks',
    );
    await t.queue('a', { description: 'n', tasks: [{ id: 'r', blocks: ['there'], blockedBy: ['here'] }] });
    const created = { tasks: [{ id: 'x', blockedBy: ['there'], blocks: ['here'] }] };
    expectError(await t.send('agent/tasks/create', 'a', created), 'INVALID_ARGUMENT', 'tasks');
  });

  test('a deleted task is in no cycle', async () => {
    const t = await working();
    await t.addTasks('a', { id: 'gone', blockedBy: ['there'] });
    await update(t, { id: 'gone', status: 'TASK_STATUS_DELETED' });
    expect((await update(t, { id: 'there', blockedBy: ['gone'] })).status).toBe(200);
    expect(await blockersOf(t, 'there')).toEqual([]);
  });
});

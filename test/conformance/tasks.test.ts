import type { Task } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const idsOf = (tasks: readonly Task[]) => tasks.map(({ id }) => id);

/** The three requests that add a caller's tasks, each on an agent with the task `there`. */
const taskRequests: [
  name: string,
  send: (t: TestTenant, tasks: unknown) => ReturnType<TestTenant['send']>,
][] = [
  ['spawn', (t, tasks) => t.send('agent/spawn', 'b', { description: 'x', tasks })],
  ['queue-add', (t, tasks) => t.send('agent/queue', 'a', { description: 'x', tasks })],
  ['tasks/create', (t, tasks) => t.send('agent/tasks/create', 'a', { tasks })],
];

async function withTask(): Promise<TestTenant> {
  const t = await newTestTenant(api);
  await t.spawn('a', { tasks: [{ id: 'there', subject: 'there' }] });
  return t;
}

describe('adding tasks', () => {
  test('a spawn’s tasks are on the checklist, in order; given ids are kept and missing ones generated', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'mine', subject: 'one' }, { subject: 'two' }, { subject: 'three' }] });
    const tasks = await t.tasks('a');
    expect(tasks.map(({ subject }) => subject)).toEqual(['one', 'two', 'three']);
    expect(tasks[0]?.id).toBe('mine');
    expect(new Set(idsOf(tasks)).size).toBe(3);
    for (const { id } of tasks) expect(id).toMatch(/^.{1,128}$/);
    expect((await t.claim('a')).tasks).toEqual(tasks);
  });

  test('a message’s tasks join the checklist when it is delivered', async () => {
    const t = await withTask();
    const run = await t.start('a');
    await t.queue('a', { description: 'm', tasks: [{ id: 'new', subject: 'new' }] });
    expect(idsOf(await t.tasks('a'))).toEqual(['there']);
    await t.end(run);
    expect(idsOf(await t.tasks('a'))).toEqual(['there']);
    const next = await t.claim('a');
    expect(idsOf(next.tasks)).toEqual(['there', 'new']);
    expect(idsOf(await t.tasks('a'))).toEqual(['there', 'new']);
    expect((await t.timeline('a', 'TASK_CHANGED')).length).toBeGreaterThan(0);
  });

  test.each(['removed', 'cleared'])(
    'the tasks of a message that is %s disappear, and their ids are free',
    async (how) => {
      const t = await withTask();
      await t.start('a');
      const tasks = [{ id: 'passing', subject: 'p' }];
      const id = await t.queue('a', { description: 'm', tasks });
      await (how === 'removed' ? t.remove('a', id) : t.clear('a'));
      expect(idsOf(await t.tasks('a'))).toEqual(['there']);
      await t.queue('a', { description: 'again', tasks });
    },
  );

  test('tasks/create adds immediately and returns the new tasks', async () => {
    const t = await withTask();
    const made = await t.addTasks('a', { id: 'made', subject: 'made' }, { subject: 'minted' });
    expect(made.filter(({ id }) => id !== 'there').map(({ subject }) => subject)).toEqual(['made', 'minted']);
    expect((await t.tasks('a')).map(({ subject }) => subject)).toEqual(['there', 'made', 'minted']);
  });

  test.each(taskRequests)('a duplicate id within one %s is refused', async (_door, send) => {
    expectError(await send(await withTask(), [{ id: 'x' }, { id: 'x' }]), 'INVALID_ARGUMENT', /^tasks/);
  });

  test.each(taskRequests.slice(1))(
    '%s refuses an id of the checklist or of an undelivered message',
    async (_door, send) => {
      const t = await withTask();
      await t.queue('a', { description: 'q', tasks: [{ id: 'queued' }] });
      await t.queue('a', { description: 'd', tasks: [{ id: 'deferred' }], deliverAt: inAnHour() });
      for (const id of ['there', 'queued', 'deferred']) {
        expectError(await send(t, [{ id }]), 'INVALID_ARGUMENT', /^tasks/);
      }
      expect((await t.status('a')).followUps).toHaveLength(2);
    },
  );

  test.each(taskRequests)('%s refuses an unknown reference', async (_door, send) => {
    const t = await withTask();
    expectError(await send(t, [{ id: 'x', blocks: ['nothing'] }]), 'INVALID_ARGUMENT', /^tasks/);
    expectError(await send(t, [{ id: 'x', blockedBy: ['nothing'] }]), 'INVALID_ARGUMENT', /^tasks/);
  });

  test.each(taskRequests)('%s refuses a cycle, of one, two or three', async (_door, send) => {
    const t = await withTask();
    for (const tasks of [
      [{ id: 'x', blocks: ['x'] }],
      [
        { id: 'x', blocks: ['y'] },
        { id: 'y', blocks: ['x'] },
      ],
      [
        { id: 'x', blocks: ['y'] },
        { id: 'y', blocks: ['z'] },
        { id: 'z', blocks: ['x'] },
      ],
      [
        { id: 'x', blockedBy: ['y'] },
        { id: 'y', blockedBy: ['z'] },
        { id: 'z', blockedBy: ['x'] },
      ],
    ]) {
      expectError(await send(t, tasks), 'INVALID_ARGUMENT', /^tasks/);
    }
  });

  test.each(taskRequests.slice(1))('%s refuses a cycle through the checklist', async (_door, send) => {
    const t = await withTask();
    expectError(
      await send(t, [{ id: 'x', blocks: ['there'], blockedBy: ['there'] }]),
      'INVALID_ARGUMENT',
      /^tasks/,
    );
  });

  test('a cycle that closes through an undelivered message is refused', async () => {
    const t = await withTask();
    await t.queue('a', { description: 'm', tasks: [{ id: 'q', blockedBy: ['there'] }] });
    expectError(
      await t.send('agent/queue', 'a', { tasks: [{ id: 'x', blockedBy: ['q'], blocks: ['there'] }] }),
      'INVALID_ARGUMENT',
      /^tasks/,
    );
  });

  test('blocks and blockedBy mirror each other', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', {
      tasks: [{ id: 'first', blocks: ['third'] }, { id: 'second' }, { id: 'third', blockedBy: ['second'] }],
    });
    expect(await t.task('first')).toMatchObject({ blocks: ['third'], blockedBy: [] });
    expect(await t.task('second')).toMatchObject({ blocks: ['third'], blockedBy: [] });
    expect((await t.task('third'))?.blockedBy.toSorted()).toEqual(['first', 'second']);
    await t.addTasks('a', { id: 'fourth', blockedBy: ['first'] });
    expect((await t.task('first'))?.blocks.toSorted()).toEqual(['fourth', 'third']);
    expect(await t.task('fourth')).toMatchObject({ blocks: [], blockedBy: ['first'] });
  });

  test('a repeated reference is one edge', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', {
      tasks: [
        { id: 'x', blocks: ['y'] },
        { id: 'y', blockedBy: ['x', 'x'] },
      ],
    });
    expect(await t.task('x')).toMatchObject({ blocks: ['y'] });
    expect(await t.task('y')).toMatchObject({ blockedBy: ['x'] });
  });

  test('a reference to a task of an undelivered message takes effect when both are delivered', async () => {
    const t = await withTask();
    await t.queue('a', { description: 'm', tasks: [{ id: 'q' }] });
    await t.queue('a', { description: 'n', tasks: [{ id: 'r', blockedBy: ['q', 'there'] }] });
    await t.claim('a');
    expect((await t.task('r'))?.blockedBy.toSorted()).toEqual(['q', 'there']);
    expect((await t.task('q'))?.blocks).toEqual(['r']);
  });

  test('a reference that no longer exists at delivery is dropped', async () => {
    const t = await withTask();
    const id = await t.queue('a', { description: 'm', tasks: [{ id: 'q' }] });
    await t.queue('a', { description: 'n', tasks: [{ id: 'r', blockedBy: ['q', 'there'] }] });
    await t.remove('a', id);
    await t.claim('a');
    expect((await t.task('r'))?.blockedBy).toEqual(['there']);
  });

  test.each(taskRequests)('a caller’s persona is removed at %s', async (door, send) => {
    const t = await withTask();
    expect((await send(t, [{ id: 'x', persona: 'reviewer' }])).status).toBe(200);
    const path = door === 'spawn' ? 'b' : 'a';
    await t.claim(path);
    expect((await t.tasks(path)).find(({ id }) => id === 'x')?.persona).toBe('');
  });

  test.each(taskRequests)('%s accepts 500 tasks in a request and no more', async (_door, send) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const tasks = Array.from({ length: 501 }, (_, i) => ({ id: `t${i}` }));
    expectError(await send(t, tasks), 'INVALID_ARGUMENT', 'tasks');
    expect((await send(t, tasks.slice(1))).status).toBe(200);
  });

  test('an agent has 500 tasks and no more', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: Array.from({ length: 499 }, (_, i) => ({ id: `t${i}` })) });
    await t.addTasks('a', { id: 'last' });
    const answer = await t.send('agent/tasks/create', 'a', { tasks: [{ id: 'more' }] });
    expectError(answer, 'RESOURCE_EXHAUSTED');
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await t.tasks('a')).toHaveLength(500);
  });

  test.each<[field: string, size: number]>([
    ['id', 129],
    ['subject', 1025],
    ['description', 64 * 1024 + 1],
    ['dedupKey', 1025],
  ])('a task’s %s is shorter than %i', async (field, size) => {
    const t = await withTask();
    const send = (length: number) =>
      t.send('agent/tasks/create', 'a', { tasks: [{ [field]: 'x'.repeat(length) }] });
    expectError(await send(size), 'INVALID_ARGUMENT', new RegExp(`^tasks.*${field}$`));
    expect((await send(size - 1)).status).toBe(200);
  });
});

describe('status changes', () => {
  const statuses = ['PENDING', 'IN_PROGRESS', 'COMPLETED', 'DELETED'] as const;
  const allowed = [
    'PENDING → IN_PROGRESS',
    'IN_PROGRESS → PENDING',
    'PENDING → COMPLETED',
    'IN_PROGRESS → COMPLETED',
    'COMPLETED → IN_PROGRESS',
    'PENDING → DELETED',
    'IN_PROGRESS → DELETED',
    'COMPLETED → DELETED',
  ];
  const moves = statuses.flatMap((from) =>
    statuses.filter((to) => to !== from).map((to) => [from, to] as const),
  );

  test.each(moves)('%s → %s', async (from, to) => {
    const t = await withTask();
    if (from !== 'PENDING') await t.updateTask({ id: 'there', status: `TASK_STATUS_${from}` });
    const answer = await t.updateTask({ id: 'there', status: `TASK_STATUS_${to}` });
    if (allowed.includes(`${from} → ${to}`)) {
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      expect(answer.body.task).toEqual(await t.task('there'));
      expect(answer.body.task.status).toBe(`TASK_STATUS_${to}`);
    } else {
      expectError(answer, 'FAILED_PRECONDITION');
      expect((await t.task('there'))?.status).toBe(`TASK_STATUS_${from}`);
    }
  });

  test.each(statuses)('a task that is %s may be set to that again', async (status) => {
    const t = await withTask();
    await t.updateTask({ id: 'there', status: `TASK_STATUS_${status}` });
    expect((await t.updateTask({ id: 'there', status: `TASK_STATUS_${status}` })).status).toBe(200);
  });

  test('DELETED tasks stay listed', async () => {
    const t = await withTask();
    await t.updateTask({ id: 'there', status: 'TASK_STATUS_DELETED' });
    expect(await t.task('there')).toMatchObject({ status: 'TASK_STATUS_DELETED' });
  });

  test.each(['IN_PROGRESS', 'COMPLETED'])(
    'an unfinished blocker forbids %s, and nothing else',
    async (to) => {
      const t = await newTestTenant(api);
      await t.spawn('a', { tasks: [{ id: 'blocker' }, { id: 'blocked', blockedBy: ['blocker'] }] });
      const move = () => t.updateTask({ id: 'blocked', status: `TASK_STATUS_${to}` });
      expectError(await move(), 'FAILED_PRECONDITION');
      await t.updateTask({ id: 'blocker', status: 'TASK_STATUS_IN_PROGRESS' });
      expectError(await move(), 'FAILED_PRECONDITION');
      expect((await t.task('blocked'))?.status).toBe('TASK_STATUS_PENDING');
      await t.updateTask({ id: 'blocker', status: 'TASK_STATUS_COMPLETED' });
      expect((await move()).body.task.status).toBe(`TASK_STATUS_${to}`);
    },
  );

  test('a blocked task may be deleted', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'blocker' }, { id: 'blocked', blockedBy: ['blocker'] }] });
    expect((await t.updateTask({ id: 'blocked', status: 'TASK_STATUS_DELETED' })).status).toBe(200);
  });

  test('a DELETED blocker removes its edge', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'blocker' }, { id: 'blocked', blockedBy: ['blocker'] }] });
    await t.updateTask({ id: 'blocker', status: 'TASK_STATUS_DELETED' });
    expect(await t.task('blocked')).toMatchObject({ blockedBy: [] });
    expect(await t.task('blocker')).toMatchObject({ blocks: [] });
    expect((await t.updateTask({ id: 'blocked', status: 'TASK_STATUS_COMPLETED' })).status).toBe(200);
  });
});

describe('tasks/update', () => {
  test('fields that are present replace; absent ones stay', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'x', subject: 's', description: 'd' }, { id: 'y' }, { id: 'z' }] });
    await t.updateTask({
      id: 'x',
      subject: 'new',
      blocks: ['y'],
      activation: { filesModified: { pattern: 'p' } },
    });
    expect(await t.task('x')).toMatchObject({
      subject: 'new',
      description: 'd',
      blocks: ['y'],
      activation: { filesModified: { pattern: 'p' } },
      status: 'TASK_STATUS_PENDING',
    });
    expect((await t.task('y'))?.blockedBy).toEqual(['x']);
    await t.updateTask({ id: 'x', blocks: ['z'] });
    expect((await t.task('y'))?.blockedBy).toEqual([]);
    expect((await t.task('z'))?.blockedBy).toEqual(['x']);
    await t.updateTask({ id: 'x', description: '', status: 'TASK_STATUS_UNSPECIFIED' });
    expect(await t.task('x')).toMatchObject({ description: '', status: 'TASK_STATUS_PENDING' });
    expect((await t.timeline('a', 'TASK_CHANGED')).length).toBeGreaterThanOrEqual(3);
  });

  test('references are checked as at creation', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'x', blocks: ['y'] }, { id: 'y' }] });
    expectError(await t.updateTask({ id: 'y', blocks: ['nothing'] }), 'INVALID_ARGUMENT', /^blocks/);
    expectError(await t.updateTask({ id: 'y', blockedBy: ['nothing'] }), 'INVALID_ARGUMENT', /^blockedBy/);
    expectError(await t.updateTask({ id: 'y', blocks: ['x'] }), 'INVALID_ARGUMENT', /^block(s|edBy)/);
    expectError(await t.updateTask({ id: 'y', blockedBy: ['y'] }), 'INVALID_ARGUMENT', /^block(s|edBy)/);
    expect(await t.task('y')).toMatchObject({ blocks: [], blockedBy: ['x'] });
  });

  test('an unknown task is NOT_FOUND, a missing id is INVALID_ARGUMENT', async () => {
    const t = await withTask();
    expectError(await t.updateTask({ id: 'nothing', subject: 'x' }), 'NOT_FOUND');
    expectError(await t.updateTask({ subject: 'x' }), 'INVALID_ARGUMENT', 'id');
    expectError(await t.updateTask({ id: 'there', status: 'DONE' }), 'INVALID_ARGUMENT', 'status');
  });

  test('an agent’s own key works on its checklist', async () => {
    const t = await withTask();
    const run = await t.start('a');
    const own = api.as(run.token);
    const agentId = t.id('a');
    const made = await own.post('/v1/agent/tasks/create', { agentId, tasks: [{ id: 'own', subject: 'o' }] });
    expect(made.status).toBe(200);
    const done = await own.post('/v1/agent/tasks/update', {
      agentId,
      id: 'there',
      status: 'TASK_STATUS_COMPLETED',
    });
    expect(done.status).toBe(200);
    expect((await t.report(run, { currentAction: 'x' })).tasks).toEqual(await t.tasks('a'));
  });
});

import type { Task } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { encode, writeResource } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant, type TestTenant } from '../support/test-tenant.ts';

let server: SharedServer;
let api: Api;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
});
afterAll(() => server.close());

type Fields = Record<string, unknown>;
const idsOf = (tasks: readonly Task[]) => tasks.map(({ id }) => id);
const byId = async (t: TestTenant, id: string) => (await t.tasks('a')).find((task) => task.id === id);
const update = (t: TestTenant, fields: Fields) => t.send<{ task: Task }>('agent/tasks/update', 'a', fields);

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
    expect(await byId(t, 'first')).toMatchObject({ blocks: ['third'], blockedBy: [] });
    expect(await byId(t, 'second')).toMatchObject({ blocks: ['third'], blockedBy: [] });
    expect((await byId(t, 'third'))?.blockedBy.toSorted()).toEqual(['first', 'second']);
    await t.addTasks('a', { id: 'fourth', blockedBy: ['first'] });
    expect((await byId(t, 'first'))?.blocks.toSorted()).toEqual(['fourth', 'third']);
    expect(await byId(t, 'fourth')).toMatchObject({ blocks: [], blockedBy: ['first'] });
  });

  test('a repeated reference is one edge', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', {
      tasks: [
        { id: 'x', blocks: ['y'] },
        { id: 'y', blockedBy: ['x', 'x'] },
      ],
    });
    expect(await byId(t, 'x')).toMatchObject({ blocks: ['y'] });
    expect(await byId(t, 'y')).toMatchObject({ blockedBy: ['x'] });
  });

  test('a reference to a task of an undelivered message takes effect when both are delivered', async () => {
    const t = await withTask();
    await t.queue('a', { description: 'm', tasks: [{ id: 'q' }] });
    await t.queue('a', { description: 'n', tasks: [{ id: 'r', blockedBy: ['q', 'there'] }] });
    await t.claim('a');
    expect((await byId(t, 'r'))?.blockedBy.toSorted()).toEqual(['q', 'there']);
    expect((await byId(t, 'q'))?.blocks).toEqual(['r']);
  });

  test('a reference that no longer exists at delivery is dropped', async () => {
    const t = await withTask();
    const id = await t.queue('a', { description: 'm', tasks: [{ id: 'q' }] });
    await t.queue('a', { description: 'n', tasks: [{ id: 'r', blockedBy: ['q', 'there'] }] });
    await t.remove('a', id);
    await t.claim('a');
    expect((await byId(t, 'r'))?.blockedBy).toEqual(['there']);
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

describe('personas', () => {
  let n = 0;
  const persona = async (...subjects: string[]) => {
    n += 1;
    const name = `persona-${n}`;
    await writeResource(api, 'persona', name, { tasks: subjects.map((subject) => ({ subject })) });
    return name;
  };
  const tagged = async (t: TestTenant) =>
    (await t.tasks('a')).map((task) => `${task.persona}:${task.subject}`);

  test('a persona’s tasks have its name; a caller’s have none', async () => {
    const t = await newTestTenant(api);
    const name = await persona('review', 'report');
    await t.spawn('a', { agent: name, tasks: [{ subject: 'own' }] });
    await t.claim('a');
    expect((await tagged(t)).toSorted()).toEqual([':own', `${name}:report`, `${name}:review`].toSorted());
  });

  test('a switch removes exactly the tasks of the old persona and adds those of the new, at delivery', async () => {
    const t = await newTestTenant(api);
    const [first, second] = [await persona('one', 'two'), await persona('three')];
    await t.spawn('a', { agent: first, tasks: [{ id: 'own', subject: 'own' }] });
    const run = await t.start('a');
    await t.addTasks('a', { id: 'made', subject: 'made' });
    const one = (await t.tasks('a')).find(({ subject }) => subject === 'one');
    await t.addTasks('a', { id: 'behind', subject: 'behind', blockedBy: [one?.id] });
    await update(t, { id: 'own', status: 'TASK_STATUS_COMPLETED' });
    await t.queue('a', { agent: second });
    expect(await tagged(t)).toContain(`${first}:one`);
    await t.end(run);
    await t.claim('a');
    expect((await tagged(t)).toSorted()).toEqual([':behind', ':made', ':own', `${second}:three`].toSorted());
    expect(await byId(t, 'behind')).toMatchObject({ blockedBy: [] });
    expect(await byId(t, 'own')).toMatchObject({ status: 'TASK_STATUS_COMPLETED' });
    expect((await t.status('a')).persona).toBe(second);
  });

  test('naming the current persona again changes nothing', async () => {
    const t = await newTestTenant(api);
    const name = await persona('one');
    await t.spawn('a', { agent: name });
    const run = await t.start('a');
    const [one] = await t.tasks('a');
    await update(t, { id: one?.id, status: 'TASK_STATUS_COMPLETED' });
    const before = await t.tasks('a');
    await writeResource(api, 'persona', name, { tasks: [{ subject: 'other' }] });
    await t.queue('a', { description: 'same', agent: name });
    await t.end(run);
    await t.claim('a');
    expect(await t.tasks('a')).toEqual(before);
  });

  test('a persona’s tasks are copied into the message when it is admitted', async () => {
    const t = await newTestTenant(api);
    const [first, second] = [await persona('one'), await persona('as admitted')];
    await t.spawn('a', { agent: first });
    const run = await t.start('a');
    await t.queue('a', { agent: second });
    await writeResource(api, 'persona', second, { tasks: [{ subject: 'as edited' }] });
    await t.end(run);
    await t.claim('a');
    expect(await tagged(t)).toEqual([`${second}:as admitted`]);
  });

  test('a switch that is removed before delivery changes nothing', async () => {
    const t = await newTestTenant(api);
    const [first, second] = [await persona('one'), await persona('two')];
    await t.spawn('a', { agent: first });
    await t.start('a');
    await t.remove('a', await t.queue('a', { agent: second }));
    expect(await tagged(t)).toEqual([`${first}:one`]);
  });
});

describe('dedup keys', () => {
  test('within one batch the last task of a key wins, and gets the edges', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', {
      description: 'm',
      tasks: [
        { id: 'old', subject: 'old', dedupKey: 'thread' },
        { id: 'after', subject: 'after', blockedBy: ['old'] },
        { id: 'before', subject: 'before', blocks: ['old'] },
      ],
    });
    await t.queue('a', { description: 'n', tasks: [{ id: 'new', subject: 'new', dedupKey: 'thread' }] });
    await t.end(run);
    await t.claim('a');
    expect(idsOf(await t.tasks('a')).toSorted()).toEqual(['after', 'before', 'new']);
    expect(await byId(t, 'new')).toMatchObject({ blocks: ['after'], blockedBy: ['before'], subject: 'new' });
    expect((await byId(t, 'after'))?.blockedBy).toEqual(['new']);
    expect((await byId(t, 'before'))?.blocks).toEqual(['new']);
  });

  test('deduplication does not change tasks that are already on the list', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'first', dedupKey: 'thread' }] });
    await t.turn('a');
    await t.queue('a', { description: 'm', tasks: [{ id: 'second', dedupKey: 'thread' }] });
    await t.claim('a');
    expect(idsOf(await t.tasks('a'))).toEqual(['first', 'second']);
  });

  test('deduplication does not join messages of different batches', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', { description: 'm', tasks: [{ id: 'first', dedupKey: 'thread' }] });
    await t.queue('a', {
      description: 'n',
      fastMode: true,
      tasks: [{ id: 'second', dedupKey: 'thread' }],
    });
    await t.end(run);
    await t.turn('a');
    expect(idsOf(await t.tasks('a'))).toEqual(['first']);
    await t.claim('a');
    expect(idsOf(await t.tasks('a'))).toEqual(['first', 'second']);
  });

  test('tasks with an empty key are never deduplicated', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.queue('a', { description: 'm', tasks: [{ subject: 'same' }, { subject: 'same', dedupKey: '' }] });
    await t.claim('a');
    expect(await t.tasks('a')).toHaveLength(2);
  });
});

describe('ephemeral tasks', () => {
  const bring = async (): Promise<TestTenant> => {
    const t = await withTask();
    await t.turn('a');
    await t.queue('a', {
      description: 'm',
      tasks: [
        { id: 'brief', subject: 'brief', ephemeral: true, blocks: ['there'] },
        { id: 'lasting', blockedBy: ['brief'] },
      ],
    });
    return t;
  };

  test('an ephemeral task is on the list during its run', async () => {
    const t = await bring();
    expect(idsOf(await t.tasks('a'))).toEqual(['there']);
    await t.start('a');
    expect(idsOf(await t.tasks('a')).toSorted()).toEqual(['brief', 'lasting', 'there']);
    expect(await byId(t, 'brief')).toMatchObject({ ephemeral: true });
  });

  test.each(['COMPLETED', 'FAILED', 'INTERRUPTED', 'KILLED'])(
    'an ephemeral task is removed with its edges when the batch ends %s',
    async (outcome) => {
      const t = await bring();
      const run = await t.start('a');
      if (outcome === 'INTERRUPTED') await t.stop('a', run.runId);
      if (outcome === 'KILLED') await t.stop('a', run.runId, 'KILL');
      else await t.end(run, outcome, { error: { code: 'REHEARSED_FAILURE', message: 'x' } });
      expect((await t.runs('a'))[0]?.outcome).toBe(outcome);
      expect(idsOf(await t.tasks('a')).toSorted()).toEqual(['lasting', 'there']);
      expect(await byId(t, 'there')).toMatchObject({ blockedBy: [] });
      expect(await byId(t, 'lasting')).toMatchObject({ blockedBy: [] });
    },
  );

  test.each(['HANDED_BACK', 'PARKED', 'FAILED'])(
    'an ephemeral task stays when the run ends %s and its batch is kept',
    async (outcome) => {
      const t = await bring();
      const error = { code: 'PROVIDER_KEY_REFUSED', message: 'x' };
      await t.end(await t.start('a'), outcome, { limitUntil: inAnHour(), error });
      expect(idsOf(await t.tasks('a'))).toContain('brief');
      expect(await byId(t, 'there')).toMatchObject({ blockedBy: ['brief'] });
    },
  );

  test('an ephemeral task is removed when its batch is abandoned', async () => {
    const t = await bring();
    await t.end(await t.start('a'), 'HANDED_BACK');
    await t.queue('a', { description: 'now', preempt: true });
    await t.claim('a');
    expect(idsOf(await t.tasks('a'))).not.toContain('brief');
  });

  test('a completed ephemeral task is removed too; a deleted ordinary task stays listed', async () => {
    const t = await bring();
    const run = await t.start('a');
    await update(t, { id: 'brief', status: 'TASK_STATUS_COMPLETED' });
    await update(t, { id: 'lasting', status: 'TASK_STATUS_DELETED' });
    await t.end(run);
    expect((await t.tasks('a')).map(({ id, status }) => [id, status]).toSorted()).toEqual([
      ['lasting', 'TASK_STATUS_DELETED'],
      ['there', 'TASK_STATUS_PENDING'],
    ]);
  });

  test('the ephemeral tasks of the spawn are removed with run 1', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'brief', ephemeral: true }, { id: 'lasting' }] });
    await t.turn('a');
    expect(idsOf(await t.tasks('a'))).toEqual(['lasting']);
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
    if (from !== 'PENDING') await update(t, { id: 'there', status: `TASK_STATUS_${from}` });
    const answer = await update(t, { id: 'there', status: `TASK_STATUS_${to}` });
    if (allowed.includes(`${from} → ${to}`)) {
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      expect(answer.body.task).toEqual(await byId(t, 'there'));
      expect(answer.body.task.status).toBe(`TASK_STATUS_${to}`);
    } else {
      expectError(answer, 'FAILED_PRECONDITION');
      expect((await byId(t, 'there'))?.status).toBe(`TASK_STATUS_${from}`);
    }
  });

  test.each(statuses)('a task that is %s may be set to that again', async (status) => {
    const t = await withTask();
    await update(t, { id: 'there', status: `TASK_STATUS_${status}` });
    expect((await update(t, { id: 'there', status: `TASK_STATUS_${status}` })).status).toBe(200);
  });

  test('DELETED tasks stay listed', async () => {
    const t = await withTask();
    await update(t, { id: 'there', status: 'TASK_STATUS_DELETED' });
    expect(await byId(t, 'there')).toMatchObject({ status: 'TASK_STATUS_DELETED' });
  });

  test.each(['IN_PROGRESS', 'COMPLETED'])(
    'an unfinished blocker forbids %s, and nothing else',
    async (to) => {
      const t = await newTestTenant(api);
      await t.spawn('a', { tasks: [{ id: 'blocker' }, { id: 'blocked', blockedBy: ['blocker'] }] });
      const move = () => update(t, { id: 'blocked', status: `TASK_STATUS_${to}` });
      expectError(await move(), 'FAILED_PRECONDITION');
      await update(t, { id: 'blocker', status: 'TASK_STATUS_IN_PROGRESS' });
      expectError(await move(), 'FAILED_PRECONDITION');
      expect((await byId(t, 'blocked'))?.status).toBe('TASK_STATUS_PENDING');
      await update(t, { id: 'blocker', status: 'TASK_STATUS_COMPLETED' });
      expect((await move()).body.task.status).toBe(`TASK_STATUS_${to}`);
    },
  );

  test('a blocked task may be deleted', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'blocker' }, { id: 'blocked', blockedBy: ['blocker'] }] });
    expect((await update(t, { id: 'blocked', status: 'TASK_STATUS_DELETED' })).status).toBe(200);
  });

  test('a DELETED blocker removes its edge', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'blocker' }, { id: 'blocked', blockedBy: ['blocker'] }] });
    await update(t, { id: 'blocker', status: 'TASK_STATUS_DELETED' });
    expect(await byId(t, 'blocked')).toMatchObject({ blockedBy: [] });
    expect(await byId(t, 'blocker')).toMatchObject({ blocks: [] });
    expect((await update(t, { id: 'blocked', status: 'TASK_STATUS_COMPLETED' })).status).toBe(200);
  });
});

describe('tasks/update', () => {
  test('fields that are present replace; absent ones stay', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'x', subject: 's', description: 'd' }, { id: 'y' }, { id: 'z' }] });
    await update(t, {
      id: 'x',
      subject: 'new',
      blocks: ['y'],
      activation: { filesModified: { pattern: 'p' } },
    });
    expect(await byId(t, 'x')).toMatchObject({
      subject: 'new',
      description: 'd',
      blocks: ['y'],
      activation: { filesModified: { pattern: 'p' } },
      status: 'TASK_STATUS_PENDING',
    });
    expect((await byId(t, 'y'))?.blockedBy).toEqual(['x']);
    await update(t, { id: 'x', blocks: ['z'] });
    expect((await byId(t, 'y'))?.blockedBy).toEqual([]);
    expect((await byId(t, 'z'))?.blockedBy).toEqual(['x']);
    await update(t, { id: 'x', description: '', status: 'TASK_STATUS_UNSPECIFIED' });
    expect(await byId(t, 'x')).toMatchObject({ description: '', status: 'TASK_STATUS_PENDING' });
    expect((await t.timeline('a', 'TASK_CHANGED')).length).toBeGreaterThanOrEqual(3);
  });

  test('references are checked as at creation', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'x', blocks: ['y'] }, { id: 'y' }] });
    expectError(await update(t, { id: 'y', blocks: ['nothing'] }), 'INVALID_ARGUMENT', /^blocks/);
    expectError(await update(t, { id: 'y', blockedBy: ['nothing'] }), 'INVALID_ARGUMENT', /^blockedBy/);
    expectError(await update(t, { id: 'y', blocks: ['x'] }), 'INVALID_ARGUMENT', /^block(s|edBy)/);
    expectError(await update(t, { id: 'y', blockedBy: ['y'] }), 'INVALID_ARGUMENT', /^block(s|edBy)/);
    expect(await byId(t, 'y')).toMatchObject({ blocks: [], blockedBy: ['x'] });
  });

  test('an unknown task is NOT_FOUND, a missing id is INVALID_ARGUMENT', async () => {
    const t = await withTask();
    expectError(await update(t, { id: 'nothing', subject: 'x' }), 'NOT_FOUND');
    expectError(await update(t, { subject: 'x' }), 'INVALID_ARGUMENT', 'id');
    expectError(await update(t, { id: 'there', status: 'DONE' }), 'INVALID_ARGUMENT', 'status');
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

describe('activation', () => {
  const conditional = (pattern?: string) => ({
    id: 'conditional',
    activation: { filesModified: pattern === undefined ? {} : { pattern } },
  });
  const push = (...files: string[]) => ({ pushes: [{ ref: 'refs/heads/x', commits: ['c0ffee'], files }] });

  test('without a push the task is inactive and does not count', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [conditional()] });
    const run = await t.start('a');
    expect((await t.report(run, { currentAction: 'x' })).activeTaskIds).toEqual([]);
    await t.end(run);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test.each<[pattern: string | undefined, file: string, active: boolean]>([
    [undefined, 'anything/at/all.bin', true],
    ['', 'anything/at/all.bin', true],
    ['README.md', 'README.md', true],
    ['README.md', 'docs/README.md', false],
    ['*.md', 'README.md', true],
    ['*.md', 'docs/guide.md', false],
    ['**/*.md', 'docs/deep/guide.md', true],
    ['**/*.md', 'README.md', true],
    ['src/**', 'src/a/b.ts', true],
    ['src/**', 'lib/a.ts', false],
    ['src/*.ts', 'src/a.ts', true],
    ['src/*.ts', 'src/a/b.ts', false],
    ['src/?.ts', 'src/a.ts', true],
    ['src/?.ts', 'src/ab.ts', false],
    ['*.{js,ts}', 'a.ts', true],
    ['*.{js,ts}', 'a.css', false],
    ['[!a]*.ts', 'b.ts', true],
    ['@(a|b).ts', 'c.ts', false],
    ['!docs/**', 'src/a.ts', true],
    ['!docs/**', 'docs/a.md', false],
  ])('pattern %j and a push of %s: active is %j', async (pattern, file, active) => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [conditional(pattern)] });
    const run = await t.start('a');
    expect((await t.report(run, push(file))).activeTaskIds).toEqual(active ? ['conditional'] : []);
    await t.end(run);
    expect(await t.phase('a')).toBe(
      active ? 'WAITING_FOR_INPUT/TASKS_UNFINISHED' : 'WAITING_FOR_INPUT/RESTING',
    );
  });

  test.each(['[a', '{a,b', '{a}', 'a!(b)', '@(a', 'a\\'])(
    'the pattern %j is refused wherever a task is',
    async (pattern) => {
      const t = await newTestTenant(api);
      const tasks = [{ activation: { filesModified: { pattern } } }];
      const field = 'tasks[0].activation.filesModified.pattern';
      expectError(await t.send('agent/spawn', 'a', { tasks }), 'INVALID_ARGUMENT', field);
      await t.spawn('a', { tasks: [{ id: 'x' }] });
      expectError(await t.send('agent/queue', 'a', { tasks }), 'INVALID_ARGUMENT', field);
      expectError(await t.send('agent/tasks/create', 'a', { tasks }), 'INVALID_ARGUMENT', field);
      expectError(
        await t.send('agent/tasks/update', 'a', { id: 'x', ...tasks[0] }),
        'INVALID_ARGUMENT',
        'activation.filesModified.pattern',
      );
      expectError(
        await api.post('/v1/catalog/persona/globs', { payload: encode({ tasks }) }),
        'INVALID_ARGUMENT',
        `payload.${field}`,
      );
    },
  );

  test('only pushes of the current run count', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [conditional()] });
    const first = await t.start('a');
    await t.report(first, push('a.txt'));
    await t.end(first);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/TASKS_UNFINISHED');
    await t.queue('a', 'again');
    const second = await t.start('a');
    expect((await t.report(second, { currentAction: 'x' })).activeTaskIds).toEqual([]);
    await t.end(second);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
    expect((await t.timeline('a', 'PUSH')).map(({ runId }) => runId)).toEqual(['1']);
  });

  test('a task without an activation is always active; a task behind an inactive one does not count', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', {
      tasks: [
        { id: 'always' },
        { id: 'after', blockedBy: ['always'] },
        conditional('*.md'),
        { id: 'behind', blockedBy: ['conditional'] },
      ],
    });
    const run = await t.start('a');
    const active = async (report: Fields) => (await t.report(run, report)).activeTaskIds.toSorted();
    expect(await active({ currentAction: 'x' })).toEqual(['after', 'always']);
    expect(await active(push('README.md'))).toEqual(['after', 'always', 'behind', 'conditional']);
    await update(t, { id: 'always', status: 'TASK_STATUS_COMPLETED' });
    await update(t, { id: 'conditional', status: 'TASK_STATUS_DELETED' });
    expect(await active({ currentAction: 'y' })).toEqual(['after', 'behind']);
  });

  test('a task behind an inactive one that is completed counts', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', {
      tasks: [
        { ...conditional(), status: 'TASK_STATUS_COMPLETED' },
        { id: 'behind', blockedBy: ['conditional'] },
      ],
    });
    const run = await t.start('a');
    expect((await t.report(run, { currentAction: 'x' })).activeTaskIds).toEqual(['behind']);
  });
});

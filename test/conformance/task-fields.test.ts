import type { Task } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import type { Fields } from '../support/agents.ts';
import { encode, writeResource } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const idsOf = (tasks: readonly Task[]) => tasks.map(({ id }) => id);

async function withTask(): Promise<TestTenant> {
  const t = await newTestTenant(api);
  await t.spawn('a', { tasks: [{ id: 'there', subject: 'there' }] });
  return t;
}

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
    await t.updateTask({ id: 'own', status: 'TASK_STATUS_COMPLETED' });
    await t.queue('a', { agent: second });
    expect(await tagged(t)).toContain(`${first}:one`);
    await t.end(run);
    await t.claim('a');
    expect((await tagged(t)).toSorted()).toEqual([':behind', ':made', ':own', `${second}:three`].toSorted());
    expect(await t.task('behind')).toMatchObject({ blockedBy: [] });
    expect(await t.task('own')).toMatchObject({ status: 'TASK_STATUS_COMPLETED' });
    expect((await t.status('a')).persona).toBe(second);
  });

  test('naming the current persona again changes nothing', async () => {
    const t = await newTestTenant(api);
    const name = await persona('one');
    await t.spawn('a', { agent: name });
    const run = await t.start('a');
    const [one] = await t.tasks('a');
    await t.updateTask({ id: one?.id, status: 'TASK_STATUS_COMPLETED' });
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
    expect(await t.task('new')).toMatchObject({ blocks: ['after'], blockedBy: ['before'], subject: 'new' });
    expect((await t.task('after'))?.blockedBy).toEqual(['new']);
    expect((await t.task('before'))?.blocks).toEqual(['new']);
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
    expect(await t.task('brief')).toMatchObject({ ephemeral: true });
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
      expect(await t.task('there')).toMatchObject({ blockedBy: [] });
      expect(await t.task('lasting')).toMatchObject({ blockedBy: [] });
    },
  );

  test.each(['HANDED_BACK', 'PARKED', 'FAILED'])(
    'an ephemeral task stays when the run ends %s and its batch is kept',
    async (outcome) => {
      const t = await bring();
      const error = { code: 'PROVIDER_KEY_REFUSED', message: 'x' };
      await t.end(await t.start('a'), outcome, { limitUntil: inAnHour(), error });
      expect(idsOf(await t.tasks('a'))).toContain('brief');
      expect(await t.task('there')).toMatchObject({ blockedBy: ['brief'] });
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
    await t.updateTask({ id: 'brief', status: 'TASK_STATUS_COMPLETED' });
    await t.updateTask({ id: 'lasting', status: 'TASK_STATUS_DELETED' });
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
    await t.updateTask({ id: 'always', status: 'TASK_STATUS_COMPLETED' });
    await t.updateTask({ id: 'conditional', status: 'TASK_STATUS_DELETED' });
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

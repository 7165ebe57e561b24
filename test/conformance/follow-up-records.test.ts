import type { FollowUp, PendingFollowUp } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { runConcurrently } from '../support/async.ts';
import { writeResource } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant, type TestTenant, textsOf } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

type Fields = Record<string, unknown>;
interface QueuePage {
  readonly followUps: PendingFollowUp[];
  readonly nextPageToken: string;
}
const add = (t: TestTenant, message: Fields) =>
  t.send<{ followUpId: string; state: string }>('agent/queue', 'a', message);
const page = async (t: TestTenant, fields: Fields = {}) =>
  (await t.send<QueuePage>('agent/queue/list', 'a', fields)).body;
const get = async (t: TestTenant, followUpId: string) =>
  (await t.send<FollowUp>('agent/queue/get', 'a', { followUpId })).body;

/** `a` works on its first run. */
async function working(): Promise<TestTenant> {
  const t = await newTestTenant(api);
  await t.spawn('a');
  await t.start('a');
  return t;
}

describe('the size of a status', () => {
  test('a long message is cut at 4 KiB, at a whole character, with truncated: true', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'short', description: 'é'.repeat(2048) });
    await t.queue('a', { followUpId: 'long', description: `x${'é'.repeat(2048)}` });
    expect((await t.status('a')).followUps).toMatchObject([
      { followUpId: 'short', description: 'é'.repeat(2048), truncated: false },
      { followUpId: 'long', description: `x${'é'.repeat(2047)}`, truncated: true },
    ]);
  });

  test('200 messages of 16 KiB, with schemas and personas, make a status of less than 2 MiB', async () => {
    const t = await working();
    const description = 'x'.repeat(16 * 1024);
    const outputSchema = JSON.stringify({ description: 'y'.repeat(30 * 1024) });
    await writeResource(api, 'persona', 'wordy', { instructions: 'z'.repeat(20 * 1024) });
    // The service admits concurrent messages together, and loads those that are waiting once.
    for (let i = 0; i < 200; i += 40)
      await Promise.all(
        Array.from({ length: 40 }, (_, j) =>
          t.queue('a', { description, ...(i + j < 100 ? { outputSchema } : { agent: 'wordy' }) }),
        ),
      );
    const answer = await t.send('agent/status', 'a');
    expect(answer.status).toBe(200);
    expect(JSON.stringify(answer.body).length).toBeLessThan(2 * 1024 * 1024);
  });

  test('the personas and schemas of undelivered messages have at most 8 MiB', async () => {
    const t = await working();
    await writeResource(api, 'persona', 'huge', { instructions: 'z'.repeat(500 * 1024) });
    const answers = await runConcurrently(20, 5, () => add(t, { agent: 'huge' }));
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(2);
    for (const answer of refused) expectError(answer, 'RESOURCE_EXHAUSTED');
    expect((await add(t, { description: 'no setting' })).status).toBe(200);
  });
});

describe('queue/list', () => {
  test('pages through the whole texts in the order of the status', async () => {
    const t = await working();
    const description = 'x'.repeat(5000);
    await t.queue('a', { followUpId: 'late', description, deliverAt: inAnHour() });
    for (const followUpId of ['one', 'two', 'three']) await t.queue('a', { followUpId, description });
    const first = await page(t, { pageSize: 3 });
    expect(first.followUps.map((f) => f.followUpId)).toEqual(['one', 'two', 'three']);
    expect(first.followUps[0]).toMatchObject({ description, truncated: false, state: 'QUEUED' });
    const second = await page(t, { pageSize: 3, pageToken: first.nextPageToken });
    expect(second).toMatchObject({ followUps: [{ followUpId: 'late' }], nextPageToken: '' });
    expectError(await t.send('agent/queue/list', 'a', { pageToken: 'x' }), 'INVALID_ARGUMENT', 'pageToken');
  });

  test('ends a page at about 2 MiB and leaves no message out', async () => {
    const t = await working();
    const description = 'x'.repeat(256 * 1024);
    await runConcurrently(20, 5, () => t.queue('a', { description }));
    const sizes = [];
    for (let pageToken = ''; ; ) {
      const next = await page(t, { pageToken });
      sizes.push(next.followUps.length);
      pageToken = next.nextPageToken;
      if (pageToken === '') break;
    }
    expect(sizes).toEqual([8, 8, 4]);
  });
});

describe('queue/get', () => {
  test('returns the state, the run and the answer, from DEFERRED to answered', async () => {
    const t = await working();
    const tasks = [{ id: 't', subject: 'do it' }];
    await t.queue('a', { followUpId: 'later', description: 'x', deliverAt: inAnHour() });
    expect(await get(t, 'later')).toMatchObject({ state: 'DEFERRED', run: null, answered: false });
    await t.queue('a', { followUpId: 'm', description: 'x'.repeat(5000), tasks, fastMode: true });
    expect(await get(t, 'm')).toMatchObject({
      state: 'QUEUED',
      description: 'x'.repeat(5000),
      fastMode: true,
      tasks: [{ id: 't', subject: 'do it' }],
      run: null,
      answered: false,
      answer: '',
    });
    const [first] = t.runner.runs;
    if (!first) throw new Error('no run');
    await t.runner.end(first as never, 'COMPLETED', { response: 'first' });
    const handedBack = await t.start('a');
    expect(await get(t, 'm')).toMatchObject({ state: 'DELIVERED', run: { runId: '2' }, answered: false });
    await t.end(handedBack, 'HANDED_BACK');
    expect(await get(t, 'm')).toMatchObject({ run: { outcome: 'HANDED_BACK' }, answered: false, answer: '' });
    await t.turn('a', { response: 'second' });
    expect(await get(t, 'm')).toMatchObject({
      run: { runId: '3', batch: '2', outcome: 'COMPLETED' },
      answered: true,
      answer: 'second',
    });
  });

  test('returns a removed message until its id is used again; an unknown one is NOT_FOUND', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'm', description: 'first' });
    await t.remove('a', 'm');
    expect(await get(t, 'm')).toMatchObject({
      state: 'REMOVED',
      description: 'first',
      answered: true,
      answer: '',
    });
    expect((await t.status('a')).followUps).toEqual([]);
    await t.queue('a', { followUpId: 'm', description: 'second' });
    expect(await get(t, 'm')).toMatchObject({ state: 'QUEUED', description: 'second' });
    expectError(await t.send('agent/queue/get', 'a', { followUpId: 'never' }), 'NOT_FOUND');
  });
});

describe('replace', () => {
  test('needs the id of the message to replace', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    for (const followUpId of ['', undefined]) {
      const body = { description: 'x', replace: true, followUpId };
      expectError(await t.send('agent/queue', 'a', body), 'INVALID_ARGUMENT', 'followUpId');
    }
    expect(await t.status('a')).toMatchObject({ phaseReason: 'RESTING', followUps: [] });
  });

  const order = async (t: TestTenant) =>
    (await t.status('a')).followUps.map((f) => `${f.followUpId} ${f.description}`);

  test('gives an undelivered message new content in last place', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'm', description: 'first', tasks: [{ id: 't' }] });
    await t.queue('a', { followUpId: 'n', description: 'other' });
    const answer = await add(t, {
      followUpId: 'm',
      description: 'second',
      tasks: [{ id: 't' }],
      replace: true,
    });
    expect(answer).toMatchObject({ status: 200, body: { followUpId: 'm', state: 'QUEUED' } });
    expect(await order(t)).toEqual(['n other', 'm second']);
    expectError(await add(t, { followUpId: 'm', description: 'third' }), 'ALREADY_EXISTS');
  });

  test('with the same content changes nothing', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'm', description: 'x' });
    await t.queue('a', { followUpId: 'n', description: 'other' });
    await add(t, { followUpId: 'm', description: 'x', replace: true });
    expect(await order(t)).toEqual(['m x', 'n other']);
  });

  test('makes a queued message deferred and back, and the agent idle or awake', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'm', description: 'now' });
    await add(t, { followUpId: 'm', description: 'later', deliverAt: inAnHour(), replace: true });
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/DEFERRED');
    await add(t, { followUpId: 'm', description: 'now after all', replace: true });
    expect(textsOf(await t.claim('a'))).toEqual(['now after all']);
  });

  test('of a delivered message with the same content is a 200, with other content FAILED_PRECONDITION', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'm', description: 'x' });
    await t.turn('a');
    const same = await add(t, { followUpId: 'm', description: 'x', replace: true });
    expect(same).toMatchObject({ status: 200, body: { state: 'DELIVERED' } });
    expectError(await add(t, { followUpId: 'm', description: 'y', replace: true }), 'FAILED_PRECONDITION');
  });

  test('of an unknown, a removed or a cleared message admits it', async () => {
    const t = await working();
    await add(t, { followUpId: 'new', description: 'x', replace: true });
    await t.remove('a', 'new');
    await add(t, { followUpId: 'new', description: 'y', replace: true });
    await t.clear('a');
    await add(t, { followUpId: 'new', description: 'z', replace: true });
    expect(await order(t)).toEqual(['new z']);
  });

  test('does not count the replaced message against the limits, and a refused replacement leaves it as it is', async () => {
    const t = await working();
    const tasks = Array.from({ length: 400 }, (_, i) => ({ id: `t${i}` }));
    await t.queue('a', { followUpId: 'm', description: 'first', tasks });
    expect((await add(t, { followUpId: 'm', description: 'second', tasks, replace: true })).status).toBe(200);
    const bad = { followUpId: 'm', description: 'third', model: 'no-such-model', replace: true };
    expectError(await add(t, bad), 'INVALID_ARGUMENT', 'model');
    expect(await order(t)).toEqual(['m second']);
  });
});

describe('same content', () => {
  const written = {
    followUpId: 'm',
    description: 'x',
    tasks: [{ id: 't', subject: 's' }],
    outputSchema: '{"type":"object","title":"t"}',
  };
  test.each<[what: string, other: Fields]>([
    [
      'defaults written out',
      {
        preempt: false,
        agent: '',
        model: '',
        tasks: [
          {
            id: 't',
            subject: 's',
            description: '',
            status: 'TASK_STATUS_PENDING',
            blocks: [],
            activation: null,
            ephemeral: false,
            dedupKey: '',
            persona: 'x',
          },
        ],
      },
    ],
    [
      'another order of keys',
      { tasks: [{ subject: 's', id: 't' }], outputSchema: '{ "title": "t", "type": "object" }' },
    ],
    ['a repeated reference', { tasks: [{ id: 't', subject: 's', blocks: [] }] }],
  ])('%s is a retry', async (_what, other) => {
    const t = await working();
    await t.queue('a', written);
    expect(await add(t, { ...written, ...other })).toMatchObject({ status: 200, body: { followUpId: 'm' } });
    expect((await t.status('a')).followUps).toHaveLength(1);
  });

  test('the same instant in another zone is a retry, another instant is not', async () => {
    const t = await working();
    const at = new Date(Date.now() + 3_600_000);
    const inZone = `${new Date(at.getTime() + 7_200_000).toISOString().slice(0, -1)}+02:00`;
    await t.queue('a', { followUpId: 'm', description: 'x', deliverAt: at.toISOString() });
    expect((await add(t, { followUpId: 'm', description: 'x', deliverAt: inZone })).status).toBe(200);
    const other = new Date(at.getTime() + 1).toISOString();
    expectError(await add(t, { followUpId: 'm', description: 'x', deliverAt: other }), 'ALREADY_EXISTS');
  });

  test('a spawn repeated under its Idempotency-Key is compared by meaning too', async () => {
    const t = await newTestTenant(api);
    const headers = { 'idempotency-key': `key-${t.workspace}` };
    const send = (more: Fields) =>
      api.post('/v1/agent/spawn', { description: 'x', model: 'rehearsal-a', ...more }, headers);
    const first = await send({ agentId: { workspace: t.workspace, agent: ['once'] }, tasks: [{ id: 't' }] });
    const again = await send({
      agentId: { agent: ['once'] },
      workspace: t.workspace,
      expectedOutput: '',
      tasks: [{ ephemeral: false, id: 't' }],
    });
    expect(again).toMatchObject({ status: 200, body: first.body });
    expectError(await send({ agentId: { workspace: t.workspace, agent: ['other'] } }), 'ALREADY_EXISTS');
  });
});

describe('a setting that is already in force', () => {
  test('does not split a batch, and a changed one does', async () => {
    const t = await working();
    await t.queue('a', { description: '1', reasoningEffort: 'high' });
    await t.queue('a', { description: '2', reasoningEffort: 'high', model: 'rehearsal-a', agent: 'default' });
    await t.queue('a', { description: '3' });
    await t.queue('a', { description: '4', reasoningEffort: 'low' });
    const [first] = t.runner.runs;
    if (!first) throw new Error('no run');
    await t.runner.end(first as never);
    expect(textsOf(await t.turn('a'))).toEqual(['1', '2', '3']);
    expect(textsOf(await t.turn('a'))).toEqual(['4']);
  });

  test('lets a message join the spawn', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'spawned', reasoningEffort: 'high' });
    await t.queue('a', { description: 'same', reasoningEffort: 'high' });
    await t.queue('a', { description: 'other', reasoningEffort: 'low' });
    expect(textsOf(await t.turn('a'))).toEqual(['spawned', 'same']);
    expect(textsOf(await t.claim('a'))).toEqual(['other']);
  });
});

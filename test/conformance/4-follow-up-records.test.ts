import type { FollowUp, PendingFollowUp } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { expectRefusal } from '../support/refusal.ts';
import { writeResource } from '../support/resources.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { inAnHour, newStage, type Stage, textsOf } from '../support/stage.ts';

let server: SharedServer;
let api: Api;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
});
afterAll(() => server.close());

type Fields = Record<string, unknown>;
interface QueuePage {
  readonly followUps: PendingFollowUp[];
  readonly nextPageToken: string;
}
const add = (s: Stage, message: Fields) =>
  s.send<{ followUpId: string; state: string }>('agent/queue', 'a', message);
const page = async (s: Stage, fields: Fields = {}) =>
  (await s.send<QueuePage>('agent/queue/list', 'a', fields)).body;
const get = async (s: Stage, followUpId: string) =>
  (await s.send<FollowUp>('agent/queue/get', 'a', { followUpId })).body;

/** `a` works on its first run. */
async function working(): Promise<Stage> {
  const s = await newStage(api);
  await s.spawn('a');
  await s.start('a');
  return s;
}

describe('the size of a status', () => {
  test('decisions 18: a long message is cut at 4 KiB, at a whole character, with truncated: true', async () => {
    const s = await working();
    await s.queue('a', { followUpId: 'short', description: 'é'.repeat(2048) });
    await s.queue('a', { followUpId: 'long', description: `x${'é'.repeat(2048)}` });
    expect((await s.status('a')).followUps).toMatchObject([
      { followUpId: 'short', description: 'é'.repeat(2048), truncated: false },
      { followUpId: 'long', description: `x${'é'.repeat(2047)}`, truncated: true },
    ]);
  });

  test('decisions 18: 200 messages of 256 KiB, with schemas and personas, are a status of under 2 MiB', async () => {
    const s = await working();
    const description = 'x'.repeat(256 * 1024);
    const outputSchema = JSON.stringify({ description: 'y'.repeat(30 * 1024) });
    await writeResource(api, 'persona', 'wordy', { instructions: 'z'.repeat(20 * 1024) });
    for (let i = 0; i < 200; i += 10) {
      await Promise.all(
        Array.from({ length: 10 }, (_, j) =>
          s.queue('a', { description, ...(i + j < 100 ? { outputSchema } : { agent: 'wordy' }) }),
        ),
      );
    }
    const answer = await s.send('agent/status', 'a');
    expect(answer.status).toBe(200);
    expect(JSON.stringify(answer.body).length).toBeLessThan(2 * 1024 * 1024);
  });

  test('the personas and schemas of undelivered messages hold at most 8 MiB', async () => {
    const s = await working();
    await writeResource(api, 'persona', 'huge', { instructions: 'z'.repeat(500 * 1024) });
    const answers = [];
    for (let i = 0; i < 20; i += 1) answers.push(await add(s, { agent: 'huge' }));
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(2);
    for (const answer of refused) expectRefusal(answer, 'RESOURCE_EXHAUSTED');
    expect((await add(s, { description: 'no setting' })).status).toBe(200);
  });
});

describe('queue/list', () => {
  test('decisions 18: it pages the whole texts in the order of the status', async () => {
    const s = await working();
    const description = 'x'.repeat(5000);
    await s.queue('a', { followUpId: 'late', description, deliverAt: inAnHour() });
    for (const followUpId of ['one', 'two', 'three']) await s.queue('a', { followUpId, description });
    const first = await page(s, { pageSize: 3 });
    expect(first.followUps.map((f) => f.followUpId)).toEqual(['one', 'two', 'three']);
    expect(first.followUps[0]).toMatchObject({ description, truncated: false, state: 'QUEUED' });
    const second = await page(s, { pageSize: 3, pageToken: first.nextPageToken });
    expect(second).toMatchObject({ followUps: [{ followUpId: 'late' }], nextPageToken: '' });
    expectRefusal(await s.send('agent/queue/list', 'a', { pageToken: 'x' }), 'INVALID_ARGUMENT', 'pageToken');
  });

  test('decisions 18: a page ends at about 2 MiB, and no message is left out', async () => {
    const s = await working();
    for (let i = 0; i < 20; i += 1) await s.queue('a', { description: 'x'.repeat(256 * 1024) });
    const sizes = [];
    for (let pageToken = ''; ; ) {
      const next = await page(s, { pageToken });
      sizes.push(next.followUps.length);
      pageToken = next.nextPageToken;
      if (pageToken === '') break;
    }
    expect(sizes).toEqual([8, 8, 4]);
  });
});

describe('queue/get', () => {
  test('decisions 18: it tells the state, the run and the answer, from DEFERRED to answered', async () => {
    const s = await working();
    const tasks = [{ id: 't', subject: 'do it' }];
    await s.queue('a', { followUpId: 'later', description: 'x', deliverAt: inAnHour() });
    expect(await get(s, 'later')).toMatchObject({ state: 'DEFERRED', run: null, answered: false });
    await s.queue('a', { followUpId: 'm', description: 'x'.repeat(5000), tasks, fastMode: true });
    expect(await get(s, 'm')).toMatchObject({
      state: 'QUEUED',
      description: 'x'.repeat(5000),
      fastMode: true,
      tasks: [{ id: 't', subject: 'do it' }],
      run: null,
      answered: false,
      answer: '',
    });
    const [first] = s.runner.runs;
    if (!first) throw new Error('no run');
    await s.runner.end(first as never, 'COMPLETED', { response: 'first' });
    const handedBack = await s.start('a');
    expect(await get(s, 'm')).toMatchObject({ state: 'DELIVERED', run: { runId: '2' }, answered: false });
    await s.end(handedBack, 'HANDED_BACK');
    expect(await get(s, 'm')).toMatchObject({ run: { outcome: 'HANDED_BACK' }, answered: false, answer: '' });
    await s.turn('a', { response: 'second' });
    expect(await get(s, 'm')).toMatchObject({
      run: { runId: '3', batch: '2', outcome: 'COMPLETED' },
      answered: true,
      answer: 'second',
    });
  });

  test('decisions 18: a removed one can be read until its id is used again; an unknown one is NOT_FOUND', async () => {
    const s = await working();
    await s.queue('a', { followUpId: 'm', description: 'first' });
    await s.remove('a', 'm');
    expect(await get(s, 'm')).toMatchObject({
      state: 'REMOVED',
      description: 'first',
      answered: true,
      answer: '',
    });
    expect((await s.status('a')).followUps).toEqual([]);
    await s.queue('a', { followUpId: 'm', description: 'second' });
    expect(await get(s, 'm')).toMatchObject({ state: 'QUEUED', description: 'second' });
    expectRefusal(await s.send('agent/queue/get', 'a', { followUpId: 'never' }), 'NOT_FOUND');
  });
});

describe('replace', () => {
  const order = async (s: Stage) =>
    (await s.status('a')).followUps.map((f) => `${f.followUpId} ${f.description}`);

  test('decisions 18: an undelivered message gets new content in last place', async () => {
    const s = await working();
    await s.queue('a', { followUpId: 'm', description: 'first', tasks: [{ id: 't' }] });
    await s.queue('a', { followUpId: 'n', description: 'other' });
    const answer = await add(s, {
      followUpId: 'm',
      description: 'second',
      tasks: [{ id: 't' }],
      replace: true,
    });
    expect(answer).toMatchObject({ status: 200, body: { followUpId: 'm', state: 'QUEUED' } });
    expect(await order(s)).toEqual(['n other', 'm second']);
    expectRefusal(await add(s, { followUpId: 'm', description: 'third' }), 'ALREADY_EXISTS');
  });

  test('decisions 18: the same content again changes nothing', async () => {
    const s = await working();
    await s.queue('a', { followUpId: 'm', description: 'x' });
    await s.queue('a', { followUpId: 'n', description: 'other' });
    await add(s, { followUpId: 'm', description: 'x', replace: true });
    expect(await order(s)).toEqual(['m x', 'n other']);
  });

  test('decisions 18: a queued one may become deferred and back, and the agent rests or wakes by it', async () => {
    const s = await newStage(api);
    await s.rested('a');
    await s.queue('a', { followUpId: 'm', description: 'now' });
    await add(s, { followUpId: 'm', description: 'later', deliverAt: inAnHour(), replace: true });
    expect(await s.phase('a')).toBe('WAITING_FOR_INPUT/DEFERRED');
    await add(s, { followUpId: 'm', description: 'now after all', replace: true });
    expect(textsOf(await s.claim('a'))).toEqual(['now after all']);
  });

  test('decisions 18: delivered: the same content is a 200, other content FAILED_PRECONDITION', async () => {
    const s = await newStage(api);
    await s.rested('a');
    await s.queue('a', { followUpId: 'm', description: 'x' });
    await s.turn('a');
    const same = await add(s, { followUpId: 'm', description: 'x', replace: true });
    expect(same).toMatchObject({ status: 200, body: { state: 'DELIVERED' } });
    expectRefusal(await add(s, { followUpId: 'm', description: 'y', replace: true }), 'FAILED_PRECONDITION');
  });

  test('decisions 18: an unknown, a removed and a cleared one are admitted', async () => {
    const s = await working();
    await add(s, { followUpId: 'new', description: 'x', replace: true });
    await s.remove('a', 'new');
    await add(s, { followUpId: 'new', description: 'y', replace: true });
    await s.clear('a');
    await add(s, { followUpId: 'new', description: 'z', replace: true });
    expect(await order(s)).toEqual(['new z']);
  });

  test('what is replaced does not count against the limits, and a refused replacement leaves it as it is', async () => {
    const s = await working();
    const tasks = Array.from({ length: 400 }, (_, i) => ({ id: `t${i}` }));
    await s.queue('a', { followUpId: 'm', description: 'first', tasks });
    expect((await add(s, { followUpId: 'm', description: 'second', tasks, replace: true })).status).toBe(200);
    const bad = { followUpId: 'm', description: 'third', model: 'no-such-model', replace: true };
    expectRefusal(await add(s, bad), 'INVALID_ARGUMENT', 'model');
    expect(await order(s)).toEqual(['m second']);
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
  ])('decisions 18: %s is a retry', async (_what, other) => {
    const s = await working();
    await s.queue('a', written);
    expect(await add(s, { ...written, ...other })).toMatchObject({ status: 200, body: { followUpId: 'm' } });
    expect((await s.status('a')).followUps).toHaveLength(1);
  });

  test('decisions 18: the same instant in another zone is a retry, another instant is not', async () => {
    const s = await working();
    const at = new Date(Date.now() + 3_600_000);
    const inZone = `${new Date(at.getTime() + 7_200_000).toISOString().slice(0, -1)}+02:00`;
    await s.queue('a', { followUpId: 'm', description: 'x', deliverAt: at.toISOString() });
    expect((await add(s, { followUpId: 'm', description: 'x', deliverAt: inZone })).status).toBe(200);
    const other = new Date(at.getTime() + 1).toISOString();
    expectRefusal(await add(s, { followUpId: 'm', description: 'x', deliverAt: other }), 'ALREADY_EXISTS');
  });

  test('decisions 18: a spawn repeated under its Idempotency-Key is compared by meaning too', async () => {
    const s = await newStage(api);
    const headers = { 'idempotency-key': `key-${s.workspace}` };
    const send = (more: Fields) =>
      api.post('/v1/agent/spawn', { description: 'x', model: 'rehearsal-a', ...more }, headers);
    const first = await send({ agentId: { workspace: s.workspace, agent: ['once'] }, tasks: [{ id: 't' }] });
    const again = await send({
      agentId: { agent: ['once'] },
      workspace: s.workspace,
      expectedOutput: '',
      tasks: [{ ephemeral: false, id: 't' }],
    });
    expect(again).toMatchObject({ status: 200, body: first.body });
    expectRefusal(await send({ agentId: { workspace: s.workspace, agent: ['other'] } }), 'ALREADY_EXISTS');
  });
});

describe('a setting that is in force', () => {
  test('decisions 18: it does not split a batch, and one that changes something does', async () => {
    const s = await working();
    await s.queue('a', { description: '1', reasoningEffort: 'high' });
    await s.queue('a', { description: '2', reasoningEffort: 'high', model: 'rehearsal-a', agent: 'default' });
    await s.queue('a', { description: '3' });
    await s.queue('a', { description: '4', reasoningEffort: 'low' });
    const [first] = s.runner.runs;
    if (!first) throw new Error('no run');
    await s.runner.end(first as never);
    expect(textsOf(await s.turn('a'))).toEqual(['1', '2', '3']);
    expect(textsOf(await s.turn('a'))).toEqual(['4']);
  });

  test('decisions 18: a message with the spawn’s own settings joins the spawn', async () => {
    const s = await newStage(api);
    await s.spawn('a', { description: 'spawned', reasoningEffort: 'high' });
    await s.queue('a', { description: 'same', reasoningEffort: 'high' });
    await s.queue('a', { description: 'other', reasoningEffort: 'low' });
    expect(textsOf(await s.turn('a'))).toEqual(['spawned', 'same']);
    expect(textsOf(await s.claim('a'))).toEqual(['other']);
  });
});

import { describe, expect, test } from 'vitest';
import type { Fields } from '../support/agents.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, inMs, newTestTenant, newWorkingTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const day = 86_400_000;

const working = async (spawn?: Fields) => (await newWorkingTenant(api, spawn)).t;

describe('queue-add: the agent', () => {
  test('a message to a working agent is queued and returns its id', async () => {
    const t = await working();
    const { status, body } = await t.add({ description: 'hello', followUpId: 'mine' });
    expect({ status, body }).toEqual({
      status: 200,
      body: { followUpId: 'mine', state: 'QUEUED', wakesAt: null },
    });
    expect((await t.status('a')).followUps).toMatchObject([
      { followUpId: 'mine', state: 'QUEUED', description: 'hello' },
    ]);
  });

  test('pending and idle agents accept messages too', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expect((await t.add({ description: 'pending' })).status).toBe(200);
    await t.turn('a');
    expect((await t.add({ description: 'resting' })).status).toBe(200);
  });

  test.each<[phase: string, end: (t: TestTenant) => Promise<unknown>]>([
    ['COMPLETED', (t) => t.turn('a', { finished: true })],
    [
      'FAILED',
      async (t) =>
        t.end(await t.start('a'), 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'x' } }),
    ],
    ['CANCELED', (t) => t.kill('a')],
  ])('an agent that is %s is NOT_FOUND', async (phase, end) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await end(t);
    expect((await t.status('a')).phase).toBe(`PHASE_${phase}`);
    for (const message of [{}, { preempt: true }, { deliverAt: inAnHour() }]) {
      expectError(await t.add({ description: 'too late', ...message }), 'NOT_FOUND');
    }
  });

  test('a message without description, task or setting is refused', async () => {
    const t = await working();
    for (const empty of [
      {},
      { description: '' },
      { tasks: [] },
      { preempt: true },
      { deliverAt: inAnHour() },
      { followUpId: 'x' },
      { agent: '', model: '', reasoningEffort: '', serviceTier: '', outputSchema: '' },
    ]) {
      expectError(await t.add(empty), 'INVALID_ARGUMENT');
    }
    expect((await t.status('a')).followUps).toEqual([]);
  });

  test.each<[what: string, message: Fields]>([
    ['a description', { description: 'x' }],
    ['a task', { tasks: [{ subject: 'x' }] }],
    ['a persona', { agent: 'reviewer' }],
    ['a model', { model: 'opus' }],
    ['an effort', { reasoningEffort: 'low' }],
    ['fast mode', { fastMode: false }],
    ['a schema', { outputSchema: '{}' }],
  ])('a message with only %s is accepted', async (_what, message) => {
    expect((await (await working()).add(message)).status).toBe(200);
  });

  test('a description of 256 KiB is accepted, a longer one is not, counted in bytes', async () => {
    const t = await working();
    expect((await t.add({ description: 'x'.repeat(256 * 1024) })).status).toBe(200);
    expectError(await t.add({ description: 'x'.repeat(256 * 1024 + 1) }), 'INVALID_ARGUMENT', 'description');
    expectError(await t.add({ description: 'é'.repeat(128 * 1024 + 1) }), 'INVALID_ARGUMENT', 'description');
  });

  test('an agent has at most 1,000 undelivered messages, deferred ones included', async () => {
    const t = await working();
    for (let i = 0; i < 1000; i += 50) {
      await Promise.all(
        Array.from({ length: 50 }, (_, j) =>
          t.queue('a', { description: 'x', ...((i + j) % 2 === 0 && { deliverAt: inAnHour() }) }),
        ),
      );
    }
    for (const more of [{}, { deliverAt: inAnHour() }]) {
      const answer = await t.add({ description: 'one too many', ...more });
      expectError(answer, 'RESOURCE_EXHAUSTED');
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
    }
    expect(await t.clear('a')).toBe(500);
    expect((await t.add({ description: 'room again' })).status).toBe(200);
  });
});

describe('queue-add: ids', () => {
  test('a generated id is a UUID, a given one is kept; 1 to 128 characters', async () => {
    const t = await working();
    expect((await t.add({ description: 'x' })).body.followUpId).toMatch(
      /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
    );
    const long = 'i'.repeat(128);
    expect(await t.queue('a', { description: 'x', followUpId: long })).toBe(long);
    expect(await t.queue('a', { description: 'x', followUpId: 'ä/ b' })).toBe('ä/ b');
    expectError(await t.add({ description: 'x', followUpId: `${long}i` }), 'INVALID_ARGUMENT', 'followUpId');
  });

  test('a known id with the same content is one message', async () => {
    const t = await working();
    const message = { followUpId: 'one', description: 'x', tasks: [{ subject: 't' }], fastMode: true };
    const answers = await Promise.all(Array.from({ length: 8 }, () => t.add(message)));
    for (const answer of answers) {
      expect(answer).toMatchObject({ status: 200, body: { followUpId: 'one' } });
    }
    expect((await t.status('a')).followUps).toHaveLength(1);
    expect(await t.historyOf('one')).toHaveLength(1);
  });

  test.each<[field: string, other: unknown]>([
    ['description', 'y'],
    ['tasks', [{ subject: 't' }]],
    ['agent', 'reviewer'],
    ['model', 'opus'],
    ['reasoningEffort', 'low'],
    ['fastMode', true],
    ['outputSchema', '{}'],
    ['preempt', true],
    ['deliverAt', inAnHour()],
  ])('a known id with another %s is ALREADY_EXISTS', async (field, other) => {
    const t = await working();
    await t.queue('a', { followUpId: 'one', description: 'x' });
    const before = await t.status('a');
    expectError(await t.add({ followUpId: 'one', description: 'x', [field]: other }), 'ALREADY_EXISTS');
    expect(await t.status('a')).toEqual(before);
  });

  test('ids are per agent', async () => {
    const t = await working();
    await t.spawn('b');
    await t.queue('a', { followUpId: 'shared', description: 'x' });
    await t.queue('b', { followUpId: 'shared', description: 'y' });
    expect((await t.status('b')).followUps).toMatchObject([{ followUpId: 'shared', description: 'y' }]);
  });

  test('a known id gets its reply before the check of deliverAt, which has passed', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const message = { followUpId: 'timed', description: 'x', deliverAt: inMs(500) };
    await t.queue('a', message);
    await t.turn('a');
    expect(Date.parse(message.deliverAt)).toBeLessThanOrEqual(Date.now());
    expect(await t.add(message)).toMatchObject({ status: 200, body: { followUpId: 'timed' } });
    expectError(await t.add({ ...message, description: 'y' }), 'ALREADY_EXISTS');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test.each<[state: string, end: (t: TestTenant) => Promise<unknown>]>([
    [
      'delivered',
      async (t) => {
        await t.turn('a');
        await t.turn('a', { finished: true });
      },
    ],
    ['cleared', (t) => t.kill('a')],
  ])('a known id that was %s gets its reply even if the agent has ended', async (_state, end) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const message = { followUpId: 'known', description: 'x', fastMode: true };
    await t.queue('a', message);
    await end(t);
    expect((await t.status('a')).endedAt).not.toBeNull();
    expect(await t.add(message)).toMatchObject({ status: 200, body: { followUpId: 'known' } });
    expectError(await t.add({ ...message, description: 'y' }), 'ALREADY_EXISTS');
    expectError(await t.add({ followUpId: 'unknown', description: 'x' }), 'NOT_FOUND');
  });

  test('a known id with other content is ALREADY_EXISTS even where that content is invalid', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'one', description: 'x' });
    for (const wrong of [
      { model: 'gpt-x' },
      { agent: 'nobody' },
      { reasoningEffort: 'none' },
      { deliverAt: inMs(-day) },
    ]) {
      expectError(await t.add({ followUpId: 'one', description: 'x', ...wrong }), 'ALREADY_EXISTS');
    }
  });

  test('a known id does not preempt again', async () => {
    const t = await working();
    const message = { followUpId: 'now', description: 'now', preempt: true };
    await t.queue('a', message);
    await t.queue('a', 'behind');
    expect((await t.add(message)).status).toBe(200);
    const { followUps } = await t.status('a');
    expect(followUps.map(({ description }) => description)).toEqual(['now', 'behind']);
  });

  test('a generated id is known like any other', async () => {
    const t = await working();
    const followUpId = await t.queue('a', 'x');
    expect((await t.add({ followUpId, description: 'x' })).status).toBe(200);
    expectError(await t.add({ followUpId, description: 'other' }), 'ALREADY_EXISTS');
    expect((await t.status('a')).followUps).toHaveLength(1);
  });

  test('after a clear the id is free again, for the same content and for other', async () => {
    const t = await working();
    for (const description of ['x', 'x', 'other']) {
      await t.queue('a', { followUpId: 'free', description });
      expect((await t.status('a')).followUps).toMatchObject([{ followUpId: 'free', description }]);
      await t.clear('a');
    }
  });

  test('a message that was cleared by the end of its agent is still known to a retry', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'gone', description: 'x' });
    await t.kill('a');
    const retried = await t.add({ followUpId: 'gone', description: 'x' });
    expect(retried).toMatchObject({ status: 200, body: { state: 'CLEARED' } });
    expectError(await t.add({ followUpId: 'gone', description: 'other' }), 'ALREADY_EXISTS');
  });

  test('after a remove the id is free again, for other content too', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'free', description: 'x' });
    await t.remove('a', 'free');
    expect(await t.queue('a', { followUpId: 'free', description: 'other' })).toBe('free');
    expect((await t.status('a')).followUps).toMatchObject([{ followUpId: 'free', description: 'other' }]);
    expect((await t.timeline('a', 'FOLLOW_UP_QUEUED')).map(({ text }) => text)).toEqual(['x', 'other']);
  });
});

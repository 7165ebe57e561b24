import { describe, expect, test } from 'vitest';
import type { Fields } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, inMs, newTestTenant, newWorkingTenant, textsOf } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const day = 86_400_000;

const working = async (spawn?: Fields) => (await newWorkingTenant(api, spawn)).t;

describe('queue-add: preempt', () => {
  test('clears the queue, interrupts the turn and runs next', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const old = [await t.queue('a', 'one'), await t.queue('a', { description: 'two', model: 'opus' })];
    const now = await t.queue('a', { description: 'now', preempt: true });
    expect(await t.phase('a')).toBe('RUNNING/STOPPING');
    expect((await t.status('a')).followUps.map((f) => f.followUpId)).toEqual([now]);
    for (const id of old) {
      expect(await t.historyOf(id)).toMatchObject([
        { type: 'FOLLOW_UP_QUEUED', to: 'QUEUED' },
        { type: 'FOLLOW_UP_CLEARED', from: 'QUEUED', to: 'CLEARED' },
      ]);
    }
    await t.end(run, 'INTERRUPTED');
    const next = await t.claim('a');
    expect(next.messages).toMatchObject([{ followUpId: now, text: 'now' }]);
    expect((await t.status('a')).model).toBe('rehearsal-a');
  });

  test('of an idle agent interrupts nothing; the message runs next', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', 'one');
    await t.queue('a', { description: 'now', preempt: true });
    expect(textsOf(await t.claim('a'))).toEqual(['now']);
  });

  test('keeps deferred messages', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'later', description: 'l', deliverAt: inAnHour() });
    await t.queue('a', { description: 'now', preempt: true });
    expect((await t.status('a')).followUps).toContainEqual(
      expect.objectContaining({ followUpId: 'later', state: 'DEFERRED' }),
    );
  });

  test('is atomic: a refused preempt clears and stops nothing', async () => {
    const t = await working();
    await t.queue('a', 'one');
    const before = await t.status('a');
    for (const wrong of [{ model: 'gpt-x' }, { agent: 'nobody' }, { deliverAt: inAnHour() }]) {
      expectError(await t.add({ description: 'x', preempt: true, ...wrong }), 'INVALID_ARGUMENT');
    }
    expect(await t.status('a')).toEqual(before);
  });

  test('of two concurrent preempts the later clears the earlier, and one message is left', async () => {
    const t = await working();
    const ids = await Promise.all([1, 2, 3].map(() => t.queue('a', { description: 'now', preempt: true })));
    const { followUps } = await t.status('a');
    expect(followUps).toHaveLength(1);
    expect(ids).toContain(followUps[0]?.followUpId);
    expect(await t.timeline('a', 'FOLLOW_UP_CLEARED')).toHaveLength(2);
  });
});

describe('queue-add: deliverAt', () => {
  test('must be in the future and at most 30 days ahead', async () => {
    const t = await working();
    for (const deliverAt of [
      // RFC 3339 has leap seconds; the database cannot store them.
      '2099-12-31T23:59:60Z',
      inMs(-1),
      inMs(-day),
      '1970-01-01T00:00:00Z',
      inMs(30 * day + 60_000),
      inMs(365 * day),
    ]) {
      expectError(await t.add({ description: 'x', deliverAt }), 'INVALID_ARGUMENT', 'deliverAt');
    }
    expect((await t.add({ description: 'x', deliverAt: inMs(30 * day - 60_000) })).status).toBe(200);
  });

  test('excludes preempt', async () => {
    expectError(
      await (await working()).add({ description: 'x', deliverAt: inAnHour(), preempt: true }),
      'INVALID_ARGUMENT',
      /^(deliverAt|preempt)$/,
    );
    const t = await working();
    expect((await t.add({ description: 'x', deliverAt: inAnHour(), preempt: false })).status).toBe(200);
  });

  test('several deferred messages may coexist', async () => {
    const t = await working();
    for (const minutes of [30, 10, 20]) {
      await t.queue('a', {
        followUpId: `in-${minutes}`,
        description: 'x',
        deliverAt: inMs(minutes * 60_000),
      });
    }
    const states = (await t.status('a')).followUps.map(({ followUpId, state }) => [followUpId, state]);
    expect(states.toSorted()).toEqual([
      ['in-10', 'DEFERRED'],
      ['in-20', 'DEFERRED'],
      ['in-30', 'DEFERRED'],
    ]);
  });

  test('at its time the message joins the queue and wakes an idle agent', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'timed', description: 'wake', deliverAt: inMs(500) });
    expect(await t.historyOf('timed')).toMatchObject([{ type: 'FOLLOW_UP_DEFERRED', to: 'DEFERRED' }]);
    const run = await t.claim('a');
    expect(run.messages).toMatchObject([{ followUpId: 'timed', text: 'wake' }]);
    expect(await t.historyOf('timed')).toMatchObject([
      { type: 'FOLLOW_UP_DEFERRED', to: 'DEFERRED', runId: '0' },
      { type: 'FOLLOW_UP_QUEUED', from: 'DEFERRED', to: 'QUEUED' },
      { type: 'FOLLOW_UP_DELIVERED', from: 'QUEUED', to: 'DELIVERED', runId: '2' },
    ]);
  });

  test('is changed by removing the message and adding it again', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'alarm', description: 'x', deliverAt: inAnHour() });
    expect(await t.remove('a', 'alarm')).toBe(true);
    const deliverAt = inMs(2 * 3_600_000);
    await t.queue('a', { followUpId: 'alarm', description: 'x', deliverAt });
    const [alarm] = (await t.status('a')).followUps;
    expect(Date.parse(alarm?.deliverAt ?? '')).toBe(Date.parse(deliverAt));
  });

  test('is accepted by an agent with no runner yet', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expect((await t.add({ description: 'x', deliverAt: inAnHour() })).status).toBe(200);
  });

  test('on a build without deferral support is FAILED_PRECONDITION, and only deliverAt is', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.claim('a', { capabilities: [] });
    expectError(await t.add({ description: 'x', deliverAt: inAnHour() }), 'FAILED_PRECONDITION');
    expect((await t.add({ description: 'x' })).status).toBe(200);
    expect(await t.clear('a')).toBe(1);
    await t.end(run);
    expectError(await t.add({ description: 'x', deliverAt: inAnHour() }), 'FAILED_PRECONDITION');
  });
});

describe('states of a follow-up', () => {
  test('QUEUED to DELIVERED, with the run', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'one', description: 'x' });
    expect((await t.status('a')).followUps).toMatchObject([{ followUpId: 'one', state: 'QUEUED' }]);
    await t.claim('a');
    expect(await t.historyOf('one')).toMatchObject([
      { type: 'FOLLOW_UP_QUEUED', to: 'QUEUED' },
      { type: 'FOLLOW_UP_DELIVERED', from: 'QUEUED', to: 'DELIVERED', runId: '2' },
    ]);
    expect((await t.status('a')).followUps).toEqual([]);
  });

  test('a retried batch delivers its messages once', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.queue('a', { followUpId: 'one', description: 'x' });
    await t.end(await t.start('a'), 'HANDED_BACK');
    expect((await t.claim('a')).messages).toHaveLength(2);
    expect((await t.historyOf('one')).map(({ type }) => type)).toEqual([
      'FOLLOW_UP_QUEUED',
      'FOLLOW_UP_DELIVERED',
    ]);
  });

  test('remove removes a queued or a deferred message, once', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'queued', description: 'x' });
    await t.queue('a', { followUpId: 'deferred', description: 'x', deliverAt: inAnHour() });
    for (const [id, from] of [
      ['queued', 'QUEUED'],
      ['deferred', 'DEFERRED'],
    ] as const) {
      expect(await t.remove('a', id)).toBe(true);
      expect((await t.historyOf(id)).at(-1)).toMatchObject({
        type: 'FOLLOW_UP_REMOVED',
        from,
        to: 'REMOVED',
      });
      expect(await t.remove('a', id)).toBe(false);
      expect(await t.historyOf(id)).toHaveLength(2);
    }
    expect((await t.status('a')).followUps).toEqual([]);
  });

  test('remove returns false for a message delivered, cleared or never queued, and on an ended agent', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.queue('a', { followUpId: 'delivered', description: 'x' });
    await t.start('a');
    await t.queue('a', { followUpId: 'cleared', description: 'x' });
    await t.clear('a');
    for (const id of ['delivered', 'cleared', 'never']) expect(await t.remove('a', id)).toBe(false);
    await t.kill('a');
    expect(await t.remove('a', 'delivered')).toBe(false);
  });

  test('one of two concurrent removes succeeds', async () => {
    const t = await working();
    const id = await t.queue('a', 'x');
    const removed = await Promise.all([1, 2, 3].map(() => t.remove('a', id)));
    expect(removed.filter(Boolean)).toHaveLength(1);
  });

  test('clear discards all queued messages and returns their number; deferred ones stay', async () => {
    const t = await working();
    const ids = [await t.queue('a', 'one'), await t.queue('a', 'two'), await t.queue('a', { model: 'opus' })];
    await t.queue('a', { followUpId: 'later', description: 'x', deliverAt: inAnHour() });
    expect(await t.clear('a')).toBe(3);
    for (const id of ids) {
      expect((await t.historyOf(id)).at(-1)).toMatchObject({
        type: 'FOLLOW_UP_CLEARED',
        from: 'QUEUED',
        to: 'CLEARED',
      });
    }
    expect((await t.status('a')).followUps).toMatchObject([{ followUpId: 'later', state: 'DEFERRED' }]);
    expect(await t.clear('a')).toBe(0);
    expect(await t.phase('a')).toBe('RUNNING/WORKING');
    await t.kill('a');
    expect(await t.clear('a')).toBe(0);
  });

  test('a deferred message that is due is cleared like any other', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'due', description: 'x', deliverAt: inMs(400) });
    await until(
      'it queued',
      async () => (await t.status('a')).followUps[0]?.state,
      (state) => state === 'QUEUED',
    );
    expect(await t.clear('a')).toBe(1);
    expect((await t.historyOf('due')).map(({ from, to }) => `${from ?? ''} → ${to}`).slice(1)).toEqual([
      'DEFERRED → QUEUED',
      'QUEUED → CLEARED',
    ]);
  });

  test('messages are shown and delivered in the order of their admission', async () => {
    const t = await working();
    const ids: string[] = [];
    for (let i = 0; i < 20; i += 1) ids.push(await t.queue('a', `message ${i}`));
    expect((await t.status('a')).followUps.map(({ followUpId }) => followUpId)).toEqual(ids);
    await t.stop('a', 1, 'KILL');
    await t.runner.report({ agentKey: t.runner.runs[0]?.agentKey ?? '', runId: 1 }, { gone: true });
    expect((await t.claim('a')).messages.map(({ followUpId }) => followUpId)).toEqual(ids);
  });
});

test("deferral support follows the capability of the runner's latest poll", async () => {
  const t = await newTestTenant(api);
  await t.rested('a');
  const deferred = () => t.add({ description: 'x', deliverAt: inAnHour() });
  expect((await deferred()).status).toBe(200);
  await t.runner.poll({ capabilities: [] });
  expectError(await deferred(), 'FAILED_PRECONDITION');
  await t.runner.poll({ capabilities: ['deferral'] });
  expect((await deferred()).status).toBe(200);
  // A restart with an older build is another runner of the same name that has not claimed anything yet.
  await t.runner.poll({ leaving: true });
  const older = new FakeRunner(
    (await createKey(api, { role: 'runner', pool: t.workspace })).api,
    t.runner.name,
  );
  await older.poll({ capabilities: [] });
  expectError(await deferred(), 'FAILED_PRECONDITION');
});

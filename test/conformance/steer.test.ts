import type { Claim, Steer } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { accepted } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import {
  inAnHour,
  newTestTenant,
  newWorkingTenant,
  type TestTenant,
  textsOf,
} from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

/** What a poll brings for the running turns. */
async function steersOf(t: TestTenant, more: object = {}): Promise<Steer[]> {
  return accepted('poll', await t.runner.poll({ ...more })).steers;
}

const settled = ({ followUpId, sequence }: Steer, taken = true) => ({ followUpId, sequence, taken });

async function takenBy(t: TestTenant, run: Claim): Promise<Steer> {
  const [steer] = await steersOf(t);
  if (!steer) throw new Error('no steering message');
  await t.report(run, { steers: [settled(steer)] });
  return steer;
}

const steering = (t: TestTenant, text: string, more: object = {}) =>
  t.queue('a', { description: text, steer: true, ...more });

describe('queue-add: steer', () => {
  test('is queued until the runner says that the harness took it, overtakes, and is part of the batch', async () => {
    const { t, run } = await newWorkingTenant(api);
    const before = await t.queue('a', 'one');
    const polling = steersOf(t, { waitMs: 20_000, free: { real: 0, rehearsed: 0 } });
    const tasks = [
      { id: 'once', subject: 'Once', ephemeral: true },
      { id: 'always', subject: 'Always' },
    ];
    const id = await steering(t, 'turn left', { tasks });
    // The poll was open: it returns because of the message.
    const steers = await polling;
    expect(steers).toMatchObject([{ runId: 1, followUpId: id, text: 'turn left' }]);
    expect(steers[0]?.tasks.map((task) => task.id)).toEqual(['once', 'always']);
    expect((await t.status('a')).followUps).toMatchObject([
      { followUpId: before, state: 'QUEUED', steer: false },
      { followUpId: id, state: 'QUEUED', steer: true },
    ]);
    expect(await t.tasks('a')).toEqual([]);

    const report = { steers: steers.map((steer) => settled(steer)) };
    await t.report(run, report);
    expect(await t.historyOf(id)).toMatchObject([
      { type: 'FOLLOW_UP_QUEUED', to: 'QUEUED' },
      { type: 'FOLLOW_UP_DELIVERED', from: 'QUEUED', to: 'DELIVERED', runId: '1' },
    ]);
    const status = await t.status('a');
    expect(status.followUps.map(({ followUpId }) => followUpId)).toEqual([before]);
    expect(status.run?.followUpIds).toEqual([id]);
    expect(status.tasks.map((task) => task.id)).toEqual(['once', 'always']);
    expect(await steersOf(t)).toEqual([]);
    // The same report again changes nothing.
    const { sequence } = (await t.timeline('a')).at(-1) ?? {};
    accepted('repeated', await t.runner.report(run, report, 2));
    expect((await t.timeline('a')).at(-1)?.sequence).toBe(sequence);

    await t.end(run);
    // Its ephemeral task left with the batch.
    expect((await t.tasks('a')).map((task) => task.id)).toEqual(['always']);
    expect(textsOf(await t.claim('a'))).toEqual(['one']);
  });

  test('a retried batch includes it', async () => {
    const { t, run } = await newWorkingTenant(api);
    const id = await steering(t, 'turn left');
    await takenBy(t, run);
    await t.end(run, 'HANDED_BACK');
    const again = await t.claim('a');
    expect(again).toMatchObject({
      attempt: 2,
      messages: [{ text: 'work' }, { followUpId: id, text: 'turn left' }],
    });
    expect((await t.status('a')).run?.followUpIds).toEqual([id]);
  });

  test('one that the runner did not confirm is offered to the run that retries the batch', async () => {
    const { t, run } = await newWorkingTenant(api);
    const id = await steering(t, 'turn left');
    expect(await steersOf(t)).toHaveLength(1);
    await t.end(run, 'HANDED_BACK');
    const again = await t.start('a');
    expect(textsOf(again)).toEqual(['work']);
    expect(await steersOf(t)).toMatchObject([{ runId: 2, followUpId: id }]);
    await t.end(again);
    expect(textsOf(await t.claim('a'))).toEqual(['turn left']);
  });

  test('waits while the run is starting', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.claim('a');
    const id = await steering(t, 'turn left');
    expect(await steersOf(t)).toEqual([]);
    const polling = steersOf(t, { waitMs: 20_000, free: { real: 0, rehearsed: 0 } });
    await t.report(run, { started: true });
    expect(await polling).toMatchObject([{ runId: 1, followUpId: id }]);
  });

  test('is an ordinary message without a turn, while one is stopping, and for a runner that can not steer', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const idle = await steering(t, 'idle');
    expect((await t.status('a')).followUps).toMatchObject([{ followUpId: idle, steer: false }]);
    const run = await t.start('a');
    expect(textsOf(run)).toEqual(['idle']);

    await steering(t, 'unable');
    expect(await steersOf(t, { capabilities: ['deferral'] })).toEqual([]);
    await t.stop('a', run.runId);
    await steering(t, 'stopping');
    expect(await steersOf(t)).toEqual([]);
    await t.end(run, 'INTERRUPTED');
    expect(textsOf(await t.claim('a'))).toEqual(['unable', 'stopping']);
  });

  test('one that the harness refused becomes an ordinary message', async () => {
    const { t, run } = await newWorkingTenant(api);
    await steering(t, 'late');
    const [steer] = await steersOf(t);
    if (!steer) throw new Error('no steering message');
    await t.report(run, { steers: [settled(steer, false)] });
    expect(await steersOf(t)).toEqual([]);
    expect((await t.status('a')).followUps).toMatchObject([{ state: 'QUEUED', steer: false }]);
    await t.end(run);
    expect(textsOf(await t.claim('a'))).toEqual(['late']);
  });

  test('may not be combined with preempt, deliverAt or a setting', async () => {
    const { t } = await newWorkingTenant(api);
    for (const wrong of [
      { preempt: true },
      { deliverAt: inAnHour() },
      { model: 'rehearsal-a' },
      { agent: 'reviewer' },
      { outputSchema: '{}' },
    ])
      expectError(await t.add({ description: 'x', steer: true, ...wrong }), 'INVALID_ARGUMENT', 'steer');
    expectError(await t.add({ steer: true }), 'INVALID_ARGUMENT', 'description');
    expect((await t.add({ description: 'x', steer: false, preempt: true })).status).toBe(200);
  });

  test('is part of the content of a message', async () => {
    const { t } = await newWorkingTenant(api);
    const message = { followUpId: 'mine', description: 'x', steer: true };
    await t.queue('a', message);
    await t.queue('a', message);
    expectError(await t.add({ ...message, steer: false }), 'ALREADY_EXISTS');
    expect(await t.followUpIds('a')).toEqual(['mine']);
  });

  test('is offered again until the runner lists it, and at most 20 at a time', async () => {
    const { t, run } = await newWorkingTenant(api);
    for (let i = 0; i < 21; i += 1) await steering(t, `message ${i}`);
    const first = await steersOf(t);
    expect(first).toEqual(await steersOf(t));
    expect(first.map(({ text }) => text)).toEqual(Array.from({ length: 20 }, (_, i) => `message ${i}`));
    const [held] = t.runner.runs;
    if (held) held.steers = first.map(({ sequence }) => sequence);
    expect(await steersOf(t)).toEqual([]);
    await t.report(run, { steers: first.slice(0, 2).map((steer) => settled(steer)) });
    if (held) held.steers = first.slice(2).map(({ sequence }) => sequence);
    expect((await steersOf(t)).map(({ text }) => text)).toEqual(['message 20']);
  });

  test('large messages come in several replies', async () => {
    const { t } = await newWorkingTenant(api);
    for (let i = 0; i < 6; i += 1) await steering(t, 'x'.repeat(240 * 1024));
    expect(await steersOf(t)).toHaveLength(4);
  });

  test('a removed or replaced one that the harness had already taken is a warning', async () => {
    const { t, run } = await newWorkingTenant(api);
    await steering(t, 'old', { followUpId: 'mine' });
    const [old] = await steersOf(t);
    if (!old) throw new Error('no steering message');
    await steering(t, 'new', { followUpId: 'mine', replace: true });
    const [replacing] = await steersOf(t);
    expect(replacing).toMatchObject({ followUpId: 'mine', text: 'new' });
    await t.report(run, { steers: [settled(old)] });
    expect((await t.status('a')).followUps).toMatchObject([
      { followUpId: 'mine', state: 'QUEUED', steer: true },
    ]);
    expect(await t.remove('a', 'mine')).toBe(true);
    expect(await steersOf(t)).toEqual([]);
    if (replacing) await t.report(run, { steers: [settled(replacing), settled(replacing, false)] });
    expect((await t.timeline('a', 'WARNING')).map(({ text }) => text)).toEqual(
      Array(2).fill('The message "mine" was removed or replaced, but the agent had already got it.'),
    );
    await t.end(run);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('a confirmation after the run was killed, or by another run, is refused', async () => {
    const { t, run } = await newWorkingTenant(api);
    const id = await steering(t, 'turn left');
    const [steer] = await steersOf(t);
    if (!steer) throw new Error('no steering message');
    await t.stop('a', run.runId, 'KILL');
    expectError(await t.runner.report(run, { steers: [settled(steer)] }), 'ABORTED');
    expect(await t.followUpIds('a')).toEqual([id]);
    await t.report(run, { gone: true });
    expect(textsOf(await t.claim('a'))).toEqual(['turn left']);
    await t.kill('a');
    expect(await t.movesOf('a')).toEqual([`${id}: QUEUED → DELIVERED`]);
  });

  test('taken while the turn is stopping, or with its end, it belongs to that turn; a preempt clears it', async () => {
    const { t, run } = await newWorkingTenant(api);
    const first = await steering(t, 'first');
    const [steer] = await steersOf(t);
    if (!steer) throw new Error('no steering message');
    await t.stop('a', run.runId);
    await t.report(run, { steers: [settled(steer)], end: { outcome: 'INTERRUPTED' } });
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');
    expect((await t.runs('a'))[0]?.followUpIds).toEqual([first]);

    await t.queue('a', 'next');
    await t.start('a');
    const second = await steering(t, 'second');
    await t.queue('a', { description: 'now', preempt: true });
    expect(await steersOf(t)).toEqual([]);
    expect(await t.historyOf(second)).toMatchObject([{ to: 'QUEUED' }, { to: 'CLEARED' }]);
  });

  test('a wait for it returns when the turn has ended', async () => {
    const { t, run } = await newWorkingTenant(api);
    const followUpId = await steering(t, 'turn left');
    const waiting = t.send<{ response: string }>('agent/wait', 'a', { followUpId });
    await takenBy(t, run);
    await until(
      'delivered',
      () => t.historyOf(followUpId),
      (moves) => moves.length === 2,
    );
    await t.end(run, 'COMPLETED', { response: 'I turned left.' });
    expect(accepted('wait', await waiting).response).toBe('I turned left.');
    const answer = await t.send('agent/queue/get', 'a', { followUpId });
    expect(answer.body).toMatchObject({
      state: 'DELIVERED',
      answered: true,
      answer: 'I turned left.',
      steer: true,
    });
  });
});

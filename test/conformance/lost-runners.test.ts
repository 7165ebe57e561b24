import type { Claim } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { useDatabase } from '../support/database.ts';
import { expectError, expectRunFenced } from '../support/expect-reply.ts';
import { shortLease, useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant, type TestTenant, textsOf } from '../support/test-tenant.ts';

const { api, databaseUrl } = await useSharedServer({ runner: false });
const database = await useDatabase(databaseUrl);
/** A runner that stops polling is lost here after five seconds. */
const { api: shortLeases } = await useSharedServer(shortLease);

/** The lease of a runner that no longer polls ends; waiting for it would take as long as a busy machine needs. */
async function expireLease({ runner }: TestTenant): Promise<void> {
  await database.query(`UPDATE runners SET lease_until = now() - interval '1 second' WHERE id = $1`, [
    runner.runnerId,
  ]);
}

describe('fencing', () => {
  test('KILL ends the run in its own transaction; later writes of its runner change nothing', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 't', activation: { filesModified: {} } }] });
    const run = await t.start('a');
    await t.stop('a', 1, 'KILL');
    expect((await t.status('a')).run).toMatchObject({ state: 'ENDED', outcome: 'KILLED' });
    const before = { record: await t.status('a'), timeline: await t.timeline('a') };
    for (const late of [
      { items: [{ type: 'MESSAGE', text: 'late' }] },
      { usage: { inputTokens: 1, cachedInputTokens: 0, outputTokens: 1, costUsd: 1 } },
      { pushes: [{ ref: 'x', commits: ['c'], files: ['f'] }] },
      { session: 'late' },
      { end: { outcome: 'COMPLETED', response: 'late', finished: true } },
      { end: { outcome: 'HANDED_BACK' } },
    ]) {
      expectRunFenced(await t.runner.report(run, late));
    }
    expect({ record: await t.status('a'), timeline: await t.timeline('a') }).toEqual(before);
  });

  test.each(['a kill of the turn', 'a kill of the agent'])(
    'after %s the exit of the process is a later timeline entry',
    async (what) => {
      const t = await newTestTenant(api);
      await t.spawn('a');
      const run = await t.start('a');
      await (what === 'a kill of the agent' ? t.kill('a') : t.stop('a', 1, 'KILL'));
      expect(await t.timeline('a', 'PROCESS_GONE')).toEqual([]);
      expect(await t.stops()).toEqual(['1 KILL']);
      await t.report(run, { gone: true });
      const [ended] = await t.timeline('a', 'RUN_ENDED');
      const gone = await t.timeline('a', 'PROCESS_GONE');
      expect(gone.map(({ runId }) => runId)).toEqual(['1']);
      expect(Number(gone[0]?.sequence)).toBeGreaterThan(Number(ended?.sequence));
      expect(await t.stops()).toEqual([]);
    },
  );

  test('the next run starts only when the exit is confirmed', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', 'next');
    await t.stop('a', 1, 'KILL');
    expect((await t.status('a')).phase).toBe('PHASE_PENDING');
    const other = await t.withAnotherRunner();
    for (const asking of [t, other, t, other]) expect(await asking.offered()).toEqual([]);
    await t.report(run, { gone: true });
    expect((await t.claim('a')).runId).toBe(2);
  });

  test('the next run starts when the lease has expired', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.start('a');
    await t.queue('a', 'next');
    await t.stop('a', 1, 'KILL');
    const other = await t.withAnotherRunner();
    expect(await other.offered()).toEqual([]);
    await expireLease(t);
    expect((await other.claim('a')).runId).toBe(2);
  });

  test('a report for an earlier run is refused from every runner', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const first = await t.start('a');
    await t.end(first, 'HANDED_BACK');
    const second = await t.start('a');
    expectRunFenced(await t.runner.report(first, { items: [{ type: 'MESSAGE', text: 'late' }] }));
    const other = await t.withAnotherRunner();
    expect(await other.offered()).toEqual([]);
    // With a number that the run has not taken yet.
    expectRunFenced(await other.runner.report(second, { items: [{ type: 'MESSAGE', text: 'stolen' }] }, 9));
    expect(await t.timeline('a', 'MESSAGE')).toEqual([]);
  });

  test('a repeated report changes nothing and gets the same reply', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const items = [{ type: 'MESSAGE', text: 'once' }];
    const usage = { inputTokens: 1, cachedInputTokens: 0, outputTokens: 1, costUsd: 1 };
    const first = await t.runner.report(run, { items, usage }, 2);
    const again = await t.runner.report(run, { items, usage }, 2);
    expect([first.status, again.status]).toEqual([200, 200]);
    expect(await t.timeline('a', 'MESSAGE')).toHaveLength(1);
    expect(await t.status('a')).toMatchObject({ cost: 1, inputTokens: '1' });
  });

  test('a poll with an older number is refused', async () => {
    const t = await newTestTenant(api);
    await t.offered();
    await t.offered();
    expectError(await t.runner.poll({ poll: 1 }), 'ABORTED');
  });

  test('a runner that leaves gets no claim', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expect(await t.offered({ leaving: true })).toEqual([]);
    const other = await t.withAnotherRunner();
    expect((await other.claim('a')).runId).toBe(1);
  });
});

/** Each test waits for leases to expire, so they wait together. */
describe.concurrent('lost runners', () => {
  test('LOST starts a new run with the same batch and session; the lost run is fenced', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'spawned' });
    const first = await t.start('a');
    await t.report(first, { session: 'session-9' });
    const behind = await t.queue('a', 'behind');
    const other = await t.withAnotherRunner();
    expect(await other.offered()).toEqual([]);
    await expireLease(t);
    const second = await other.start('a');
    expect(second).toMatchObject({ runId: 2, attempt: 2, session: 'session-9', messages: first.messages });
    expect((await other.status('a')).followUps.map(({ followUpId }) => followUpId)).toEqual([behind]);
    expectRunFenced(await t.runner.report(first, { items: [{ type: 'MESSAGE', text: 'late' }] }));
    expectRunFenced(await t.runner.end(first));
    const runs = await other.runs('a');
    expect(runs.map(({ runId, batch, outcome }) => [runId, batch, outcome])).toEqual([
      ['2', '1', ''],
      ['1', '1', 'LOST'],
    ]);
    await other.end(second);
    expect(textsOf(await other.claim('a'))).toEqual(['behind']);
  });

  test('a lost agent is PENDING/RETRYING', async () => {
    const t = await newTestTenant(shortLeases);
    await t.spawn('a');
    await t.start('a');
    await until(
      'RETRYING',
      () => t.phase('a'),
      (seen) => seen === 'PENDING/RETRYING',
    );
    expectError(await t.send('agent/stop-turn', 'a', { runId: '1' }), 'INVALID_ARGUMENT', 'runId');
  });

  test('the third LOST in a row is BLOCKED and keeps undelivered messages', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.queue('a', { followUpId: 'd', description: 'd', deliverAt: inAnHour() });
    for (const attempt of [1, 2, 3]) {
      const other = await t.withAnotherRunner();
      expect(await other.claim('a')).toMatchObject({ runId: attempt, attempt });
      if (attempt === 3) await t.queue('a', { followUpId: 'q', description: 'q' });
      await expireLease(other);
    }
    await until(
      'BLOCKED',
      () => t.phase('a'),
      (seen) => seen === 'WAITING_FOR_INPUT/BLOCKED',
    );
    expect((await t.runs('a')).map(({ outcome }) => outcome)).toEqual(['LOST', 'LOST', 'LOST']);
    const { error, followUps } = await t.status('a');
    expect(error?.code).toBe('RUNNER_LOST');
    expect(followUps.map(({ followUpId, state }) => `${followUpId} ${state}`)).toEqual([
      'q QUEUED',
      'd DEFERRED',
    ]);
    expect(await t.movesOf('a')).toEqual([]);
  });

  test('only consecutive losses count', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const lose = async () => {
      const other = await t.withAnotherRunner();
      await other.claim('a');
      await expireLease(other);
    };
    await lose();
    await lose();
    const third = await t.withAnotherRunner();
    await third.end(await third.claim('a'), 'HANDED_BACK');
    await expireLease(third);
    await lose();
    await until(
      'RETRYING',
      () => t.phase('a'),
      (seen) => seen === 'PENDING/RETRYING',
    );
    expect((await t.runs('a')).map(({ outcome }) => outcome)).toEqual([
      'LOST',
      'HANDED_BACK',
      'LOST',
      'LOST',
    ]);
  });

  test('a STOPPING run that is lost ends INTERRUPTED', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.start('a');
    await t.stop('a', 1);
    await expireLease(t);
    await until(
      'rest',
      () => t.phase('a'),
      (seen) => seen === 'WAITING_FOR_INPUT/INTERRUPTED',
    );
    expect((await t.runs('a')).map(({ outcome }) => outcome)).toEqual(['INTERRUPTED']);
  });

  test('a preempt during STARTING is next when that run is LOST', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'lost', description: 'lost' });
    await t.claim('a');
    await t.queue('a', { description: 'now', preempt: true });
    await expireLease(t);
    const other = await t.withAnotherRunner();
    const run = await other.claim('a');
    expect(textsOf(run)).toEqual(['now']);
    expect((await other.timeline('a', 'BATCH_ABANDONED')).length).toBe(1);
    expect(await t.movesOf('a')).toContain('lost: QUEUED → DELIVERED');
  });

  test('a preempt after the loss abandons the waiting batch', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', 'lost');
    await t.start('a');
    await expireLease(t);
    await until(
      'RETRYING',
      () => t.phase('a'),
      (seen) => seen === 'PENDING/RETRYING',
    );
    await t.queue('a', { description: 'now', preempt: true });
    const other = await t.withAnotherRunner();
    expect(textsOf(await other.claim('a'))).toEqual(['now']);
    expect((await other.timeline('a', 'BATCH_ABANDONED')).length).toBe(1);
  });

  test.each([
    ['a poll', (t: TestTenant) => t.runner.poll({ waitMs: 200 })],
    [
      'a report',
      (t: TestTenant, run: Claim) => t.runner.report(run, { items: [{ type: 'MESSAGE', text: 'x' }] }),
    ],
  ])('%s keeps the lease', async (_, renew) => {
    const t = await newTestTenant(shortLeases);
    await t.spawn('a');
    const run = await t.start('a');
    const { body } = await t.runner.poll();
    expect(body.leaseMs).toBe(5000);
    const end = Date.now() + 2 * body.leaseMs;
    await until(
      'two leases passed',
      async () => [await renew(t, run), Date.now()] as const,
      ([, now]) => now > end,
    );
    await t.end(run);
    expect((await t.runs('a')).map(({ outcome }) => outcome)).toEqual(['COMPLETED']);
  });

  test('an agent whose pool has lost every runner waits for NO_RUNNER', async () => {
    const t = await newTestTenant(shortLeases);
    await t.rested('a');
    await t.queue('a', 'more');
    await until(
      'NO_RUNNER',
      () => t.phase('a'),
      (seen) => seen === 'PENDING/NO_RUNNER',
    );
  });
});

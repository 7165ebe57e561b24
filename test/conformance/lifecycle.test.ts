import { describe, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, inMs, newTestTenant, textsOf } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

describe('phases and reasons', () => {
  test('without a runner a new agent is PENDING for NO_RUNNER and has no run', async () => {
    const t = await newTestTenant(api);
    expect(await t.spawn('a')).toMatchObject({ phase: 'PHASE_PENDING', runCount: '0' });
    expect(await t.phase('a')).toBe('PENDING/NO_RUNNER');
    expect(await t.status('a')).toMatchObject({ run: null, runCount: '0', endedAt: null });
  });

  test('a claimed run is RUNNING/STARTING, a started one RUNNING/WORKING, a stopped one RUNNING/STOPPING', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.claim('a');
    expect(await t.phase('a')).toBe('RUNNING/STARTING');
    expect((await t.status('a')).run).toMatchObject({ runId: '1', state: 'STARTING', outcome: '' });
    await t.report(run, { started: true });
    expect(await t.phase('a')).toBe('RUNNING/WORKING');
    expect((await t.status('a')).run).toMatchObject({ state: 'RUNNING', outcome: '' });
    await t.stop('a', 1);
    expect(await t.phase('a')).toBe('RUNNING/STOPPING');
    expect((await t.status('a')).run).toMatchObject({ state: 'STOPPING', outcome: '' });
    await t.end(run, 'INTERRUPTED');
    expect((await t.status('a')).run).toMatchObject({ state: 'ENDED', outcome: 'INTERRUPTED' });
  });

  test('runs are numbered per agent from 1, and runCount is the newest', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    for (const number of ['1', '2', '3']) {
      await t.turn('a');
      expect(await t.status('a')).toMatchObject({ runCount: number, run: { runId: number } });
      await t.queue('a', `after ${number}`);
    }
    expect((await t.runs('a')).map(({ runId }) => runId)).toEqual(['3', '2', '1']);
  });

  test('PENDING is for POOL_FULL when the pool accepts no more runs', async () => {
    const t = await newTestTenant(api, { maxRuns: 1 });
    await t.spawn('first');
    const run = await t.start('first');
    await t.spawn('second');
    expect(await t.offered()).toEqual([]);
    await until(
      'POOL_FULL',
      () => t.phase('second'),
      (seen) => seen === 'PENDING/POOL_FULL',
    );
    await t.end(run);
    expect((await t.claim('second')).runId).toBe(1);
  });

  test('PENDING is for POOL_FULL when the pool accepts no more runs on all runners together', async () => {
    const t = await newTestTenant(api, { maxRunsTotal: 1 });
    const other = await t.withAnotherRunner();
    await t.spawn('first');
    const run = await t.start('first');
    await t.spawn('second');
    expect(await other.offered()).toEqual([]);
    await until(
      'POOL_FULL',
      () => t.phase('second'),
      (seen) => seen === 'PENDING/POOL_FULL',
    );
    await t.end(run);
    expect((await other.claim('second')).runId).toBe(1);
  });

  test('PENDING is for POOL_FULL when the runners have no capacity', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const room = { real: 0, rehearsed: 0 };
    await until(
      'POOL_FULL',
      async () => [await t.offered({ free: room }), await t.phase('a')],
      ([, seen]) => seen === 'PENDING/POOL_FULL',
    );
    expect((await t.claim('a')).runId).toBe(1);
  });

  test('phaseSince changes with phase and reason only', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.claim('a');
    const starting = await t.status('a');
    await t.report(run, { started: true });
    const working = await t.status('a');
    expect(Date.parse(working.phaseSince)).toBeGreaterThanOrEqual(Date.parse(starting.phaseSince));
    await t.report(run, { items: [{ type: 'MESSAGE', text: 'hello' }] });
    await t.queue('a', 'more');
    expect((await t.status('a')).phaseSince).toBe(working.phaseSince);
    await t.end(run);
    const changed = await t.timeline('a', 'PHASE_CHANGED');
    expect(changed.length).toBeGreaterThanOrEqual(3);
  });

  test('a terminal agent has endedAt and never runs again', async () => {
    const t = await newTestTenant(api);
    await t.rested('a', {}, { finished: true, response: 'all done' });
    expect(await t.status('a')).toMatchObject({
      phase: 'PHASE_COMPLETED',
      phaseReason: 'FINISHED',
      response: 'all done',
      endedAt: expect.any(String),
      error: null,
    });
    expectError(await t.send('agent/queue', 'a', { description: 'more' }), 'NOT_FOUND');
    expect(await t.offered()).toEqual([]);
  });

  test('expectedOutput is text for the agent and ends nothing by itself', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { expectedOutput: 'a report' });
    const run = await t.start('a');
    expect(run.expectedOutput).toBe('a report');
    await t.end(run, 'COMPLETED', { response: 'a report' });
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });
});

describe('batches', () => {
  test('run 1 has the description and the queue behind it, in the order of admission', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'do this' });
    const ids = [await t.queue('a', 'one'), await t.queue('a', 'two')];
    const run = await t.claim('a');
    expect(run.messages).toMatchObject([
      { followUpId: '', text: 'do this' },
      { followUpId: ids[0], text: 'one' },
      { followUpId: ids[1], text: 'two' },
    ]);
    expect(run).toMatchObject({ runId: 1, attempt: 1, preface: '' });
    expect((await t.status('a')).run?.followUpIds).toEqual(ids);
    expect((await t.status('a')).followUps).toEqual([]);
  });

  test.each<[setting: string, value: unknown, other: unknown]>([
    ['agent', 'reviewer', 'planner'],
    ['model', 'rehearsal-b', 'gpt-y'],
    ['reasoningEffort', 'high', 'low'],
    ['serviceTier', 'fast', 'flex'],
    ['fastMode', true, false],
    ['outputSchema', '{"type":"object"}', '{"type":"string"}'],
  ])('a message that overrides %s starts the next batch', async (setting, value, other) => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'spawned', model: 'gpt-x' });
    await t.queue('a', 'one');
    await t.queue('a', { description: 'two', [setting]: value });
    await t.queue('a', 'three');
    await t.queue('a', { description: 'four', [setting]: other });
    expect(textsOf(await t.turn('a'))).toEqual(['spawned', 'one']);
    expect(textsOf(await t.turn('a'))).toEqual(['two', 'three']);
    expect(textsOf(await t.turn('a'))).toEqual(['four']);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('messages queued during a run are for the next run', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const ids = [await t.queue('a', 'one'), await t.queue('a', 'two')];
    await t.end(run);
    const next = await t.claim('a');
    expect(next.messages.map(({ followUpId }) => followUpId)).toEqual(ids);
    const [second, first] = await t.runs('a');
    expect(first).toMatchObject({ runId: '1', batch: '1', followUpIds: [] });
    expect(second).toMatchObject({ runId: '2', batch: '2', followUpIds: ids });
  });

  test('the spawn’s description is never counted, removed, cleared or preempted', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'spawned' });
    expect((await t.status('a')).followUps).toEqual([]);
    await t.queue('a', 'one');
    expect(await t.clear('a')).toBe(1);
    expect(await t.clear('a')).toBe(0);
    await t.queue('a', 'two');
    await t.queue('a', { description: 'now', preempt: true });
    expect((await t.status('a')).phase).toBe('PHASE_PENDING');
    expect(textsOf(await t.claim('a'))).toEqual(['spawned', 'now']);
  });

  test('a deferred message joins the queue when it is due', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', { followUpId: 'due', description: 'due', deliverAt: inMs(700) });
    await t.queue('a', 'before');
    await until(
      'the deferred message queued',
      async () => (await t.status('a')).followUps.find((f) => f.followUpId === 'due')?.state,
      (state) => state === 'QUEUED',
    );
    await t.queue('a', 'after');
    await t.end(run);
    expect(textsOf(await t.claim('a'))).toEqual(['before', 'due', 'after']);
  });

  test('a message to an idle agent starts a run immediately', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', 'wake up');
    expect((await t.status('a')).phase).toBe('PHASE_PENDING');
    expect(await t.offered()).toEqual(['a']);
  });
});

describe('preempt', () => {
  test('interrupts a working run, whose batch is not retried', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', { followUpId: 'old', description: 'old' });
    await t.queue('a', { description: 'now', preempt: true });
    expect(await t.phase('a')).toBe('RUNNING/STOPPING');
    expect(await t.stops()).toEqual(['1 INTERRUPT']);
    await t.end(run, 'INTERRUPTED');
    expect(textsOf(await t.claim('a'))).toEqual(['now']);
    expect(await t.movesOf('a')).toContain('old: QUEUED → CLEARED');
  });

  test.each(['FAILED', 'PARKED', 'HANDED_BACK'])(
    'ends the run INTERRUPTED even if it reports %s, and the message is next',
    async (outcome) => {
      const t = await newTestTenant(api);
      await t.spawn('a');
      const run = await t.start('a');
      await t.queue('a', { description: 'now', preempt: true });
      await t.end(run, outcome, { error: { code: 'X', message: 'x' }, limitUntil: inAnHour() });
      expect((await t.runs('a'))[0]?.outcome).toBe('INTERRUPTED');
      expect(textsOf(await t.claim('a'))).toEqual(['now']);
    },
  );

  test('cancels a retry: the waiting batch is abandoned, and its messages stay DELIVERED', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'tried', description: 'tried' });
    await t.end(await t.start('a'), 'HANDED_BACK');
    expect(await t.phase('a')).toBe('PENDING/RETRYING');
    await t.queue('a', { description: 'now', preempt: true });
    expect((await t.timeline('a', 'BATCH_ABANDONED')).length).toBe(1);
    const next = await t.turn('a');
    expect(textsOf(next)).toEqual(['now']);
    expect(next).toMatchObject({ runId: 3, attempt: 1 });
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
    expect((await t.movesOf('a')).filter((move) => move.startsWith('tried'))).toEqual([
      'tried: QUEUED → DELIVERED',
    ]);
  });

  test('during STARTING interrupts nothing; its message is the next run', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', 'starting');
    const run = await t.claim('a');
    await t.queue('a', { description: 'now', preempt: true });
    expect(await t.phase('a')).toBe('RUNNING/STARTING');
    expect(await t.stops()).toEqual([]);
    await t.report(run, { started: true });
    expect(await t.phase('a')).toBe('RUNNING/WORKING');
    await t.end(run);
    expect((await t.runs('a'))[0]?.outcome).toBe('COMPLETED');
    expect(textsOf(await t.claim('a'))).toEqual(['now']);
  });

  test('during STARTING is next when that run is HANDED_BACK', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', 'starting');
    const run = await t.claim('a');
    await t.queue('a', { description: 'now', preempt: true });
    await t.end(run, 'HANDED_BACK');
    expect(textsOf(await t.claim('a'))).toEqual(['now']);
    expect((await t.timeline('a', 'BATCH_ABANDONED')).length).toBe(1);
  });
});

import type { AgentStatus } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { expectError, expectRunFenced } from '../support/expect-reply.ts';
import { type Server, startServer } from '../support/server.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { inAnHour, inMs, newTestTenant, type TestTenant, textsOf } from '../support/test-tenant.ts';

let server: SharedServer;
let api: Api;
/** Has leases of two seconds, so that a runner that stops polling is soon lost. */
let hasty: Server;

beforeAll(async () => {
  [server, hasty] = await Promise.all([
    sharedServer({ runner: false }),
    startServer({ runner: false, env: { MUSTER_LEASE_SECONDS: '2' } }),
  ]);
  api = apiOf(server);
});
afterAll(() => Promise.all([server.close(), hasty.close()]));

/** `id: QUEUED → CLEARED` for each state change of a follow-up. */
const movesOf = async (t: TestTenant, path: string) =>
  (await t.timeline(path))
    .filter(({ type, data }) => type.startsWith('FOLLOW_UP_') && data.from)
    .map(({ followUpId, data }) => `${followUpId}: ${data.from} → ${data.to}`);

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
    expect(run.messages).toEqual([
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

interface RunEnd {
  queued?: true;
  stopped?: true;
  question?: true;
  tasks?: true;
  children?: true;
  finished?: true;
  deferred?: true;
}

/** Ends a run with all of these at the same time. */
async function endWith(what: RunEnd): Promise<TestTenant> {
  const t = await newTestTenant(api);
  await t.spawn('a', what.tasks ? { tasks: [{ id: 't', subject: 'unfinished' }] } : {});
  const run = await t.start('a');
  if (what.children) await t.spawn('a/child');
  if (what.deferred) await t.queue('a', { followUpId: 'deferred', description: 'd', deliverAt: inAnHour() });
  if (what.queued) await t.queue('a', 'queued');
  if (what.stopped) await t.stop('a', 1);
  await t.end(run, what.stopped ? 'INTERRUPTED' : 'COMPLETED', {
    ...(what.question && { question: 'Which way?' }),
    ...(what.finished && { finished: true }),
  });
  return t;
}

describe('when a run ends', () => {
  test.each<[phase: RegExp, end: RunEnd]>([
    [
      /^PENDING\/(?!CHILDREN)/,
      {
        queued: true,
        stopped: true,
        question: true,
        tasks: true,
        children: true,
        finished: true,
        deferred: true,
      },
    ],
    [/^PENDING\/(?!CHILDREN)/, { queued: true, finished: true }],
    [/^PENDING\/(?!CHILDREN)/, { queued: true }],
    [
      /^WAITING_FOR_INPUT\/INTERRUPTED$/,
      { stopped: true, question: true, tasks: true, children: true, finished: true, deferred: true },
    ],
    [/^WAITING_FOR_INPUT\/INTERRUPTED$/, { stopped: true }],
    [
      /^WAITING_FOR_INPUT\/QUESTION$/,
      { question: true, tasks: true, children: true, finished: true, deferred: true },
    ],
    [/^WAITING_FOR_INPUT\/QUESTION$/, { question: true }],
    [
      /^WAITING_FOR_INPUT\/TASKS_UNFINISHED$/,
      { tasks: true, children: true, finished: true, deferred: true },
    ],
    [/^WAITING_FOR_INPUT\/TASKS_UNFINISHED$/, { tasks: true }],
    [/^PENDING\/CHILDREN$/, { children: true, finished: true, deferred: true }],
    [/^PENDING\/CHILDREN$/, { children: true }],
    [/^COMPLETED\/FINISHED$/, { finished: true }],
    [/^WAITING_FOR_INPUT\/DEFERRED$/, { finished: true, deferred: true }],
    [/^WAITING_FOR_INPUT\/DEFERRED$/, { deferred: true }],
    [/^WAITING_FOR_INPUT\/RESTING$/, {}],
  ])('the agent is %s after %j', async (phase, end) => {
    const t = await endWith(end);
    expect(await t.phase('a')).toMatch(phase);
    const record = await t.status('a');
    expect(record.needsInput !== '').toBe(record.phaseReason === 'QUESTION');
    if (record.phaseReason === 'DEFERRED') expect(record.wakesAt).not.toBeNull();
    if (!end.deferred) expect(record.wakesAt).toBeNull();
    expect(await t.offered().then((paths) => paths.filter((path) => path === 'a'))).toEqual(
      end.queued ? ['a'] : [],
    );
  });

  test('a killed agent is CANCELED, whatever its run reports later', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', 'queued');
    await t.kill('a');
    expect(await t.phase('a')).toBe('CANCELED/KILLED');
    for (const outcome of ['COMPLETED', 'HANDED_BACK', 'FAILED']) {
      expectRunFenced(await t.runner.end(run, outcome, { finished: true }));
    }
    expect(await t.phase('a')).toBe('CANCELED/KILLED');
    expect(await t.offered()).toEqual([]);
  });

  test('HANDED_BACK starts a new run with the same batch in the same session, before queued messages', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'spawned' });
    const one = await t.queue('a', 'one');
    const first = await t.start('a');
    await t.report(first, { session: 'session-7' });
    await t.queue('a', 'behind');
    await t.end(first, 'HANDED_BACK');
    expect(await t.phase('a')).toBe('PENDING/RETRYING');
    const second = await t.start('a');
    expect(second).toMatchObject({ runId: 2, attempt: 2, session: 'session-7', messages: first.messages });
    await t.end(second);
    const third = await t.claim('a');
    expect(third).toMatchObject({ runId: 3, attempt: 1, session: 'session-7' });
    expect(textsOf(third)).toEqual(['behind']);
    expect((await t.runs('a')).map(({ runId, batch, outcome }) => [runId, batch, outcome])).toEqual([
      ['3', '3', ''],
      ['2', '1', 'COMPLETED'],
      ['1', '1', 'HANDED_BACK'],
    ]);
    expect((await t.runs('a'))[1]?.followUpIds).toEqual([one]);
    expect((await t.timeline('a', 'RUN_STARTED')).map(({ runId }) => runId)).toEqual(['1', '2', '3']);
  });

  test('HANDED_BACK does not count as a loss and may happen any number of times', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      const run = await t.start('a');
      expect(run).toMatchObject({ runId: attempt, attempt });
      await t.end(run, 'HANDED_BACK');
    }
    expect(await t.phase('a')).toBe('PENDING/RETRYING');
  });

  test('PARKED is PENDING/PROVIDER_LIMIT until the reset; then the same batch runs, before queued messages', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'spawned' });
    const first = await t.start('a');
    await t.queue('a', 'behind');
    const limitUntil = inMs(1500);
    await t.end(first, 'PARKED', { limitUntil });
    const parked = await t.status('a');
    expect(`${parked.phase}/${parked.phaseReason}`).toBe('PHASE_PENDING/PROVIDER_LIMIT');
    expect(Date.parse(parked.wakesAt ?? '')).toBe(Date.parse(limitUntil));
    expect(parked.run).toMatchObject({ state: 'ENDED', outcome: 'PARKED' });
    expect(await t.offered()).toEqual([]);
    const second = await t.start('a');
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(limitUntil));
    expect(second).toMatchObject({ runId: 2, attempt: 2, messages: first.messages });
    expect((await t.status('a')).wakesAt).toBeNull();
    await t.end(second);
    expect(textsOf(await t.claim('a'))).toEqual(['behind']);
  });

  test('a message does not start a parked agent earlier', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.end(await t.start('a'), 'PARKED', { limitUntil: inAnHour() });
    const id = await t.queue('a', 'hurry');
    expect(await t.phase('a')).toBe('PENDING/PROVIDER_LIMIT');
    expect(await t.offered()).toEqual([]);
    expect(await t.remove('a', id)).toBe(true);
    expect(await t.phase('a')).toBe('PENDING/PROVIDER_LIMIT');
  });

  test('FAILED for good is FAILED/ERROR with the error, and clears undelivered messages', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', { followUpId: 'queued', description: 'q' });
    await t.queue('a', { followUpId: 'deferred', description: 'd', deliverAt: inAnHour() });
    const error = { code: 'REHEARSED_FAILURE', message: 'told to fail' };
    await t.end(run, 'FAILED', { error, question: 'Eh?', finished: true });
    expect(await t.status('a')).toMatchObject({
      phase: 'PHASE_FAILED',
      phaseReason: 'ERROR',
      error,
      needsInput: '',
      wakesAt: null,
      followUps: [],
      endedAt: expect.any(String),
    });
    const cleared = await t.timeline('a', 'FOLLOW_UP_CLEARED');
    expect(cleared.map(({ followUpId, data }) => [followUpId, data.from, data.to])).toEqual(
      expect.arrayContaining([
        ['queued', 'QUEUED', 'CLEARED'],
        ['deferred', 'DEFERRED', 'CLEARED'],
      ]),
    );
    expect(cleared).toHaveLength(2);
    for (const entry of cleared) {
      expect(JSON.stringify(entry)).toMatch(/REHEARSED_FAILURE|told to fail/);
    }
  });

  test.each(['COMPLETED', 'FAILED', 'PARKED', 'HANDED_BACK', 'INTERRUPTED'])(
    'a run told to stop ends INTERRUPTED even if it reports %s',
    async (outcome) => {
      const t = await newTestTenant(api);
      await t.spawn('a');
      const run = await t.start('a');
      await t.stop('a', 1);
      await t.end(run, outcome, {
        error: { code: 'X', message: 'x' },
        ...(outcome === 'PARKED' && { limitUntil: inAnHour() }),
      });
      expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');
      expect((await t.status('a')).run).toMatchObject({ state: 'ENDED', outcome: 'INTERRUPTED' });
    },
  );

  test('the question is needsInput, in the timeline too, until a message is delivered', async () => {
    const t = await endWith({ question: true });
    expect((await t.status('a')).needsInput).toBe('Which way?');
    expect((await t.timeline('a', 'QUESTION')).map(({ text, runId }) => [text, runId])).toEqual([
      ['Which way?', '1'],
    ]);
    await t.queue('a', 'left');
    await t.start('a');
    expect((await t.status('a')).needsInput).toBe('');
  });

  test('completed, deleted and inactive tasks, and tasks behind inactive ones, are not unfinished', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', {
      tasks: [
        { id: 'done', status: 'TASK_STATUS_COMPLETED' },
        { id: 'gone' },
        { id: 'idle', activation: { filesModified: { pattern: '*.md' } } },
        { id: 'behind', blockedBy: ['idle'] },
        { id: 'further', blockedBy: ['behind'] },
      ],
    });
    await t.send('agent/tasks/update', 'a', { id: 'gone', status: 'TASK_STATUS_DELETED' });
    const run = await t.start('a');
    expect((await t.report(run, { currentAction: 'x' })).activeTaskIds).toEqual([]);
    await t.end(run);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('an idle child does not count as working', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.spawn('a/child');
    await t.turn('a/child');
    await t.end(run);
    await t.turn('a');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('wakesAt is the time of the earliest deferred message', async () => {
    const t = await endWith({ deferred: true });
    const sooner = inMs(1_800_000);
    await t.queue('a', { followUpId: 'sooner', description: 's', deliverAt: sooner });
    expect(Date.parse((await t.status('a')).wakesAt ?? '')).toBe(Date.parse(sooner));
    await t.remove('a', 'sooner');
    expect(Date.parse((await t.status('a')).wakesAt ?? '')).toBeGreaterThan(Date.parse(sooner));
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/DEFERRED');
  });

  test('a deferred message wakes the agent when it is due', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const deliverAt = inMs(700);
    await t.queue('a', { description: 'good morning', deliverAt });
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/DEFERRED');
    expect(await t.offered()).toEqual([]);
    const run = await t.claim('a');
    expect(textsOf(run)).toEqual(['good morning']);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(deliverAt));
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
    expect(await movesOf(t, 'a')).toContain('old: QUEUED → CLEARED');
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
    expect((await movesOf(t, 'a')).filter((move) => move.startsWith('tried'))).toEqual([
      'tried: QUEUED → DELIVERED',
    ]);
  });

  test('abandons a parked batch too, but its own run still waits for wakesAt', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'tried', description: 'tried' });
    const limitUntil = inMs(1500);
    await t.end(await t.start('a'), 'PARKED', { limitUntil });
    await t.queue('a', { description: 'now', preempt: true });
    const record = await t.status('a');
    expect(`${record.phase}/${record.phaseReason}`).toBe('PHASE_PENDING/PROVIDER_LIMIT');
    expect(Date.parse(record.wakesAt ?? '')).toBe(Date.parse(limitUntil));
    expect(await t.offered()).toEqual([]);
    expect((await t.timeline('a', 'BATCH_ABANDONED')).length).toBe(1);
    expect(textsOf(await t.claim('a'))).toEqual(['now']);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(limitUntil));
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

describe('an agent becomes idle again', () => {
  const rests: [reason: string, what: RunEnd, phase: string][] = [
    ['RESTING', {}, 'WAITING_FOR_INPUT/RESTING'],
    ['QUESTION', { question: true }, 'WAITING_FOR_INPUT/QUESTION'],
    ['INTERRUPTED', { stopped: true }, 'WAITING_FOR_INPUT/INTERRUPTED'],
    ['TASKS_UNFINISHED', { tasks: true }, 'WAITING_FOR_INPUT/TASKS_UNFINISHED'],
    ['DEFERRED', { deferred: true }, 'WAITING_FOR_INPUT/DEFERRED'],
    ['CHILDREN', { children: true }, 'PENDING/CHILDREN'],
  ];

  test.each(rests)('removing the last queued message returns it to %s', async (_r, what, phase) => {
    const t = await endWith(what);
    const before = await t.status('a');
    const ids = [await t.queue('a', 'one'), await t.queue('a', 'two')];
    expect(await t.phase('a')).toMatch(/^PENDING\/(?!CHILDREN)/);
    await t.remove('a', ids[0] as string);
    expect(await t.phase('a')).toMatch(/^PENDING\/(?!CHILDREN)/);
    await t.remove('a', ids[1] as string);
    expect(await t.phase('a')).toBe(phase);
    const { needsInput, wakesAt, runCount } = before;
    expect(await t.status('a')).toMatchObject({ needsInput, wakesAt, runCount });
    expect((await t.offered()).filter((path) => path === 'a')).toEqual([]);
  });

  test.each(rests)('clearing the queue returns it to %s', async (_reason, what, phase) => {
    const t = await endWith(what);
    await t.queue('a', 'one');
    await t.queue('a', 'two');
    expect(await t.clear('a')).toBe(2);
    expect(await t.phase('a')).toBe(phase);
  });

  test('an agent with a batch to retry stays PENDING when its queue is emptied', async () => {
    const t = await newTestTenant(api);
    await t.spawn('new');
    await t.queue('new', 'one');
    await t.clear('new');
    expect(textsOf(await t.claim('new'))).toEqual(['work']);
    await t.spawn('retry');
    await t.end(await t.start('retry'), 'HANDED_BACK');
    await t.queue('retry', 'one');
    await t.clear('retry');
    expect(await t.phase('retry')).toBe('PENDING/RETRYING');
    expect(textsOf(await t.claim('retry'))).toEqual(['work']);
  });

  test.each<[what: RunEnd, phase: string]>([
    [{ deferred: true }, 'WAITING_FOR_INPUT/RESTING'],
    [{ deferred: true, finished: true }, 'COMPLETED/FINISHED'],
    [{ deferred: true, question: true, finished: true }, 'WAITING_FOR_INPUT/QUESTION'],
    [{ deferred: true, stopped: true }, 'WAITING_FOR_INPUT/INTERRUPTED'],
    [{ deferred: true, tasks: true, finished: true }, 'WAITING_FOR_INPUT/TASKS_UNFINISHED'],
    [{ deferred: true, children: true, finished: true }, 'PENDING/CHILDREN'],
  ])('when the last deferred message is removed, the state is decided again: %j', async (what, phase) => {
    const t = await endWith(what);
    expect(await t.remove('a', 'deferred')).toBe(true);
    expect(await t.phase('a')).toBe(phase);
    expect((await t.status('a')).wakesAt).toBeNull();
  });

  test('a deferred message to an idle agent makes it DEFERRED, and its removal makes it idle again', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'later', description: 'l', deliverAt: inAnHour() });
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/DEFERRED');
    await t.remove('a', 'later');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });
});

describe('children', () => {
  /** A parent in CHILDREN with two children at work. */
  async function family(): Promise<TestTenant> {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    await t.spawn('p/one');
    await t.spawn('p/two');
    await t.end(run);
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
    return t;
  }

  test('a parent is not woken by a child that becomes idle while another works', async () => {
    const t = await family();
    await t.turn('p/one', { response: 'one is done' });
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
    expect((await t.offered()).filter((path) => path === 'p')).toEqual([]);
    await t.turn('p/two', { response: 'two is done' });
    const run = await t.turn('p');
    expect(run).toMatchObject({ runId: 2, messages: [] });
    expect(run.preface).toMatch(/one/);
    expect(run.preface).toMatch(/two/);
    expect(await t.phase('p')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test.each<[what: string, outcome: string, end: Record<string, unknown>]>([
    ['asks', 'COMPLETED', { question: 'Blue or green?' }],
    ['fails', 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'it broke' } }],
    ['is blocked', 'FAILED', { error: { code: 'BROKEN', message: 'it broke' } }],
  ])('a parent in CHILDREN is woken when a child %s', async (_what, outcome, end) => {
    const t = await family();
    await t.end(await t.start('p/one'), outcome, end);
    const run = await t.claim('p');
    expect(run).toMatchObject({ runId: 2, messages: [] });
    expect(run.preface).toMatch(/one/);
    expect(run.preface).toMatch(outcome === 'FAILED' ? /it broke|BROKEN|FAILED|failed/ : /Blue or green\?/);
    expect((await t.status('p/two')).phase).toMatch(/PENDING|RUNNING/);
  });

  test('killing the last working child wakes the parent', async () => {
    const t = await family();
    await t.kill('p/one');
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
    await t.kill('p/two');
    expect((await t.claim('p')).runId).toBe(2);
  });

  test('a message to an agent in CHILDREN starts a run immediately, which starts with the news of its children', async () => {
    const t = await family();
    await t.turn('p/one', { response: 'one is done' });
    const id = await t.queue('p', 'how is it going?');
    const run = await t.start('p');
    expect(run.messages).toEqual([{ followUpId: id, text: 'how is it going?' }]);
    expect(run.preface).toMatch(/one/);
    await t.end(run);
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
  });

  test('a run starts with what changed in the children since the parent’s last run, once', async () => {
    const t = await family();
    await t.turn('p/one', { response: 'one is done' });
    await t.turn('p/two', { response: 'two is done' });
    await t.turn('p');
    await t.queue('p', 'next');
    expect((await t.claim('p')).preface).toBe('');
  });

  test('the news of children is not a follow-up and cannot be cleared', async () => {
    const t = await family();
    await t.turn('p/one');
    await t.turn('p/two');
    expect((await t.status('p')).followUps).toEqual([]);
    expect(await t.clear('p')).toBe(0);
    await t.queue('p', { description: 'now', preempt: true });
    const run = await t.claim('p');
    expect(run.preface).toMatch(/one/);
    expect(textsOf(run)).toEqual(['now']);
    expect(await t.timeline('p', 'FOLLOW_UP_CLEARED')).toEqual([]);
  });

  test('a child that settles during the parent’s run causes another run', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    await t.spawn('p/c');
    await t.turn('p/c', { response: 'settled' });
    await t.end(run);
    const next = await t.turn('p');
    expect(next).toMatchObject({ runId: 2, messages: [] });
    expect(next.preface).toMatch(/c/);
    expect((await t.runs('p'))[0]?.followUpIds).toEqual([]);
    expect(await t.phase('p')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test.each(['agent/status', 'agent/wait'])(
    'a child that settles during the parent’s run causes no other run if the parent learned it with its own %s',
    async (route) => {
      const t = await newTestTenant(api);
      await t.spawn('p');
      const run = await t.start('p');
      await t.spawn('p/c');
      await t.turn('p/c');
      const { status, body } = await api
        .as(run.token)
        .post<AgentStatus>(`/v1/${route}`, { agentId: t.id('p/c') });
      expect({ status, phase: body.phase }).toEqual({ status: 200, phase: 'PHASE_WAITING_FOR_INPUT' });
      await t.end(run);
      expect(await t.phase('p')).toBe('WAITING_FOR_INPUT/RESTING');
    },
  );

  test('only the parent’s own reads count', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    await t.spawn('p/c');
    await t.turn('p/c');
    await t.status('p/c');
    await t.end(run);
    expect((await t.claim('p')).runId).toBe(2);
  });

  test('an agent’s own key spawns and commands its descendants', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    const own = api.as(run.token);
    const agentId = t.id('p/c');
    expect((await own.post('/v1/agent/spawn', { agentId, description: 'x' })).status).toBe(200);
    expect((await own.post('/v1/agent/queue', { agentId, description: 'y' })).status).toBe(200);
    expect((await own.post('/v1/agent/kill', { agentId })).status).toBe(200);
    expect((await t.status('p')).children).toHaveLength(1);
    const types = (await t.timeline('p', 'CHILD_SPAWNED', 'CHILD_SETTLED')).map(({ type }) => type);
    expect(types).toEqual(['CHILD_SPAWNED', 'CHILD_SETTLED']);
  });

  test('a finished parent whose children work is COMPLETED only when it says so again after they end', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    await t.spawn('p/c');
    await t.end(run, 'COMPLETED', { finished: true });
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
    await t.turn('p/c', { finished: true });
    await t.turn('p', { finished: true });
    expect(await t.phase('p')).toBe('COMPLETED/FINISHED');
  });
});

describe('kill', () => {
  test('cancels the whole subtree and clears undelivered messages', async () => {
    const t = await newTestTenant(api);
    for (const path of ['r', 'r/a', 'r/a/b', 'r/c', 'other']) await t.spawn(path);
    await t.rested('r/d');
    const run = await t.start('r/a');
    await t.queue('r/a', { followUpId: 'q', description: 'q' });
    await t.queue('r/a', { followUpId: 'd', description: 'd', deliverAt: inAnHour() });
    await t.kill('r');
    expect(await t.phase('r')).toBe('CANCELED/KILLED');
    for (const path of ['r/a', 'r/a/b', 'r/c', 'r/d']) {
      expect(await t.phase(path)).toBe('CANCELED/PARENT_KILLED');
      expect((await t.status(path)).endedAt).not.toBeNull();
    }
    expect((await t.status('other')).phase).not.toBe('PHASE_CANCELED');
    expect(await t.status('r/a')).toMatchObject({
      followUps: [],
      run: { state: 'ENDED', outcome: 'KILLED' },
      wakesAt: null,
    });
    expect(await movesOf(t, 'r/a')).toEqual(
      expect.arrayContaining(['q: QUEUED → CLEARED', 'd: DEFERRED → CLEARED']),
    );
    expect(await t.stops()).toContain('1 KILL');
    expectRunFenced(await t.runner.report(run, { items: [{ type: 'MESSAGE', text: 'late' }] }));
  });

  test('of an ended agent keeps its phase and cancels the live descendants', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    await t.spawn('p/c');
    await t.turn('p/c');
    await t.end(run);
    await t.turn('p', { finished: true });
    const before = await t.status('p');
    expect(before.phase).toBe('PHASE_COMPLETED');
    await t.kill('p');
    const { treeCost, ...after } = await t.status('p');
    expect({ ...after, treeCost }).toMatchObject({
      phase: 'PHASE_COMPLETED',
      phaseReason: 'FINISHED',
      endedAt: before.endedAt,
    });
    expect(await t.phase('p/c')).toBe('CANCELED/PARENT_KILLED');
    await t.kill('p/c');
    expect(await t.phase('p/c')).toBe('CANCELED/PARENT_KILLED');
  });

  test('includes children that are being spawned at the same time', async () => {
    const t = await newTestTenant(api);
    for (let round = 0; round < 10; round += 1) {
      await t.spawn(`p${round}`);
      const paths = Array.from({ length: 12 }, (_, i) => `p${round}/c${i}`);
      const spawns = paths.map((path) => t.send('agent/spawn', path, { description: 'x' }));
      const kill = t.send('agent/kill', `p${round}`);
      const answers = await Promise.all(spawns);
      expect((await kill).status).toBe(200);
      for (const [i, answer] of answers.entries()) {
        if (answer.status !== 200) expectError(answer, 'FAILED_PRECONDITION');
        else expect(await t.phase(paths[i] as string)).toBe('CANCELED/PARENT_KILLED');
      }
    }
  });

  test('ends the agent’s key', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const own = api.as(run.token);
    expect((await own.get('/v1/whoami')).status).toBe(200);
    await t.kill('a');
    await until(
      '401',
      () => own.get('/v1/whoami'),
      ({ status }) => status === 401,
    );
  });
});

describe('stop-turn', () => {
  test.each<[reason: string, arrange: (t: TestTenant) => Promise<unknown>]>([
    ['NO_RUNNER', (t) => t.spawn('a')],
    [
      'RETRYING',
      async (t) => {
        await t.spawn('a');
        await t.end(await t.start('a'), 'HANDED_BACK');
      },
    ],
    [
      'PROVIDER_LIMIT',
      async (t) => {
        await t.spawn('a');
        await t.end(await t.start('a'), 'PARKED', { limitUntil: inAnHour() });
      },
    ],
    [
      'CHILDREN',
      async (t) => {
        await t.spawn('a');
        const run = await t.start('a');
        await t.spawn('a/child');
        await t.end(run);
      },
    ],
  ])('of an agent that is PENDING for %s has nothing to stop', async (reason, arrange) => {
    const t = await newTestTenant(api);
    await arrange(t);
    expect(await t.phase('a')).toBe(`PENDING/${reason}`);
    const before = await t.status('a');
    for (const runId of [before.runCount, '1', '0']) {
      expectError(await t.send('agent/stop-turn', 'a', { runId }), 'INVALID_ARGUMENT', 'runId');
    }
    expect(await t.status('a')).toEqual(before);
  });

  test('works during STARTING', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.claim('a');
    await t.stop('a', 1);
    expect(await t.phase('a')).toBe('RUNNING/STOPPING');
    expect(await t.stops()).toEqual(['1 INTERRUPT']);
    await t.end(run, 'INTERRUPTED');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');
  });

  test('reaches the runner by poll and by report', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    expect((await t.report(run, { currentAction: 'x' })).stop).toBe('');
    await t.stop('a', 1);
    expect((await t.report(run, { currentAction: 'y' })).stop).toBe('INTERRUPT');
    expect(await t.stops()).toEqual(['1 INTERRUPT']);
  });

  test('of a STOPPING run: INTERRUPT changes nothing, KILL upgrades', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.stop('a', 1);
    const before = { record: await t.status('a'), timeline: await t.timeline('a') };
    await t.stop('a', 1);
    await t.stop('a', 1, 'UNSPECIFIED');
    expect({ record: await t.status('a'), timeline: await t.timeline('a') }).toEqual(before);
    await t.stop('a', 1, 'KILL');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');
    expect((await t.status('a')).run).toMatchObject({ state: 'ENDED', outcome: 'KILLED' });
    expectRunFenced(await t.runner.end(run, 'INTERRUPTED', { response: 'late' }));
    expect((await t.status('a')).response).toBe('');
  });

  test.each(['INTERRUPT', 'KILL'])('with %s lets queued messages run next', async (mode) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', 'next');
    await t.stop('a', 1, mode);
    await (mode === 'KILL' ? t.report(run, { gone: true }) : t.end(run, 'INTERRUPTED'));
    const next = await t.claim('a');
    expect(next.runId).toBe(2);
    expect(textsOf(next)).toEqual(['next']);
  });

  test('of a run that has ended is refused, idle or terminal', async () => {
    const t = await newTestTenant(api);
    await t.rested('rest');
    await t.rested('done', {}, { finished: true });
    for (const path of ['rest', 'done']) {
      for (const mode of ['STOP_TURN_MODE_INTERRUPT', 'STOP_TURN_MODE_KILL']) {
        expectError(await t.send('agent/stop-turn', path, { runId: '1', mode }), 'INVALID_ARGUMENT', 'runId');
      }
    }
  });
});

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
    const t = await newTestTenant(apiOf(hasty));
    await t.spawn('a');
    await t.start('a');
    await t.queue('a', 'next');
    await t.stop('a', 1, 'KILL');
    const other = await t.withAnotherRunner();
    expect(await other.offered()).toEqual([]);
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
    expectRunFenced(await other.runner.report(second, { items: [{ type: 'MESSAGE', text: 'stolen' }] }));
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

describe('lost runners', () => {
  test('LOST starts a new run with the same batch and session; the lost run is fenced', async () => {
    const t = await newTestTenant(apiOf(hasty));
    await t.spawn('a', { description: 'spawned' });
    const first = await t.start('a');
    await t.report(first, { session: 'session-9' });
    const behind = await t.queue('a', 'behind');
    const other = await t.withAnotherRunner();
    expect(await other.offered()).toEqual([]);
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
    const t = await newTestTenant(apiOf(hasty));
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
    const t = await newTestTenant(apiOf(hasty));
    await t.spawn('a');
    await t.queue('a', { followUpId: 'd', description: 'd', deliverAt: inAnHour() });
    for (const attempt of [1, 2, 3]) {
      const other = await t.withAnotherRunner();
      expect(await other.claim('a')).toMatchObject({ runId: attempt, attempt });
    }
    await t.queue('a', { followUpId: 'q', description: 'q' });
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
    expect(await movesOf(t, 'a')).toEqual([]);
  });

  test('only consecutive losses count', async () => {
    const t = await newTestTenant(apiOf(hasty));
    await t.spawn('a');
    await (await t.withAnotherRunner()).claim('a');
    await (await t.withAnotherRunner()).claim('a');
    const third = await t.withAnotherRunner();
    await third.end(await third.claim('a'), 'HANDED_BACK');
    await (await t.withAnotherRunner()).claim('a');
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
    const t = await newTestTenant(apiOf(hasty));
    await t.spawn('a');
    await t.start('a');
    await t.stop('a', 1);
    await until(
      'rest',
      () => t.phase('a'),
      (seen) => seen === 'WAITING_FOR_INPUT/INTERRUPTED',
    );
    expect((await t.runs('a')).map(({ outcome }) => outcome)).toEqual(['INTERRUPTED']);
  });

  test('a preempt during STARTING is next when that run is LOST', async () => {
    const t = await newTestTenant(apiOf(hasty));
    await t.rested('a');
    await t.queue('a', { followUpId: 'lost', description: 'lost' });
    await t.claim('a');
    await t.queue('a', { description: 'now', preempt: true });
    const other = await t.withAnotherRunner();
    const run = await other.claim('a');
    expect(textsOf(run)).toEqual(['now']);
    expect((await other.timeline('a', 'BATCH_ABANDONED')).length).toBe(1);
    expect(await movesOf(t, 'a')).toContain('lost: QUEUED → DELIVERED');
  });

  test('a preempt after the loss abandons the waiting batch', async () => {
    const t = await newTestTenant(apiOf(hasty));
    await t.rested('a');
    await t.queue('a', 'lost');
    await t.start('a');
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

  test('a poll keeps the lease', async () => {
    const t = await newTestTenant(apiOf(hasty));
    await t.spawn('a');
    const run = await t.start('a');
    const { body } = await t.runner.poll();
    expect(body.leaseMs).toBe(2000);
    const end = Date.now() + 2 * body.leaseMs;
    await until(
      'two leases passed',
      async () => [await t.offered({ waitMs: 200 }), Date.now()] as const,
      ([, now]) => now > end,
    );
    await t.end(run);
    expect((await t.runs('a')).map(({ outcome }) => outcome)).toEqual(['COMPLETED']);
  });

  test('an agent whose pool has lost every runner waits for NO_RUNNER', async () => {
    const t = await newTestTenant(apiOf(hasty));
    await t.rested('a');
    await t.queue('a', 'more');
    await until(
      'NO_RUNNER',
      () => t.phase('a'),
      (seen) => seen === 'PENDING/NO_RUNNER',
    );
  });
});

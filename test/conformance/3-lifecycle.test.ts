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
/** Leases of two seconds: a runner that stops polling is soon lost. */
let hasty: Server;

beforeAll(async () => {
  [server, hasty] = await Promise.all([
    sharedServer({ runner: false }),
    startServer({ runner: false, env: { MUSTER_LEASE_SECONDS: '2' } }),
  ]);
  api = apiOf(server);
});
afterAll(() => Promise.all([server.close(), hasty.close()]));

/** `QUEUED → CLEARED` and whose it was, for each change of a follow-up. */
const movesOf = async (t: TestTenant, path: string) =>
  (await t.timeline(path))
    .filter(({ type, data }) => type.startsWith('FOLLOW_UP_') && data.from)
    .map(({ followUpId, data }) => `${followUpId}: ${data.from} → ${data.to}`);

describe('phases and reasons', () => {
  test('decisions 3: without a runner a new agent is PENDING for NO_RUNNER and has no run', async () => {
    const t = await newTestTenant(api);
    expect(await t.spawn('a')).toMatchObject({ phase: 'PHASE_PENDING', runCount: '0' });
    expect(await t.phase('a')).toBe('PENDING/NO_RUNNER');
    expect(await t.status('a')).toMatchObject({ run: null, runCount: '0', endedAt: null });
  });

  test('decisions 3: a claimed run is RUNNING/STARTING, a started one RUNNING/WORKING, a stopped one RUNNING/STOPPING', async () => {
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

  test('decisions 3: runs are numbered per agent from 1, and runCount is the newest', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    for (const number of ['1', '2', '3']) {
      await t.turn('a');
      expect(await t.status('a')).toMatchObject({ runCount: number, run: { runId: number } });
      await t.queue('a', `after ${number}`);
    }
    expect((await t.runs('a')).map(({ runId }) => runId)).toEqual(['3', '2', '1']);
  });

  test('decisions 3: where the pool takes no more runs the agent is PENDING for POOL_FULL', async () => {
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

  test('decisions 3: so it is where its runners have no room', async () => {
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

  test('decisions 3: phaseSince moves with phase and reason, and with nothing else', async () => {
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

  test('decisions 3: a terminal agent has endedAt and never runs again', async () => {
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

  test('decisions 3: expectedOutput is text for the agent; alone it ends nothing', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { expectedOutput: 'a report' });
    const run = await t.start('a');
    expect(run.expectedOutput).toBe('a report');
    await t.end(run, 'COMPLETED', { response: 'a report' });
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });
});

describe('batches', () => {
  test('decisions 3, batch: run 1 has the description and the queue behind it, in admission order', async () => {
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
  ])(
    'decisions 3, batch: a message that overrides %s begins the next batch',
    async (setting, value, other) => {
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
    },
  );

  test('decisions 3, batch: messages queued during a run are the next run’s', async () => {
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

  test('decisions 3, batch: the spawn’s description is never counted, removed, cleared or preempted', async () => {
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

  test('decisions 3, batch: a deferred message takes its place in the order when it falls due', async () => {
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

  test('decisions 3: a message to an agent at rest starts a run at once', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', 'wake up');
    expect((await t.status('a')).phase).toBe('PHASE_PENDING');
    expect(await t.offered()).toEqual(['a']);
  });
});

interface Ending {
  queued?: true;
  stopped?: true;
  question?: true;
  tasks?: true;
  children?: true;
  finished?: true;
  deferred?: true;
}

/** A run that ends with all of these true at once. */
async function endWith(what: Ending): Promise<TestTenant> {
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
  test.each<[rule: number, phase: RegExp, what: Ending]>([
    [
      5,
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
    [5, /^PENDING\/(?!CHILDREN)/, { queued: true, finished: true }],
    [5, /^PENDING\/(?!CHILDREN)/, { queued: true }],
    [
      6,
      /^WAITING_FOR_INPUT\/INTERRUPTED$/,
      { stopped: true, question: true, tasks: true, children: true, finished: true, deferred: true },
    ],
    [6, /^WAITING_FOR_INPUT\/INTERRUPTED$/, { stopped: true }],
    [
      7,
      /^WAITING_FOR_INPUT\/QUESTION$/,
      { question: true, tasks: true, children: true, finished: true, deferred: true },
    ],
    [7, /^WAITING_FOR_INPUT\/QUESTION$/, { question: true }],
    [
      8,
      /^WAITING_FOR_INPUT\/TASKS_UNFINISHED$/,
      { tasks: true, children: true, finished: true, deferred: true },
    ],
    [8, /^WAITING_FOR_INPUT\/TASKS_UNFINISHED$/, { tasks: true }],
    [9, /^PENDING\/CHILDREN$/, { children: true, finished: true, deferred: true }],
    [9, /^PENDING\/CHILDREN$/, { children: true }],
    [10, /^COMPLETED\/FINISHED$/, { finished: true }],
    [11, /^WAITING_FOR_INPUT\/DEFERRED$/, { finished: true, deferred: true }],
    [11, /^WAITING_FOR_INPUT\/DEFERRED$/, { deferred: true }],
    [11, /^WAITING_FOR_INPUT\/RESTING$/, {}],
  ])('decisions 3, rule %i decides: %s when %j', async (_rule, phase, what) => {
    const t = await endWith(what);
    expect(await t.phase('a')).toMatch(phase);
    const record = await t.status('a');
    expect(record.needsInput !== '').toBe(record.phaseReason === 'QUESTION');
    if (record.phaseReason === 'DEFERRED') expect(record.wakesAt).not.toBeNull();
    if (!what.deferred) expect(record.wakesAt).toBeNull();
    expect(await t.offered().then((paths) => paths.filter((path) => path === 'a'))).toEqual(
      what.queued ? ['a'] : [],
    );
  });

  test('decisions 3, rule 1: a killed agent is CANCELED, whatever its run goes on to report', async () => {
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

  test('decisions 3, rule 2: HANDED_BACK brings a new run with the same batch in the same session, queued messages behind it', async () => {
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

  test('decisions 3, rule 2: handing back is no losing: it may happen any number of times', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      const run = await t.start('a');
      expect(run).toMatchObject({ runId: attempt, attempt });
      await t.end(run, 'HANDED_BACK');
    }
    expect(await t.phase('a')).toBe('PENDING/RETRYING');
  });

  test('decisions 3, rule 3: PARKED is PENDING/PROVIDER_LIMIT until the reset; then the same batch, queued messages behind it', async () => {
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

  test('decisions 3, rule 3: a message does not hurry a parked agent', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.end(await t.start('a'), 'PARKED', { limitUntil: inAnHour() });
    const id = await t.queue('a', 'hurry');
    expect(await t.phase('a')).toBe('PENDING/PROVIDER_LIMIT');
    expect(await t.offered()).toEqual([]);
    expect(await t.remove('a', id)).toBe(true);
    expect(await t.phase('a')).toBe('PENDING/PROVIDER_LIMIT');
  });

  test('decisions 3, rule 4: FAILED for good is FAILED/ERROR with the error, and clears what was undelivered', async () => {
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
    'decisions 3: a run told to stop ends INTERRUPTED though it reports %s: rules 2 to 4 skip it',
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

  test('decisions 3, rule 7: the question is needsInput, in the timeline too, and gone when a message is delivered', async () => {
    const t = await endWith({ question: true });
    expect((await t.status('a')).needsInput).toBe('Which way?');
    expect((await t.timeline('a', 'QUESTION')).map(({ text, runId }) => [text, runId])).toEqual([
      ['Which way?', '1'],
    ]);
    await t.queue('a', 'left');
    await t.start('a');
    expect((await t.status('a')).needsInput).toBe('');
  });

  test('decisions 3, rule 8: finished, deleted and inactive tasks, and those behind inactive ones, do not count', async () => {
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

  test('decisions 3, rule 9: a child at rest does not work', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.spawn('a/child');
    await t.turn('a/child');
    await t.end(run);
    await t.turn('a');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('decisions 3, rule 11: wakesAt is the earliest deferred message’s time', async () => {
    const t = await endWith({ deferred: true });
    const sooner = inMs(1_800_000);
    await t.queue('a', { followUpId: 'sooner', description: 's', deliverAt: sooner });
    expect(Date.parse((await t.status('a')).wakesAt ?? '')).toBe(Date.parse(sooner));
    await t.remove('a', 'sooner');
    expect(Date.parse((await t.status('a')).wakesAt ?? '')).toBeGreaterThan(Date.parse(sooner));
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/DEFERRED');
  });

  test('decisions 3, rule 11: a deferred message wakes the agent when its time comes', async () => {
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
  test('decisions 3: it interrupts a working run, whose batch is not tried again', async () => {
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
    'decisions 3: a run it interrupted ends INTERRUPTED though it reports %s, and the message is next',
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

  test('decisions 3: it beats a retry: the waiting batch is abandoned, its messages stay DELIVERED', async () => {
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

  test('decisions 3: it beats a parked batch too, but its run still waits for wakesAt', async () => {
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

  test('decisions 3: during STARTING it cuts nothing; its message is the next run', async () => {
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

  test('decisions 3: if the run that was STARTING is then HANDED_BACK, the preempting message is next', async () => {
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

describe('back to rest', () => {
  const rests: [reason: string, what: Ending, phase: string][] = [
    ['RESTING', {}, 'WAITING_FOR_INPUT/RESTING'],
    ['QUESTION', { question: true }, 'WAITING_FOR_INPUT/QUESTION'],
    ['INTERRUPTED', { stopped: true }, 'WAITING_FOR_INPUT/INTERRUPTED'],
    ['TASKS_UNFINISHED', { tasks: true }, 'WAITING_FOR_INPUT/TASKS_UNFINISHED'],
    ['DEFERRED', { deferred: true }, 'WAITING_FOR_INPUT/DEFERRED'],
    ['CHILDREN', { children: true }, 'PENDING/CHILDREN'],
  ];

  test.each(rests)(
    'decisions 3: removing the last queued message brings it back to %s',
    async (_r, what, phase) => {
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
    },
  );

  test.each(rests)('decisions 3: clearing the queue brings it back to %s', async (_reason, what, phase) => {
    const t = await endWith(what);
    await t.queue('a', 'one');
    await t.queue('a', 'two');
    expect(await t.clear('a')).toBe(2);
    expect(await t.phase('a')).toBe(phase);
  });

  test('decisions 3: an agent with a batch to try stays PENDING when its queue is emptied', async () => {
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

  test.each<[what: Ending, phase: string]>([
    [{ deferred: true }, 'WAITING_FOR_INPUT/RESTING'],
    [{ deferred: true, finished: true }, 'COMPLETED/FINISHED'],
    [{ deferred: true, question: true, finished: true }, 'WAITING_FOR_INPUT/QUESTION'],
    [{ deferred: true, stopped: true }, 'WAITING_FOR_INPUT/INTERRUPTED'],
    [{ deferred: true, tasks: true, finished: true }, 'WAITING_FOR_INPUT/TASKS_UNFINISHED'],
    [{ deferred: true, children: true, finished: true }, 'PENDING/CHILDREN'],
  ])(
    'decisions 3: when the last deferred message goes, rules 6 to 11 apply again: %j',
    async (what, phase) => {
      const t = await endWith(what);
      expect(await t.remove('a', 'deferred')).toBe(true);
      expect(await t.phase('a')).toBe(phase);
      expect((await t.status('a')).wakesAt).toBeNull();
    },
  );

  test('decisions 3: a deferred message to an agent at rest makes it DEFERRED, and its removal undoes that', async () => {
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

  test('decisions 3: a parent is not woken while a child that merely rests leaves another at work', async () => {
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
  ])('decisions 3: a parent in CHILDREN is woken when one %s', async (_what, outcome, end) => {
    const t = await family();
    await t.end(await t.start('p/one'), outcome, end);
    const run = await t.claim('p');
    expect(run).toMatchObject({ runId: 2, messages: [] });
    expect(run.preface).toMatch(/one/);
    expect(run.preface).toMatch(outcome === 'FAILED' ? /it broke|BROKEN|FAILED|failed/ : /Blue or green\?/);
    expect((await t.status('p/two')).phase).toMatch(/PENDING|RUNNING/);
  });

  test('decisions 3: the end of the last working child by a kill wakes it too', async () => {
    const t = await family();
    await t.kill('p/one');
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
    await t.kill('p/two');
    expect((await t.claim('p')).runId).toBe(2);
  });

  test('decisions 3: a message to an agent in CHILDREN starts a run at once, beginning with the preface', async () => {
    const t = await family();
    await t.turn('p/one', { response: 'one is done' });
    const id = await t.queue('p', 'how is it going?');
    const run = await t.start('p');
    expect(run.messages).toEqual([{ followUpId: id, text: 'how is it going?' }]);
    expect(run.preface).toMatch(/one/);
    await t.end(run);
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
  });

  test('decisions 3: a preface says what changed since the parent’s last run, once', async () => {
    const t = await family();
    await t.turn('p/one', { response: 'one is done' });
    await t.turn('p/two', { response: 'two is done' });
    await t.turn('p');
    await t.queue('p', 'next');
    expect((await t.claim('p')).preface).toBe('');
  });

  test('decisions 3: a preface is no follow-up and can’t be cleared', async () => {
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

  test('decisions 3: a child that settles during the parent’s run makes another run at its end', async () => {
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
    'decisions 3: unless the parent learned it with its own %s',
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

  test('decisions 3: another’s look at the child is not the parent’s', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    await t.spawn('p/c');
    await t.turn('p/c');
    await t.status('p/c');
    await t.end(run);
    expect((await t.claim('p')).runId).toBe(2);
  });

  test('decisions 3: an agent’s own key spawns and commands its descendants', async () => {
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

  test('decisions 3: a finished parent whose children work is not COMPLETED until it says so with none at work', async () => {
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
  test('decisions 3: the whole subtree is CANCELED; undelivered messages are CLEARED', async () => {
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

  test('decisions 3: on a terminal agent it leaves the phase and cancels the live descendants', async () => {
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

  test('decisions 3: children that are being spawned at that moment are included', async () => {
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

  test('decisions 3 and 8: an agent’s key dies with its run', async () => {
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
  ])('decisions 3: PENDING for %s has no turn to stop', async (reason, arrange) => {
    const t = await newTestTenant(api);
    await arrange(t);
    expect(await t.phase('a')).toBe(`PENDING/${reason}`);
    const before = await t.status('a');
    for (const runId of [before.runCount, '1', '0']) {
      expectError(await t.send('agent/stop-turn', 'a', { runId }), 'INVALID_ARGUMENT', 'runId');
    }
    expect(await t.status('a')).toEqual(before);
  });

  test('decisions 3: STARTING counts as running for an explicit stop', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.claim('a');
    await t.stop('a', 1);
    expect(await t.phase('a')).toBe('RUNNING/STOPPING');
    expect(await t.stops()).toEqual(['1 INTERRUPT']);
    await t.end(run, 'INTERRUPTED');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');
  });

  test('decisions 3: the stop reaches the runner by poll and by report', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    expect((await t.report(run, { currentAction: 'x' })).stop).toBe('');
    await t.stop('a', 1);
    expect((await t.report(run, { currentAction: 'y' })).stop).toBe('INTERRUPT');
    expect(await t.stops()).toEqual(['1 INTERRUPT']);
  });

  test('decisions 3: on a STOPPING run INTERRUPT changes nothing; KILL upgrades', async () => {
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

  test.each(['INTERRUPT', 'KILL'])('decisions 3: after %s queued messages run next', async (mode) => {
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

  test('decisions 3: a run that is over can’t be stopped, at rest or in a terminal phase', async () => {
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
  test('decisions 3: KILL ends the run in its own transaction; later writes of its runner change nothing', async () => {
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
    'decisions 3: after %s the death of the process is a later timeline entry',
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

  test('decisions 3: the next run starts only when that death is confirmed', async () => {
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

  test('decisions 3: or when the lease has ended', async () => {
    const t = await newTestTenant(apiOf(hasty));
    await t.spawn('a');
    await t.start('a');
    await t.queue('a', 'next');
    await t.stop('a', 1, 'KILL');
    const other = await t.withAnotherRunner();
    expect(await other.offered()).toEqual([]);
    expect((await other.claim('a')).runId).toBe(2);
  });

  test('decisions 3: a report for an earlier run is refused, whoever sends it', async () => {
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

  test('contract, runner: a repeated report changes nothing and is answered alike', async () => {
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

  test('contract, runner: a poll with an older number is refused', async () => {
    const t = await newTestTenant(api);
    await t.offered();
    await t.offered();
    expectError(await t.runner.poll({ poll: 1 }), 'ABORTED');
  });

  test('contract, runner: a runner that leaves gets no claim', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expect(await t.offered({ leaving: true })).toEqual([]);
    const other = await t.withAnotherRunner();
    expect((await other.claim('a')).runId).toBe(1);
  });
});

describe('lost runners', () => {
  test('decisions 3, rule 2: LOST brings a new run with the same batch and session; the lost one is fenced', async () => {
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

  test('decisions 3, rule 2: a lost agent waits as PENDING/RETRYING', async () => {
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

  test('decisions 3, rule 2: the third LOST in a row is BLOCKED, and keeps what was undelivered', async () => {
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

  test('decisions 3, rule 2: only losses in a row are counted', async () => {
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

  test('decisions 3: a STOPPING run that is lost ended INTERRUPTED: rule 2 skips it', async () => {
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

  test('decisions 3: a preempt during STARTING is next when that run is LOST', async () => {
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

  test('decisions 3: a preempt after the loss abandons the waiting batch', async () => {
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

  test('contract, runner: a poll keeps the lease', async () => {
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

  test('decisions 3: an agent whose pool has lost every runner waits for NO_RUNNER', async () => {
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

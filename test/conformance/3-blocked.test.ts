import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { expectRefusal } from '../support/refusal.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { inAnHour, inMs, newStage, type Stage, textsOf } from '../support/stage.ts';

let server: SharedServer;
let api: Api;
let database: pg.Client;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
  database = new pg.Client({ connectionString: server.databaseUrl });
  await database.connect();
});
afterAll(async () => {
  await database?.end();
  await server?.close();
});

const fault = (code: string, message = 'it broke') => ({ error: { code, message } });
const refusedKey = fault('PROVIDER_KEY_REFUSED', 'anthropic answered 401');
const unreachable = fault('GIT_UNREACHABLE', 'Could not resolve host');

/** An agent that is blocked with the batch `first` and this queue behind it. */
async function blocked(path = 'a', queued: readonly Record<string, unknown>[] = []): Promise<Stage> {
  const s = await newStage(api);
  await s.spawn(path, { description: 'first' });
  const run = await s.start(path);
  for (const message of queued) await s.queue(path, message);
  await s.end(run, 'FAILED', refusedKey);
  expect(await s.phase(path)).toBe('WAITING_FOR_INPUT/BLOCKED');
  return s;
}

const idsOf = async (s: Stage, path: string) =>
  (await s.status(path)).followUps.map(({ followUpId }) => followUpId);

describe('rule 4: a run that fails', () => {
  test('4c: blocks the agent, which says what to fix and where, and keeps batch and queue', async () => {
    const s = await blocked('a', [
      { followUpId: 'q', description: 'queued' },
      { followUpId: 'd', description: 'deferred', deliverAt: inAnHour() },
    ]);
    const status = await s.status('a');
    expect(status).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      phaseReason: 'BLOCKED',
      error: refusedKey.error,
      needsInput: `The provider refused the key. Fix it on runner ${s.runner.name}, then retry.`,
      endedAt: null,
      run: { outcome: 'FAILED' },
    });
    expect(await idsOf(s, 'a')).toEqual(['q', 'd']);
    expect(await s.offered()).toEqual([]);
    const { body } = await api.post<{ entries: Record<string, unknown>[] }>('/v1/agents', {
      workspace: s.workspace,
    });
    expect(body.entries[0]).toMatchObject({
      phaseReason: 'BLOCKED',
      needsInput: status.needsInput,
      error: 'anthropic answered 401',
      queued: 2,
    });
    expect((await s.timeline('a', 'ERROR'))[0]).toMatchObject({
      text: 'anthropic answered 401',
      data: { code: 'PROVIDER_KEY_REFUSED' },
    });
  });

  test.each([
    'PROVIDER_OUT_OF_CREDIT',
    'PROVIDER_FORBIDDEN',
    'MODEL_UNKNOWN',
    'OUTPUT_LIMIT',
    'CONTEXT_OVERFLOW',
    'REFUSAL',
    'INVALID_STRUCTURED_OUTPUT',
    'SESSION_NOT_OPENED',
    'WORKSPACE_NOT_PREPARED',
    'A_CODE_OF_A_NEWER_RUNNER',
  ])('4c: %s blocks', async (code) => {
    const s = await newStage(api);
    await s.spawn('a');
    await s.end(await s.start('a'), 'FAILED', fault(code));
    expect(await s.status('a')).toMatchObject({ phaseReason: 'BLOCKED', error: { code } });
    expect((await s.status('a')).needsInput).not.toBe('');
  });

  test.each(['GIT_UNREACHABLE', 'PROVIDER_UNAVAILABLE', 'DISK_FULL', 'SETUP_FAILED'])(
    '4b: %s is tried again after 30 s, with the same batch',
    async (code) => {
      const s = await newStage(api);
      await s.spawn('a');
      await s.end(await s.start('a'), 'FAILED', fault(code));
      const { phaseSince, wakesAt, ...status } = await s.status('a');
      expect(status).toMatchObject({ phase: 'PHASE_PENDING', phaseReason: 'RETRYING', error: { code } });
      expect(Date.parse(wakesAt ?? '') - Date.parse(phaseSince)).toBe(30_000);
      expect(await s.offered()).toEqual([]);
    },
  );

  test('4b: the delays are 30 s, 1, 2, 4 and 8 minutes; then it is blocked, and counts anew after a retry', async () => {
    const s = await newStage(api);
    await s.spawn('a', { description: 'first' });
    const delays: number[] = [];
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      await s.end(await s.start('a'), 'FAILED', unreachable);
      const { phaseSince, wakesAt } = await s.status('a');
      delays.push((Date.parse(wakesAt ?? '') - Date.parse(phaseSince)) / 1000);
      expect((await s.send('agent/retry', 'a')).status).toBe(200);
      expect((await s.status('a')).wakesAt).toBeNull();
    }
    expect(delays).toEqual([30, 60, 120, 240, 480]);
    const sixth = await s.start('a');
    expect(sixth).toMatchObject({ runId: 6, attempt: 6 });
    expect(textsOf(sixth)).toEqual(['first']);
    await s.end(sixth, 'FAILED', unreachable);
    expect(await s.status('a')).toMatchObject({ phaseReason: 'BLOCKED', error: { code: 'GIT_UNREACHABLE' } });
    await s.send('agent/retry', 'a');
    await s.end(await s.start('a'), 'FAILED', unreachable);
    const { phaseReason, phaseSince, wakesAt } = await s.status('a');
    expect(phaseReason).toBe('RETRYING');
    expect(Date.parse(wakesAt ?? '') - Date.parse(phaseSince)).toBe(30_000);
  });

  test('4b: it starts by itself when the delay is over', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    await s.end(await s.start('a'), 'FAILED', unreachable);
    await database.query(
      "UPDATE agents SET claimable_at = now() + interval '1 second' WHERE workspace = $1",
      [s.workspace],
    );
    expect(await s.claim('a')).toMatchObject({ runId: 2, attempt: 2 });
    expect(await s.status('a')).toMatchObject({ error: null, wakesAt: null });
  });

  test('4b: a message waits behind the batch; a preempting one abandons it and starts immediately', async () => {
    const s = await newStage(api);
    await s.rested('a');
    await s.queue('a', { followUpId: 'tried', description: 'tried' });
    await s.end(await s.start('a'), 'FAILED', unreachable);
    await s.queue('a', 'behind');
    expect(await s.phase('a')).toBe('PENDING/RETRYING');
    expect(await s.offered()).toEqual([]);
    const followUpId = await s.queue('a', { description: 'now', preempt: true });
    expect(await s.timeline('a', 'BATCH_ABANDONED')).toMatchObject([{ followUpId }]);
    expect(textsOf(await s.claim('a'))).toEqual(['now']);
  });

  test('4b: a preempt during STARTING goes first if that run then meets a passing fault', async () => {
    const s = await newStage(api);
    await s.rested('a');
    await s.queue('a', 'tried');
    const run = await s.claim('a');
    await s.queue('a', { description: 'now', preempt: true });
    await s.end(run, 'FAILED', unreachable);
    expect(textsOf(await s.claim('a'))).toEqual(['now']);
  });

  test('4c is not beaten by a preempt during STARTING: nothing is thrown away', async () => {
    const s = await newStage(api);
    await s.rested('a');
    await s.queue('a', 'tried');
    const run = await s.claim('a');
    await s.queue('a', { description: 'now', preempt: true });
    await s.end(run, 'FAILED', refusedKey);
    expect(await s.phase('a')).toBe('WAITING_FOR_INPUT/BLOCKED');
    await s.send('agent/retry', 'a');
    expect(textsOf(await s.claim('a'))).toEqual(['tried', 'now']);
  });

  test("4a: the agent's own fail tool ends it as FAILED once its run has ended", async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const run = await s.start('a');
    const own = api.as(run.token);
    const agentId = s.id('a');
    expect((await own.post('/v1/agent/fail', { agentId, message: 'There is no such page.' })).status).toBe(
      200,
    );
    expectRefusal(await own.post('/v1/agent/fail', { agentId, message: ' ' }), 'INVALID_ARGUMENT', 'message');
    expectRefusal(await api.post('/v1/agent/fail', { agentId, message: 'x' }), 'PERMISSION_DENIED');
    expect(await s.phase('a')).toBe('RUNNING/WORKING');
    await s.end(run, 'COMPLETED', { finished: true });
    expect(await s.status('a')).toMatchObject({
      phase: 'PHASE_FAILED',
      phaseReason: 'ERROR',
      error: { code: 'AGENT_FAILED', message: 'There is no such page.' },
      run: { outcome: 'FAILED' },
    });
  });
});

describe('BLOCKED', () => {
  const behind = [
    { followUpId: 'one', description: 'one' },
    { followUpId: 'two', description: 'two', model: 'rehearsal-a', reasoningEffort: 'high' },
    { followUpId: 'three', description: 'three', reasoningEffort: 'low' },
  ];

  test('retry gives one run the kept batch and the whole queue, whatever it overrides, settings applied', async () => {
    const s = await blocked('a', behind);
    expect((await s.send('agent/retry', 'a')).body).toEqual({});
    const run = await s.start('a');
    expect(run).toMatchObject({ runId: 2, attempt: 2, reasoningEffort: 'low' });
    expect(textsOf(run)).toEqual(['first', 'one', 'two', 'three']);
    expect(await s.status('a')).toMatchObject({
      error: null,
      needsInput: '',
      followUps: [],
      reasoningEffort: 'low',
      run: { followUpIds: ['one', 'two', 'three'] },
    });
    await s.end(run);
    expect(await s.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
    expect((await s.runs('a')).map(({ batch, outcome }) => `${batch} ${outcome}`)).toEqual([
      '1 COMPLETED',
      '1 FAILED',
    ]);
  });

  test('a message ends it and brings the model that fixes the fault', async () => {
    const s = await blocked();
    await s.queue('a', { description: 'use this', reasoningEffort: 'max' });
    const run = await s.start('a');
    expect(textsOf(run)).toEqual(['first', 'use this']);
    expect(run.reasoningEffort).toBe('max');
    await s.end(run, 'HANDED_BACK');
    expect(textsOf(await s.claim('a'))).toEqual(['first', 'use this']);
  });

  test('a deferred message leaves it until it falls due', async () => {
    const s = await blocked();
    const deliverAt = inMs(1_500);
    await s.queue('a', { description: 'later', deliverAt });
    expect(await s.status('a')).toMatchObject({ phaseReason: 'BLOCKED', wakesAt: deliverAt });
    expect(textsOf(await s.claim('a'))).toEqual(['first', 'later']);
  });

  test('a preempting message abandons the kept batch; the spawn goes along', async () => {
    const s = await newStage(api);
    await s.rested('a');
    await s.queue('a', { followUpId: 'kept', description: 'kept' });
    const run = await s.start('a');
    await s.queue('a', { followUpId: 'queued', description: 'queued' });
    await s.end(run, 'FAILED', refusedKey);
    const followUpId = await s.queue('a', { description: 'now', preempt: true });
    expect(await s.timeline('a', 'BATCH_ABANDONED')).toMatchObject([
      { followUpId, data: { followUpIds: ['kept'] } },
    ]);
    expect(await idsOf(s, 'a')).toEqual([followUpId]);
    expect(textsOf(await s.claim('a'))).toEqual(['now']);

    const fresh = await blocked();
    await fresh.queue('a', { description: 'now', preempt: true, reasoningEffort: 'high' });
    expect(textsOf(await fresh.claim('a'))).toEqual(['first', 'now']);
  });

  test('clear, remove, replacing by a deferred message, task changes and children leave it', async () => {
    const s = await newStage(api);
    await s.spawn('a', { description: 'first' });
    await s.spawn('a/child');
    const run = await s.start('a');
    for (const message of behind) await s.queue('a', message);
    await s.end(run, 'FAILED', refusedKey);
    const stays = async () => expect(await s.phase('a')).toBe('WAITING_FOR_INPUT/BLOCKED');
    await s.remove('a', 'one');
    await stays();
    await s.queue('a', { followUpId: 'two', description: 'later', deliverAt: inAnHour(), replace: true });
    await stays();
    expect(await s.clear('a')).toBe(1);
    await stays();
    expect(await idsOf(s, 'a')).toEqual(['two']);
    const [task] = await s.addTasks('a', { subject: 'Do it' });
    await s.send('agent/tasks/update', 'a', { id: task?.id, status: 'TASK_STATUS_COMPLETED' });
    await stays();
    await s.end(await s.start('a/child'), 'COMPLETED', { question: 'Red or blue?' });
    await stays();
    expectRefusal(await s.send('agent/stop-turn', 'a', { runId: '1' }), 'INVALID_ARGUMENT', 'runId');
    expect(await s.offered()).toEqual([]);
    await s.send('agent/retry', 'a');
    const next = await s.claim('a');
    expect(textsOf(next)).toEqual(['first']);
    expect(next.preface).toContain('Red or blue?');
  });

  test('replacing a queued message by another is a message', async () => {
    const s = await blocked('a', [{ followUpId: 'q', description: 'old' }]);
    await s.queue('a', { followUpId: 'q', description: 'new', replace: true });
    expect(textsOf(await s.claim('a'))).toEqual(['first', 'new']);
  });

  test('a kill ends it', async () => {
    const s = await blocked('a', behind);
    await s.kill('a');
    expect(await s.status('a')).toMatchObject({ phase: 'PHASE_CANCELED', followUps: [], needsInput: '' });
    expectRefusal(await s.send('agent/retry', 'a'), 'FAILED_PRECONDITION');
  });

  test('a wait for a message of the kept batch, or of the queue, returns; the message is not answered', async () => {
    const s = await newStage(api);
    await s.rested('a');
    await s.queue('a', { followUpId: 'kept', description: 'kept' });
    const run = await s.start('a');
    await s.queue('a', { followUpId: 'queued', description: 'queued' });
    const waits = ['kept', 'queued'].map((followUpId) => s.send('agent/wait', 'a', { followUpId }));
    await s.end(run, 'FAILED', refusedKey);
    for (const wait of waits) expect((await wait).body).toMatchObject({ phaseReason: 'BLOCKED' });
    const { body } = await s.send('agent/queue/get', 'a', { followUpId: 'kept' });
    expect(body).toMatchObject({ state: 'DELIVERED', answered: false });
  });

  test('a parent in CHILDREN is woken by a blocked child and told why', async () => {
    const s = await newStage(api);
    await s.spawn('p');
    const parent = await s.start('p');
    await s.spawn('p/one');
    await s.spawn('p/two');
    await s.end(parent);
    expect(await s.phase('p')).toBe('PENDING/CHILDREN');
    await s.end(await s.start('p/one'), 'FAILED', refusedKey);
    const woken = await s.claim('p');
    expect(woken.preface).toContain('Your child p/one is blocked');
    expect(woken.preface).toContain('anthropic answered 401');
  });
});

describe('retry', () => {
  test('is FAILED_PRECONDITION unless the agent is BLOCKED or RETRYING', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    expectRefusal(await s.send('agent/retry', 'a'), 'FAILED_PRECONDITION');
    const run = await s.start('a');
    expectRefusal(await s.send('agent/retry', 'a'), 'FAILED_PRECONDITION');
    await s.end(run);
    expectRefusal(await s.send('agent/retry', 'a'), 'FAILED_PRECONDITION');
    expectRefusal(await s.send('agent/retry', 'nobody'), 'NOT_FOUND');
  });

  test('of a run that was handed back is a 200 that changes nothing', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    await s.end(await s.start('a'), 'HANDED_BACK');
    expect(await s.phase('a')).toBe('PENDING/RETRYING');
    expect((await s.send('agent/retry', 'a')).status).toBe(200);
    expect(await s.claim('a')).toMatchObject({ runId: 2, attempt: 2 });
  });
});

describe('reopen', () => {
  const finish = { finished: true, response: 'all done' };

  test.each([
    ['COMPLETED', finish],
    ['FAILED', fault('REHEARSED_FAILURE')],
  ])('turns a %s agent into RESTING with its session, checklist and branch', async (outcome, end) => {
    const s = await newStage(api);
    await s.spawn('a', { description: 'first', tasks: [{ id: 't', subject: 'Do it' }] });
    const run = await s.start('a');
    const push = { ref: 'muster/a', commits: ['c'], files: ['f'] };
    await s.report(run, { session: 'session-1', pushes: [push] });
    await s.send('agent/tasks/update', 'a', { id: 't', status: 'TASK_STATUS_COMPLETED' });
    await s.queue('a', { followUpId: 'd', description: 'd', deliverAt: inAnHour() });
    await s.remove('a', 'd');
    await s.end(run, outcome, end);
    expect((await s.status('a')).phase).toBe(`PHASE_${outcome}`);

    expect((await s.send('agent/reopen', 'a')).body).toEqual({});
    expect(await s.status('a')).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      phaseReason: 'RESTING',
      error: null,
      endedAt: null,
      branch: 'muster/a',
      followUps: [],
      tasks: [{ id: 't', status: 'TASK_STATUS_COMPLETED' }],
    });
    expect(await s.offered()).toEqual([]);
    await s.queue('a', 'more');
    const next = await s.start('a');
    expect(next).toMatchObject({ runId: 2, session: 'session-1', attempt: 1 });
    expect(textsOf(next)).toEqual(['more']);
    await s.end(next);
    expect(await s.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('cleared messages stay cleared, and a live agent is left as it is', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const run = await s.start('a');
    await s.queue('a', { followUpId: 'q', description: 'q' });
    expect((await s.send('agent/reopen', 'a')).body).toEqual({});
    expect(await s.phase('a')).toBe('RUNNING/WORKING');
    await s.end(run, 'FAILED', fault('REHEARSED_FAILURE'));
    await s.send('agent/reopen', 'a');
    expect(await idsOf(s, 'a')).toEqual([]);
    expect((await s.send('agent/queue/get', 'a', { followUpId: 'q' })).body).toMatchObject({
      state: 'CLEARED',
    });
  });

  test('a killed agent stays ended', async () => {
    const s = await newStage(api);
    await s.rested('a');
    await s.kill('a');
    expectRefusal(await s.send('agent/reopen', 'a'), 'FAILED_PRECONDITION');
  });

  test('needs a parent that has not ended', async () => {
    const s = await newStage(api);
    await s.spawn('p');
    const parent = await s.start('p');
    await s.spawn('p/c');
    await s.end(await s.start('p/c'), 'COMPLETED', finish);
    await s.end(parent, 'FAILED', fault('REHEARSED_FAILURE'));
    expectRefusal(await s.send('agent/reopen', 'p/c'), 'FAILED_PRECONDITION');
    await s.send('agent/reopen', 'p');
    expect((await s.send('agent/reopen', 'p/c')).status).toBe(200);
    expect(await s.phase('p/c')).toBe('WAITING_FOR_INPUT/RESTING');
    await s.kill('p');
    expect(await s.phase('p/c')).toBe('CANCELED/PARENT_KILLED');
  });

  test('needs room under the limit of live descendants', async () => {
    const s = await newStage(api);
    await s.spawn('p');
    const parent = await s.start('p');
    await s.spawn('p/c');
    await s.end(await s.start('p/c'), 'COMPLETED', finish);
    await s.end(parent);
    // Written straight into the store: 500 spawns would take long.
    await database.query(
      `INSERT INTO agents
       SELECT (json_populate_record(a, json_build_object(
         'id', gen_random_uuid(), 'path', 'p/n' || n, 'phase', 'PHASE_WAITING_FOR_INPUT', 'reason', 'RESTING',
         'ended_at', NULL))).*
       FROM agents a, generate_series(1, 500) n WHERE a.workspace = $1 AND a.path = 'p/c'`,
      [s.workspace],
    );
    expectRefusal(await s.send('agent/reopen', 'p/c'), 'RESOURCE_EXHAUSTED');
    await s.kill('p/n1');
    expect((await s.send('agent/reopen', 'p/c')).status).toBe(200);
  });

  test('after the time for which sessions are kept it begins a new one, with a WARNING', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const run = await s.start('a');
    await s.report(run, { session: 'session-1' });
    await s.end(run, 'COMPLETED', finish);
    await database.query(
      "UPDATE agents SET ended_at = ended_at - interval '31 days', swept = true WHERE workspace = $1",
      [s.workspace],
    );
    await s.send('agent/reopen', 'a');
    expect((await s.timeline('a', 'WARNING')).map(({ text }) => text)).toEqual([
      expect.stringContaining('starts a new session'),
    ]);
    const { rows } = await database.query('SELECT swept FROM agents WHERE workspace = $1', [s.workspace]);
    expect(rows).toEqual([{ swept: false }]);
    await s.queue('a', 'more');
    expect((await s.claim('a')).session).toBe('');
  });
});

import { describe, expect, test } from 'vitest';
import { useDatabase } from '../support/database.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, inMs, newTestTenant, type TestTenant, textsOf } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;
const database = await useDatabase(server.databaseUrl);

const fault = (code: string, message = 'it broke') => ({ error: { code, message } });
const refusedKey = fault('PROVIDER_KEY_REFUSED', 'anthropic answered 401');
const unreachable = fault('GIT_UNREACHABLE', 'Could not resolve host');

/** An agent that is blocked with the batch `first` and this queue behind it. */
async function blocked(path = 'a', queued: readonly Record<string, unknown>[] = []): Promise<TestTenant> {
  const t = await newTestTenant(api);
  await t.spawn(path, { description: 'first' });
  const run = await t.start(path);
  for (const message of queued) await t.queue(path, message);
  await t.end(run, 'FAILED', refusedKey);
  expect(await t.phase(path)).toBe('WAITING_FOR_INPUT/BLOCKED');
  return t;
}

describe('a run that fails', () => {
  test('blocks the agent, which says what to fix and where, and keeps its batch and its queue', async () => {
    const t = await blocked('a', [
      { followUpId: 'q', description: 'queued' },
      { followUpId: 'd', description: 'deferred', deliverAt: inAnHour() },
    ]);
    const status = await t.status('a');
    expect(status).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      phaseReason: 'BLOCKED',
      error: refusedKey.error,
      needsInput: `The provider refused the key. Fix it on runner ${t.runner.name}, then retry.`,
      endedAt: null,
      run: { outcome: 'FAILED' },
    });
    expect(await t.followUpIds('a')).toEqual(['q', 'd']);
    expect(await t.offered()).toEqual([]);
    const { body } = await api.post<{ entries: Record<string, unknown>[] }>('/v1/agents', {
      workspace: t.workspace,
    });
    expect(body.entries[0]).toMatchObject({
      phaseReason: 'BLOCKED',
      needsInput: status.needsInput,
      error: 'anthropic answered 401',
      queued: 2,
    });
    expect((await t.timeline('a', 'ERROR'))[0]).toMatchObject({
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
    'SETUP_FAILED',
    'A_CODE_OF_A_NEWER_RUNNER',
  ])('with %s blocks the agent', async (code) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.end(await t.start('a'), 'FAILED', fault(code));
    expect(await t.status('a')).toMatchObject({ phaseReason: 'BLOCKED', error: { code } });
    expect((await t.status('a')).needsInput).not.toBe('');
  });

  test.each(['GIT_UNREACHABLE', 'PROVIDER_UNAVAILABLE', 'DISK_FULL'])(
    'with %s is retried after 30 s, with the same batch',
    async (code) => {
      const t = await newTestTenant(api);
      await t.spawn('a');
      await t.end(await t.start('a'), 'FAILED', fault(code));
      const { phaseSince, wakesAt, ...status } = await t.status('a');
      expect(status).toMatchObject({ phase: 'PHASE_PENDING', phaseReason: 'RETRYING', error: { code } });
      expect(Date.parse(wakesAt ?? '') - Date.parse(phaseSince)).toBe(30_000);
      expect(await t.offered()).toEqual([]);
    },
  );

  test('is retried after 30 s, 1, 2, 4 and 8 minutes, then every 10; the error says which attempt it was', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'first' });
    const delays: number[] = [];
    for (let attempt = 1; attempt <= 7; attempt += 1) {
      await t.end(await t.start('a'), 'FAILED', unreachable);
      const { phaseSince, wakesAt, error } = await t.status('a');
      delays.push((Date.parse(wakesAt ?? '') - Date.parse(phaseSince)) / 1000);
      expect(error?.message).toBe(`Could not resolve host (attempt ${attempt})`);
      expect((await t.timeline('a', 'ERROR')).at(-1)?.data).toMatchObject({ attempt, retryAt: wakesAt });
      expect((await t.send('agent/retry', 'a')).status).toBe(200);
      expect((await t.status('a')).wakesAt).toBeNull();
    }
    expect(delays).toEqual([30, 60, 120, 240, 480, 600, 600]);
    expect(textsOf(await t.claim('a'))).toEqual(['first']);
  });

  test('for a day blocks the agent, and a retry starts the delays again', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.end(await t.start('a'), 'FAILED', unreachable);
    await database.query(
      `UPDATE agent_states s SET memory = jsonb_set(memory::jsonb, '{failingSince}', to_jsonb(now() - interval '1 day'))::json
       FROM agents a WHERE a.id = s.agent AND a.workspace = $1`,
      [t.workspace],
    );
    await t.send('agent/retry', 'a');
    await t.end(await t.start('a'), 'FAILED', unreachable);
    expect(await t.status('a')).toMatchObject({
      phaseReason: 'BLOCKED',
      error: { code: 'GIT_UNREACHABLE', message: 'Could not resolve host (attempt 2)' },
    });
    await t.send('agent/retry', 'a');
    await t.end(await t.start('a'), 'FAILED', unreachable);
    const { phaseReason, phaseSince, wakesAt } = await t.status('a');
    expect(phaseReason).toBe('RETRYING');
    expect(Date.parse(wakesAt ?? '') - Date.parse(phaseSince)).toBe(30_000);
  });

  test('starts by itself when the delay is over', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.end(await t.start('a'), 'FAILED', unreachable);
    await database.query(
      "UPDATE agents SET claimable_at = now() + interval '1 second' WHERE workspace = $1",
      [t.workspace],
    );
    expect(await t.claim('a')).toMatchObject({ runId: 2, attempt: 2 });
    expect(await t.status('a')).toMatchObject({ error: null, wakesAt: null });
  });

  test('keeps its batch before new messages; a preempting message abandons the batch and starts immediately', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'tried', description: 'tried' });
    await t.end(await t.start('a'), 'FAILED', unreachable);
    await t.queue('a', 'behind');
    expect(await t.phase('a')).toBe('PENDING/RETRYING');
    expect(await t.offered()).toEqual([]);
    const followUpId = await t.queue('a', { description: 'now', preempt: true });
    expect(await t.timeline('a', 'BATCH_ABANDONED')).toMatchObject([{ followUpId }]);
    expect(textsOf(await t.claim('a'))).toEqual(['now']);
  });

  test('with a transient error after a preempt during STARTING runs the preempting message first', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', 'tried');
    const run = await t.claim('a');
    await t.queue('a', { description: 'now', preempt: true });
    await t.end(run, 'FAILED', unreachable);
    expect(textsOf(await t.claim('a'))).toEqual(['now']);
  });

  test('with a permanent error after a preempt during STARTING blocks the agent and keeps everything', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', 'tried');
    const run = await t.claim('a');
    await t.queue('a', { description: 'now', preempt: true });
    await t.end(run, 'FAILED', refusedKey);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/BLOCKED');
    await t.send('agent/retry', 'a');
    expect(textsOf(await t.claim('a'))).toEqual(['tried', 'now']);
  });

  test("by the agent's own fail tool ends the agent as FAILED when the run has ended", async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const own = api.as(run.token);
    const agentId = t.id('a');
    expect((await own.post('/v1/agent/fail', { agentId, message: 'There is no such page.' })).status).toBe(
      200,
    );
    expectError(await own.post('/v1/agent/fail', { agentId, message: ' ' }), 'INVALID_ARGUMENT', 'message');
    expectError(await api.post('/v1/agent/fail', { agentId, message: 'x' }), 'PERMISSION_DENIED');
    expect(await t.phase('a')).toBe('RUNNING/WORKING');
    await t.end(run, 'COMPLETED', { finished: true });
    expect(await t.status('a')).toMatchObject({
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

  test('retry runs the kept batch and the whole queue in one run, with every setting they bring', async () => {
    const t = await blocked('a', behind);
    expect((await t.send('agent/retry', 'a')).body).toEqual({});
    const run = await t.start('a');
    expect(run).toMatchObject({ runId: 2, attempt: 2, reasoningEffort: 'low' });
    expect(textsOf(run)).toEqual(['first', 'one', 'two', 'three']);
    expect(await t.status('a')).toMatchObject({
      error: null,
      needsInput: '',
      followUps: [],
      reasoningEffort: 'low',
      run: { followUpIds: ['one', 'two', 'three'] },
    });
    await t.end(run);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
    expect((await t.runs('a')).map(({ batch, outcome }) => `${batch} ${outcome}`)).toEqual([
      '1 COMPLETED',
      '1 FAILED',
    ]);
  });

  test('a message resumes the agent and may bring the model that fixes the error', async () => {
    const t = await blocked();
    await t.queue('a', { description: 'use this', reasoningEffort: 'max' });
    const run = await t.start('a');
    expect(textsOf(run)).toEqual(['first', 'use this']);
    expect(run.reasoningEffort).toBe('max');
    await t.end(run, 'HANDED_BACK');
    expect(textsOf(await t.claim('a'))).toEqual(['first', 'use this']);
  });

  test('a deferred message resumes the agent when it is due', async () => {
    const t = await blocked();
    const deliverAt = inMs(1_500);
    await t.queue('a', { description: 'later', deliverAt });
    expect(await t.status('a')).toMatchObject({ phaseReason: 'BLOCKED', wakesAt: deliverAt });
    expect(textsOf(await t.claim('a'))).toEqual(['first', 'later']);
  });

  test('a preempting message abandons the kept batch, the spawn included', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'kept', description: 'kept' });
    const run = await t.start('a');
    await t.queue('a', { followUpId: 'queued', description: 'queued' });
    await t.end(run, 'FAILED', refusedKey);
    const followUpId = await t.queue('a', { description: 'now', preempt: true });
    expect(await t.timeline('a', 'BATCH_ABANDONED')).toMatchObject([
      { followUpId, data: { followUpIds: ['kept'] } },
    ]);
    expect(await t.followUpIds('a')).toEqual([followUpId]);
    expect(textsOf(await t.claim('a'))).toEqual(['now']);

    const fresh = await blocked();
    await fresh.queue('a', { description: 'now', preempt: true, reasoningEffort: 'high' });
    expect(textsOf(await fresh.claim('a'))).toEqual(['first', 'now']);
  });

  test('clear, remove, a replacement by a deferred message, task changes and children leave the agent blocked', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'first' });
    await t.spawn('a/child');
    const run = await t.start('a');
    for (const message of behind) await t.queue('a', message);
    await t.end(run, 'FAILED', refusedKey);
    const stays = async () => expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/BLOCKED');
    await t.remove('a', 'one');
    await stays();
    await t.queue('a', { followUpId: 'two', description: 'later', deliverAt: inAnHour(), replace: true });
    await stays();
    expect(await t.clear('a')).toBe(1);
    await stays();
    expect(await t.followUpIds('a')).toEqual(['two']);
    const [task] = await t.addTasks('a', { subject: 'Do it' });
    await t.send('agent/tasks/update', 'a', { id: task?.id, status: 'TASK_STATUS_COMPLETED' });
    await stays();
    await t.end(await t.start('a/child'), 'COMPLETED', { question: 'Red or blue?' });
    await stays();
    expectError(await t.send('agent/stop-turn', 'a', { runId: '1' }), 'INVALID_ARGUMENT', 'runId');
    expect(await t.offered()).toEqual([]);
    await t.send('agent/retry', 'a');
    const next = await t.claim('a');
    expect(textsOf(next)).toEqual(['first']);
    expect(next.preface).toContain('Red or blue?');
  });

  test('replacing a queued message by another resumes the agent', async () => {
    const t = await blocked('a', [{ followUpId: 'q', description: 'old' }]);
    await t.queue('a', { followUpId: 'q', description: 'new', replace: true });
    expect(textsOf(await t.claim('a'))).toEqual(['first', 'new']);
  });

  test('a kill ends the agent', async () => {
    const t = await blocked('a', behind);
    await t.kill('a');
    expect(await t.status('a')).toMatchObject({ phase: 'PHASE_CANCELED', followUps: [], needsInput: '' });
    expectError(await t.send('agent/retry', 'a'), 'FAILED_PRECONDITION');
  });

  test('a wait for a message of the kept batch or of the queue returns; the message is not answered', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'kept', description: 'kept' });
    const run = await t.start('a');
    await t.queue('a', { followUpId: 'queued', description: 'queued' });
    const waits = ['kept', 'queued'].map((followUpId) => t.send('agent/wait', 'a', { followUpId }));
    await t.end(run, 'FAILED', refusedKey);
    for (const wait of waits) expect((await wait).body).toMatchObject({ phaseReason: 'BLOCKED' });
    const { body } = await t.send('agent/queue/get', 'a', { followUpId: 'kept' });
    expect(body).toMatchObject({ state: 'DELIVERED', answered: false });
  });

  test('a parent in CHILDREN is woken by a blocked child and told why', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const parent = await t.start('p');
    await t.spawn('p/one');
    await t.spawn('p/two');
    await t.end(parent);
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
    await t.end(await t.start('p/one'), 'FAILED', refusedKey);
    const woken = await t.claim('p');
    expect(woken.preface).toContain('Your child p/one is blocked');
    expect(woken.preface).toContain('anthropic answered 401');
  });
});

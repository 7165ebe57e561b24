import { randomUUID } from 'node:crypto';
import type { AgentStatus, SpawnReply } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { until } from '../support/async.ts';
import { apiWithNewKey } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

type Fields = Record<string, unknown>;
const schema = '{"type":"object"}';

describe('spawn', () => {
  test('accepts every setting of a follow-up, and the runner gets them', async () => {
    const t = await newTestTenant(api);
    const settings = {
      model: 'gpt-x',
      reasoningEffort: 'high',
      serviceTier: 'flex',
      fastMode: true,
      outputSchema: schema,
    };
    const reply = await t.spawn('a', {
      description: 'do it',
      expectedOutput: 'a report',
      tasks: [{ id: 't', subject: 'first' }],
      agent: 'reviewer',
      ...settings,
    });
    expect(reply).toMatchObject({ phase: 'PHASE_PENDING', runCount: '0' });
    expect(await t.status('a')).toMatchObject({
      description: 'do it',
      expectedOutput: 'a report',
      persona: 'reviewer',
      backend: 'BACKEND_B',
      tasks: expect.arrayContaining([expect.objectContaining({ id: 't', subject: 'first' })]),
      ...settings,
    });
    expect(await t.claim('a')).toMatchObject({
      agentId: reply.agentId,
      messages: [{ followUpId: '', text: 'do it' }],
      expectedOutput: 'a report',
      persona: { name: 'reviewer', instructions: expect.any(String) },
      backend: 'BACKEND_B',
      ...settings,
    });
  });

  test.each<[field: string | RegExp, wrong: Fields]>([
    ['description', { description: 'x'.repeat(256 * 1024 + 1) }],
    ['agent', { agent: 'nobody' }],
    ['model', { model: 'llama-3' }],
    ['reasoningEffort', { model: 'gpt-x', reasoningEffort: 'max' }],
    ['serviceTier', { model: 'opus', serviceTier: 'fast' }],
    ['outputSchema', { outputSchema: 'not json' }],
    [/^tasks/, { tasks: [{ id: 'x', blocks: ['y'] }] }],
  ])('with a wrong %s is refused, and no agent is created', async (field, wrong) => {
    const t = await newTestTenant(api);
    expectError(await t.send('agent/spawn', 'a', { description: 'x', ...wrong }), 'INVALID_ARGUMENT', field);
    expectError(await t.send('agent/status', 'a'), 'NOT_FOUND');
  });

  test('a root has at most 500 live descendants', async () => {
    const t = await newTestTenant(api);
    await t.spawn('r');
    await t.spawn('r/deep');
    const paths = Array.from({ length: 499 }, (_, i) => (i % 2 === 0 ? `r/c${i}` : `r/deep/c${i}`));
    for (let i = 0; i < paths.length; i += 50) {
      await Promise.all(paths.slice(i, i + 50).map((path) => t.spawn(path)));
    }
    for (const path of ['r/more', 'r/deep/more', 'r/c0/more']) {
      const answer = await t.send('agent/spawn', path, { description: 'x' });
      expectError(answer, 'RESOURCE_EXHAUSTED');
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
    }
    await t.kill('r/c0');
    await t.spawn('r/more');
    await t.spawn('other-root');
  });
});

describe('Idempotency-Key', () => {
  const spawnOnce = (by: Api, key: string, body: Fields) =>
    by.post<SpawnReply>('/v1/agent/spawn', body, { 'idempotency-key': key });

  test('a retried spawn returns the first reply, even if the agent has changed', async () => {
    const t = await newTestTenant(api);
    const key = randomUUID();
    const body = { agentId: t.id('a'), description: 'x', model: 'rehearsal-a' };
    const first = await spawnOnce(api, key, body);
    expect(first.status).toBe(200);
    await t.turn('a', { finished: true });
    const again = await spawnOnce(api, key, body);
    expect({ status: again.status, body: again.body }).toEqual({ status: 200, body: first.body });
    expect((await t.status('a')).phase).toBe('PHASE_COMPLETED');
  });

  test('concurrent and later retries are one agent, with one generated name', async () => {
    const key = randomUUID();
    const body = { description: 'x', workspace: `idem-${key.slice(0, 8)}` };
    const answers = await Promise.all(Array.from({ length: 6 }, () => spawnOnce(api, key, body)));
    for (const answer of answers) expect(answer).toMatchObject({ status: 200, body: answers[0]?.body });
    const { body: list } = await api.post<{ entries: unknown[] }>('/v1/agents', {
      workspace: body.workspace,
    });
    expect(list.entries).toHaveLength(1);
  });

  test('another body under the same key is ALREADY_EXISTS', async () => {
    const key = randomUUID();
    expect((await spawnOnce(api, key, { description: 'one' })).status).toBe(200);
    expectError(await spawnOnce(api, key, { description: 'two' }), 'ALREADY_EXISTS');
  });

  test('belongs to one API key', async () => {
    const member = await apiWithNewKey(api, { role: 'member', account: 'idem' });
    const key = randomUUID();
    const mine = await spawnOnce(api, key, { description: 'x' });
    const theirs = await spawnOnce(member, key, { description: 'another body' });
    expect([mine.status, theirs.status]).toEqual([200, 200]);
    expect(theirs.body.agentId.account).toBe('idem');
  });

  test('a refused spawn stores nothing; the key may be used for the corrected one', async () => {
    const key = randomUUID();
    expectError(await spawnOnce(api, key, { model: 'llama-3' }), 'INVALID_ARGUMENT', 'model');
    expect((await spawnOnce(api, key, { model: 'opus', description: 'x' })).status).toBe(200);
  });

  test('without the header a repeated spawn is ALREADY_EXISTS', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expectError(
      await t.send('agent/spawn', 'a', { description: 'work', model: 'rehearsal-a' }),
      'ALREADY_EXISTS',
    );
  });
});

describe('status', () => {
  test('includes runCount, the run that stop-turn needs', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.start('a');
    const { runCount } = await t.status('a');
    expect((await t.send('agent/stop-turn', 'a', { runId: runCount })).status).toBe(200);
  });

  test('has the last run’s response and structuredOutput', async () => {
    const t = await newTestTenant(api);
    await t.rested('a', { outputSchema: '{}' }, { response: 'one', structuredOutput: { n: [1, null, 'x'] } });
    expect(await t.status('a')).toMatchObject({ response: 'one', structuredOutput: { n: [1, null, 'x'] } });
    await t.queue('a', 'more');
    await t.turn('a', { response: 'two', structuredOutput: false });
    expect(await t.status('a')).toMatchObject({ response: 'two', structuredOutput: false });
  });

  test('`rehearsed` is true when no model is behind the agent', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { model: 'rehearsal-b' });
    expect(await t.status('a')).toMatchObject({ rehearsed: true, backend: 'BACKEND_B' });
  });
});

/** A wait that has not returned after an unrelated request was answered. */
async function blocked<T>(wait: Promise<T>): Promise<Promise<T>[]> {
  const first = await Promise.race([
    wait.then(() => 'answered'),
    api.get('/v1/whoami').then(() => 'blocked'),
  ]);
  expect(first).toBe('blocked');
  return [wait];
}

describe('wait', () => {
  const rests: [phase: string, arrange: (t: TestTenant) => Promise<unknown>][] = [
    ['WAITING_FOR_INPUT/RESTING', (t) => t.rested('a')],
    ['WAITING_FOR_INPUT/QUESTION', (t) => t.rested('a', {}, { question: 'Eh?' })],
    ['WAITING_FOR_INPUT/TASKS_UNFINISHED', (t) => t.rested('a', { tasks: [{ subject: 't' }] })],
    [
      'WAITING_FOR_INPUT/INTERRUPTED',
      async (t) => {
        await t.spawn('a');
        const run = await t.start('a');
        await t.stop('a', 1);
        await t.end(run, 'INTERRUPTED');
      },
    ],
    [
      'WAITING_FOR_INPUT/DEFERRED',
      async (t) => {
        await t.rested('a');
        await t.queue('a', { description: 'x', deliverAt: inAnHour() });
      },
    ],
    ['COMPLETED/FINISHED', (t) => t.rested('a', {}, { finished: true })],
    [
      'FAILED/ERROR',
      async (t) => {
        await t.spawn('a');
        await t.end(await t.start('a'), 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'x' } });
      },
    ],
    [
      'CANCELED/KILLED',
      async (t) => {
        await t.spawn('a');
        await t.kill('a');
      },
    ],
  ];

  test.each(rests)('returns immediately in %s', async (phase, arrange) => {
    const t = await newTestTenant(api);
    await arrange(t);
    expect(await t.phase('a')).toBe(phase);
    expect(await t.wait('a')).toEqual(await t.status('a'));
  });

  test.each<[how: string, phase: string, move: (t: TestTenant) => Promise<unknown>]>([
    ['comes to rest', 'WAITING_FOR_INPUT/RESTING', async (t) => t.end(await t.start('a'))],
    [
      'asks',
      'WAITING_FOR_INPUT/QUESTION',
      async (t) => t.end(await t.start('a'), 'COMPLETED', { question: 'Eh?' }),
    ],
    [
      'finishes',
      'COMPLETED/FINISHED',
      async (t) => t.end(await t.start('a'), 'COMPLETED', { finished: true }),
    ],
    [
      'fails',
      'FAILED/ERROR',
      async (t) =>
        t.end(await t.start('a'), 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'x' } }),
    ],
    ['is killed', 'CANCELED/KILLED', (t) => t.kill('a')],
  ])('blocks until the agent %s', async (_how, phase, move) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const [wait] = await blocked(t.wait('a'));
    await move(t);
    const record = (await wait) as AgentStatus;
    expect(`${record.phase}/${record.phaseReason}`).toBe(`PHASE_${phase}`);
  });

  test('stays blocked across runs that follow each other, retries, limits and children', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const [wait] = await blocked(t.wait('a'));
    await t.end(await t.start('a'), 'HANDED_BACK');
    await blocked(wait as Promise<AgentStatus>);
    const run = await t.start('a');
    await t.spawn('a/child');
    await t.end(run);
    expect(await t.phase('a')).toBe('PENDING/CHILDREN');
    await blocked(wait as Promise<AgentStatus>);
    await t.kill('a/child');
    await t.turn('a');
    expect(await wait).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', runCount: '3' });
  });

  test('many waits on one agent all return', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const waits = Array.from({ length: 50 }, () => t.wait('a'));
    await blocked(Promise.race(waits));
    await t.turn('a');
    const records = await Promise.all(waits);
    expect(new Set(records.map(({ phase }) => phase))).toEqual(new Set(['PHASE_WAITING_FOR_INPUT']));
  });

  test('a disconnect cancels the call; the service continues', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const cuts = Array.from({ length: 100 }, () => new AbortController());
    const waits = cuts.map(({ signal }) =>
      fetch(`${api.url}/v1/agent/wait`, {
        method: 'POST',
        headers: { authorization: `Bearer ${api.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ agentId: t.id('a') }),
        signal,
      }).then(
        () => 'answered',
        () => 'cut',
      ),
    );
    await blocked(Promise.race(waits));
    for (const cut of cuts) cut.abort();
    expect(new Set(await Promise.all(waits))).toEqual(new Set(['cut']));
    const [wait] = await blocked(t.wait('a'));
    await t.turn('a');
    expect(await wait).toMatchObject({ phaseReason: 'RESTING' });
  });

  test('for an unknown agent is NOT_FOUND', async () => {
    const t = await newTestTenant(api);
    expectError(await t.send('agent/wait', 'nobody'), 'NOT_FOUND');
  });

  test('ends when its key is revoked', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const name = `revoked-${randomUUID().slice(0, 8)}`;
    const viewer = await apiWithNewKey(api, { role: 'viewer' }, name);
    const wait = viewer.post('/v1/agent/wait', { agentId: t.id('a') }).then(
      ({ status }) => status,
      () => 'cut',
    );
    await blocked(wait);
    expect((await api.del(`/v1/catalog/token/${name}`)).status).toBe(200);
    expect([401, 'cut']).toContain(await wait);
    await until(
      '401',
      () => viewer.get('/v1/whoami'),
      ({ status }) => status === 401,
    );
  });
});

describe('wait for several agents', () => {
  const waitMany = (t: TestTenant, ...paths: string[]) =>
    api.post<AgentStatus>('/v1/agents/wait', { agentIds: paths.map((path) => t.id(path)) });

  test('returns the first that needs attention', async () => {
    const t = await newTestTenant(api);
    for (const path of ['a', 'b', 'c']) await t.spawn(path);
    const [wait] = await blocked(waitMany(t, 'a', 'b', 'c'));
    await t.turn('b', { question: 'Eh?' });
    const answer = await wait;
    expect(answer).toMatchObject({ status: 200, body: { agentId: { agent: ['b'] }, needsInput: 'Eh?' } });
    expect(answer?.body).toEqual(await t.status('b'));
  });

  test('returns immediately when one already needs attention', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.spawn('b');
    await t.kill('b');
    expect((await waitMany(t, 'a', 'b')).body).toMatchObject({ agentId: { agent: ['b'] } });
  });

  test('without agents, or with an unknown one, is refused', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expectError(await api.post('/v1/agents/wait', {}), 'INVALID_ARGUMENT', 'agentIds');
    expectError(await api.post('/v1/agents/wait', { agentIds: [] }), 'INVALID_ARGUMENT', 'agentIds');
    expectError(await waitMany(t, 'a', 'nobody'), 'NOT_FOUND');
    expectError(await api.post('/v1/agents/wait', { agentIds: [{}] }), 'INVALID_ARGUMENT', /^agentIds/);
  });
});

import { randomUUID } from 'node:crypto';
import type { AgentStatus, SpawnReply } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf, until } from '../support/api.ts';
import { expectRefusal } from '../support/refusal.ts';
import { withToken } from '../support/resources.ts';
import { startServer } from '../support/server.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { inAnHour, newStage, type Stage } from '../support/stage.ts';

let server: SharedServer;
let api: Api;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
});
afterAll(() => server.close());

type Fields = Record<string, unknown>;
const schema = '{"type":"object"}';

describe('spawn', () => {
  test('interface 4.9, decisions 5: it takes every setting that a follow-up mirrors, and the runner gets them', async () => {
    const s = await newStage(api);
    const settings = {
      model: 'gpt-x',
      reasoningEffort: 'high',
      serviceTier: 'flex',
      fastMode: true,
      outputSchema: schema,
    };
    const reply = await s.spawn('a', {
      description: 'do it',
      expectedOutput: 'a report',
      tasks: [{ id: 't', subject: 'first' }],
      agent: 'reviewer',
      ...settings,
    });
    expect(reply).toMatchObject({ phase: 'PHASE_PENDING', runCount: '0' });
    expect(await s.status('a')).toMatchObject({
      description: 'do it',
      expectedOutput: 'a report',
      persona: 'reviewer',
      backend: 'BACKEND_B',
      tasks: expect.arrayContaining([expect.objectContaining({ id: 't', subject: 'first' })]),
      ...settings,
    });
    expect(await s.claim('a')).toMatchObject({
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
  ])('interface 4.9: a wrong %s is refused, and no agent is made', async (field, wrong) => {
    const s = await newStage(api);
    expectRefusal(
      await s.send('agent/spawn', 'a', { description: 'x', ...wrong }),
      'INVALID_ARGUMENT',
      field,
    );
    expectRefusal(await s.send('agent/status', 'a'), 'NOT_FOUND');
  });

  test('decisions 7: a root has at most 500 live descendants', async () => {
    const s = await newStage(api);
    await s.spawn('r');
    await s.spawn('r/deep');
    const paths = Array.from({ length: 499 }, (_, i) => (i % 2 === 0 ? `r/c${i}` : `r/deep/c${i}`));
    for (let i = 0; i < paths.length; i += 50) {
      await Promise.all(paths.slice(i, i + 50).map((path) => s.spawn(path)));
    }
    for (const path of ['r/more', 'r/deep/more', 'r/c0/more']) {
      const answer = await s.send('agent/spawn', path, { description: 'x' });
      expectRefusal(answer, 'RESOURCE_EXHAUSTED');
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
    }
    await s.kill('r/c0');
    await s.spawn('r/more');
    await s.spawn('other-root');
  });
});

describe('Idempotency-Key', () => {
  const spawnOnce = (by: Api, key: string, body: Fields) =>
    by.post<SpawnReply>('/v1/agent/spawn', body, { 'idempotency-key': key });

  test('decisions 5: a retried spawn returns the first reply, though the agent has moved on', async () => {
    const s = await newStage(api);
    const key = randomUUID();
    const body = { agentId: s.id('a'), description: 'x', model: 'rehearsal-a' };
    const first = await spawnOnce(api, key, body);
    expect(first.status).toBe(200);
    await s.turn('a', { finished: true });
    const again = await spawnOnce(api, key, body);
    expect({ status: again.status, body: again.body }).toEqual({ status: 200, body: first.body });
    expect((await s.status('a')).phase).toBe('PHASE_COMPLETED');
  });

  test('decisions 5: at once or one after the other, it is one agent, with one minted name', async () => {
    const key = randomUUID();
    const body = { description: 'x', workspace: `idem-${key.slice(0, 8)}` };
    const answers = await Promise.all(Array.from({ length: 6 }, () => spawnOnce(api, key, body)));
    for (const answer of answers) expect(answer).toMatchObject({ status: 200, body: answers[0]?.body });
    const { body: list } = await api.post<{ entries: unknown[] }>('/v1/agents', {
      workspace: body.workspace,
    });
    expect(list.entries).toHaveLength(1);
  });

  test('decisions 5: another body under the same key is ALREADY_EXISTS', async () => {
    const key = randomUUID();
    expect((await spawnOnce(api, key, { description: 'one' })).status).toBe(200);
    expectRefusal(await spawnOnce(api, key, { description: 'two' }), 'ALREADY_EXISTS');
  });

  test('decisions 5: it is per API key', async () => {
    const member = await withToken(api, { role: 'member', account: 'idem' });
    const key = randomUUID();
    const mine = await spawnOnce(api, key, { description: 'x' });
    const theirs = await spawnOnce(member, key, { description: 'another body' });
    expect([mine.status, theirs.status]).toEqual([200, 200]);
    expect(theirs.body.agentId.account).toBe('idem');
  });

  test('decisions 5: a refused spawn keeps nothing; the key may be used for the corrected one', async () => {
    const key = randomUUID();
    expectRefusal(await spawnOnce(api, key, { model: 'llama-3' }), 'INVALID_ARGUMENT', 'model');
    expect((await spawnOnce(api, key, { model: 'opus', description: 'x' })).status).toBe(200);
  });

  test('decisions 2: without the header a repeated spawn is ALREADY_EXISTS', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    expectRefusal(
      await s.send('agent/spawn', 'a', { description: 'work', model: 'rehearsal-a' }),
      'ALREADY_EXISTS',
    );
  });
});

describe('status', () => {
  test('interface 4.9: it includes runCount, the run that stop-turn wants', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    await s.start('a');
    const { runCount } = await s.status('a');
    expect((await s.send('agent/stop-turn', 'a', { runId: runCount })).status).toBe(200);
  });

  test('decisions 5: response and structuredOutput are the last run’s', async () => {
    const s = await newStage(api);
    await s.rested('a', { outputSchema: '{}' }, { response: 'one', structuredOutput: { n: [1, null, 'x'] } });
    expect(await s.status('a')).toMatchObject({ response: 'one', structuredOutput: { n: [1, null, 'x'] } });
    await s.queue('a', 'more');
    await s.turn('a', { response: 'two', structuredOutput: false });
    expect(await s.status('a')).toMatchObject({ response: 'two', structuredOutput: false });
  });

  test('decisions 5: `rehearsed` is true when no model is behind it', async () => {
    const s = await newStage(api);
    await s.spawn('a', { model: 'rehearsal-b' });
    expect(await s.status('a')).toMatchObject({ rehearsed: true, backend: 'BACKEND_B' });
  });
});

/** A wait that has not answered while an unrelated request came and went. */
async function blocked<T>(wait: Promise<T>): Promise<Promise<T>[]> {
  const first = await Promise.race([
    wait.then(() => 'answered'),
    api.get('/v1/whoami').then(() => 'blocked'),
  ]);
  expect(first).toBe('blocked');
  return [wait];
}

describe('wait', () => {
  const rests: [phase: string, arrange: (s: Stage) => Promise<unknown>][] = [
    ['WAITING_FOR_INPUT/RESTING', (s) => s.rested('a')],
    ['WAITING_FOR_INPUT/QUESTION', (s) => s.rested('a', {}, { question: 'Eh?' })],
    ['WAITING_FOR_INPUT/TASKS_UNFINISHED', (s) => s.rested('a', { tasks: [{ subject: 't' }] })],
    [
      'WAITING_FOR_INPUT/INTERRUPTED',
      async (s) => {
        await s.spawn('a');
        const run = await s.start('a');
        await s.stop('a', 1);
        await s.end(run, 'INTERRUPTED');
      },
    ],
    [
      'WAITING_FOR_INPUT/DEFERRED',
      async (s) => {
        await s.rested('a');
        await s.queue('a', { description: 'x', deliverAt: inAnHour() });
      },
    ],
    ['COMPLETED/FINISHED', (s) => s.rested('a', {}, { finished: true })],
    [
      'FAILED/ERROR',
      async (s) => {
        await s.spawn('a');
        await s.end(await s.start('a'), 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'x' } });
      },
    ],
    [
      'CANCELED/KILLED',
      async (s) => {
        await s.spawn('a');
        await s.kill('a');
      },
    ],
  ];

  test.each(rests)('decisions 3, wait: it returns at once in %s', async (phase, arrange) => {
    const s = await newStage(api);
    await arrange(s);
    expect(await s.phase('a')).toBe(phase);
    expect(await s.wait('a')).toEqual(await s.status('a'));
  });

  test.each<[how: string, phase: string, move: (s: Stage) => Promise<unknown>]>([
    ['comes to rest', 'WAITING_FOR_INPUT/RESTING', async (s) => s.end(await s.start('a'))],
    [
      'asks',
      'WAITING_FOR_INPUT/QUESTION',
      async (s) => s.end(await s.start('a'), 'COMPLETED', { question: 'Eh?' }),
    ],
    [
      'finishes',
      'COMPLETED/FINISHED',
      async (s) => s.end(await s.start('a'), 'COMPLETED', { finished: true }),
    ],
    [
      'fails',
      'FAILED/ERROR',
      async (s) =>
        s.end(await s.start('a'), 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'x' } }),
    ],
    ['is killed', 'CANCELED/KILLED', (s) => s.kill('a')],
  ])('interface 4.9: it blocks until the agent %s', async (_how, phase, move) => {
    const s = await newStage(api);
    await s.spawn('a');
    const [wait] = await blocked(s.wait('a'));
    await move(s);
    const record = (await wait) as AgentStatus;
    expect(`${record.phase}/${record.phaseReason}`).toBe(`PHASE_${phase}`);
  });

  test('decisions 3, wait: it stays blocked over runs that follow each other, retries, limits and children', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const [wait] = await blocked(s.wait('a'));
    await s.end(await s.start('a'), 'HANDED_BACK');
    await blocked(wait as Promise<AgentStatus>);
    const run = await s.start('a');
    await s.spawn('a/child');
    await s.end(run);
    expect(await s.phase('a')).toBe('PENDING/CHILDREN');
    await blocked(wait as Promise<AgentStatus>);
    await s.kill('a/child');
    await s.turn('a');
    expect(await wait).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', runCount: '3' });
  });

  test('decisions 3, wait: many waits on one agent all return', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const waits = Array.from({ length: 50 }, () => s.wait('a'));
    await blocked(Promise.race(waits));
    await s.turn('a');
    const records = await Promise.all(waits);
    expect(new Set(records.map(({ phase }) => phase))).toEqual(new Set(['PHASE_WAITING_FOR_INPUT']));
  });

  test('interface 4.9: disconnecting cancels the call; the service goes on', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const cuts = Array.from({ length: 100 }, () => new AbortController());
    const waits = cuts.map(({ signal }) =>
      fetch(`${api.url}/v1/agent/wait`, {
        method: 'POST',
        headers: { authorization: `Bearer ${api.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ agentId: s.id('a') }),
        signal,
      }).then(
        () => 'answered',
        () => 'cut',
      ),
    );
    await blocked(Promise.race(waits));
    for (const cut of cuts) cut.abort();
    expect(new Set(await Promise.all(waits))).toEqual(new Set(['cut']));
    const [wait] = await blocked(s.wait('a'));
    await s.turn('a');
    expect(await wait).toMatchObject({ phaseReason: 'RESTING' });
  });

  test('interface 7: waiting for nobody is NOT_FOUND', async () => {
    const s = await newStage(api);
    expectRefusal(await s.send('agent/wait', 'nobody'), 'NOT_FOUND');
  });

  test('decisions 3, wait: a revoked key cuts its waits', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const name = `revoked-${randomUUID().slice(0, 8)}`;
    const viewer = await withToken(api, { role: 'viewer' }, name);
    const wait = viewer.post('/v1/agent/wait', { agentId: s.id('a') }).then(
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

  test('decisions 3, wait: at shutdown a wait that has sent nothing ends UNAVAILABLE', async () => {
    const passing = await startServer({ runner: false });
    try {
      const other = apiOf(passing);
      await other.post('/v1/agent/spawn', { agentId: { agent: ['a'] }, description: 'x' });
      const wait = other.post('/v1/agent/wait', { agentId: { agent: ['a'] } });
      for (let i = 0; i < 5; i += 1) await Promise.race([wait, other.get('/v1/whoami')]);
      const end = passing.end('SIGTERM');
      expectRefusal(await wait, 'UNAVAILABLE');
      await end;
    } finally {
      await passing.close();
    }
  });
});

describe('wait for many', () => {
  const waitMany = (s: Stage, ...paths: string[]) =>
    api.post<AgentStatus>('/v1/agents/wait', { agentIds: paths.map((path) => s.id(path)) });

  test('decisions 5: it returns the first of many that needs attention', async () => {
    const s = await newStage(api);
    for (const path of ['a', 'b', 'c']) await s.spawn(path);
    const [wait] = await blocked(waitMany(s, 'a', 'b', 'c'));
    await s.turn('b', { question: 'Eh?' });
    const answer = await wait;
    expect(answer).toMatchObject({ status: 200, body: { agentId: { agent: ['b'] }, needsInput: 'Eh?' } });
    expect(answer?.body).toEqual(await s.status('b'));
  });

  test('decisions 5: it returns at once when one of them already does', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    await s.spawn('b');
    await s.kill('b');
    expect((await waitMany(s, 'a', 'b')).body).toMatchObject({ agentId: { agent: ['b'] } });
  });

  test('decisions 5: no agents, or one that does not exist, is refused', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    expectRefusal(await api.post('/v1/agents/wait', {}), 'INVALID_ARGUMENT', 'agentIds');
    expectRefusal(await api.post('/v1/agents/wait', { agentIds: [] }), 'INVALID_ARGUMENT', 'agentIds');
    expectRefusal(await waitMany(s, 'a', 'nobody'), 'NOT_FOUND');
    expectRefusal(await api.post('/v1/agents/wait', { agentIds: [{}] }), 'INVALID_ARGUMENT', /^agentIds/);
  });
});

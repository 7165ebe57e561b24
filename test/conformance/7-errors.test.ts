import { randomUUID } from 'node:crypto';
import { type Route, type RouteName, statusCodes } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type Api, agent, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, postResource, readDocument, readResource, uniqueName } from '../support/catalog.ts';
import { agentRoutes, errorSchemaProblem, routeEntries } from '../support/contract-schemas.ts';
import { errorCodes, expectError, expectErrorEnvelope, expectOk } from '../support/expect-reply.ts';
import { sendBytes, sendRaw } from '../support/raw-requests.ts';
import { type Server, startServer } from '../support/server.ts';
import { openRequest } from '../support/streams.ts';
import { inAnHour, inMs, newTestTenant, type TestTenant } from '../support/test-tenant.ts';

let server: Server;
let api: Api;
let viewer: Api;
let t: TestTenant;

beforeAll(async () => {
  server = await startServer({ runner: false });
  api = apiOf(server);
  viewer = (await createKey(api, { role: 'viewer', account: 'vic' })).api;
  t = await newTestTenant(api);
});
afterAll(() => server?.close());

const dayMs = 86_400_000;

async function spawned(model: string): Promise<string> {
  const name = uniqueName('agent');
  expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'x', model }));
  return name;
}
const queue = async (name: string, more: Record<string, unknown>): Promise<Answer> =>
  api.post('/v1/agent/queue', { agentId: agent(name), description: 'x', ...more });

describe('the code table', () => {
  test.each(Object.entries(errorCodes))('%s is %j', (name, row) => {
    const { code, http } = statusCodes[name as keyof typeof statusCodes];
    expect({ code, status: http }).toEqual(row);
  });

  test("the contract's table has these rows and no others", () => {
    expect(Object.keys(statusCodes).sort()).toEqual(Object.keys(errorCodes).sort());
  });

  test('3 INVALID_ARGUMENT is HTTP 400', async () => {
    const answer = await api.post('/v1/agents', { includeTerminal: 'yes' });
    expect([answer.status, answer.body.code]).toEqual([400, 3]);
  });

  test('5 NOT_FOUND is HTTP 404', async () => {
    const answer = await api.post('/v1/agent/status', { agentId: agent(uniqueName('absent')) });
    expect([answer.status, answer.body.code]).toEqual([404, 5]);
  });

  test('7 PERMISSION_DENIED is HTTP 403', async () => {
    const answer = await viewer.post('/v1/agent/spawn', { description: 'x' });
    expect([answer.status, answer.body.code]).toEqual([403, 7]);
  });

  test('16 UNAUTHENTICATED is HTTP 401', async () => {
    const answer = await api.as('mst_none.none').get('/v1/whoami');
    expect([answer.status, answer.body.code]).toEqual([401, 16]);
  });

  test('9 FAILED_PRECONDITION is HTTP 400', async () => {
    const answer = await postResource(api, 'profile', uniqueName('x'), {}, { ifGenerationMatch: '7' });
    expect([answer.status, (answer.body as unknown as { code: number }).code]).toEqual([400, 9]);
  });

  test('6 ALREADY_EXISTS is HTTP 409', async () => {
    const name = await spawned('rehearsal-a');
    const answer = await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'x' });
    expect([answer.status, answer.body.code]).toEqual([409, 6]);
  });

  test('10 ABORTED is HTTP 409', async () => {
    const name = uniqueName('fenced');
    await t.spawn(name);
    const claim = await t.start(name);
    await t.end(claim);
    const late = await t.runner.report(claim, { currentAction: 'still here' });
    expect([late.status, (late.body as unknown as { code: number }).code]).toEqual([409, 10]);
    expectErrorEnvelope(late);
  });

  test('12 UNIMPLEMENTED is HTTP 501', async () => {
    const answer = await api.get('/v1/agents');
    expect([answer.status, answer.body.code]).toEqual([501, 12]);
  });

  test.each<[how: string, body: Record<string, unknown>, headers: Record<string, string>]>([
    ['by Last-Event-ID', {}, { 'last-event-id': '1' }],
    ['by afterSequence', { afterSequence: '1' }, {}],
  ])(
    '11 OUT_OF_RANGE is HTTP 400: a stream resumed %s before the first kept entry',
    async (_, body, headers) => {
      const name = await spawned('rehearsal-a');
      for (let i = 0; i < 5; i += 1) expectOk(await queue(name, { description: `${i}` }));
      await forgetBeginning();
      const held = openRequest(api, '/v1/agent/timeline/stream', { agentId: agent(name), ...body }, headers);
      const status = await held.opened;
      if (status === 200) held.abort();
      const { text } = await held.ended;
      expect(status).toBe(400);
      expect(JSON.parse(text)).toMatchObject({ code: 11 });
      expect(text).toMatch(/"firstSequence":"?4\b/);
    },
  );

  /** The service keeps a timeline for 30 days; the test deletes the first entries in the database. */
  const forgetBeginning = (): Promise<void> =>
    withDatabase(async (database) => {
      const tableWith = async (column: string): Promise<string> => {
        const { rows } = await database.query<{ table: string }>(
          `SELECT format('%I.%I', table_schema, table_name) AS table FROM information_schema.columns
           WHERE column_name = $1 AND table_name IN ('timeline', 'agents')`,
          [column],
        );
        return rows.find(({ table }) => column === 'first_sequence' || /timeline/.test(table))?.table ?? '';
      };
      await database.query(`DELETE FROM ${await tableWith('sequence')} WHERE sequence < 4`);
      await database.query(`UPDATE ${await tableWith('first_sequence')} SET first_sequence = 4`);
    });
});

async function withDatabase(work: (database: pg.Client) => Promise<void>): Promise<void> {
  const database = new pg.Client({ connectionString: server.databaseUrl });
  await database.connect();
  try {
    await work(database);
  } finally {
    await database.end();
  }
}

describe('conditions of queue-add', () => {
  test.each(['PHASE_CANCELED', 'PHASE_COMPLETED', 'PHASE_FAILED'])(
    'queue-add to an agent that is not running (%s) is NOT_FOUND',
    async (phase) => {
      const name = uniqueName('done');
      await t.spawn(name);
      if (phase === 'PHASE_CANCELED') await t.kill(name);
      else {
        const claim = await t.start(name);
        if (phase === 'PHASE_COMPLETED') await t.end(claim, 'COMPLETED', { finished: true });
        else await t.end(claim, 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'for good' } });
      }
      expect((await t.status(name)).phase).toBe(phase);
      expectError(await t.send('agent/queue', name, { description: 'x' }), 'NOT_FOUND');
      const later = { description: 'x', deliverAt: inAnHour() };
      expectError(await t.send('agent/queue', name, later), 'NOT_FOUND');
    },
  );

  test('queue-add to an agent that does not exist is NOT_FOUND', async () => {
    expectError(await queue(uniqueName('absent'), {}), 'NOT_FOUND');
  });

  test.each([
    ['rehearsal-a', 'rehearsal-b'],
    ['rehearsal-a', 'gpt-5'],
    ['rehearsal-a', 'o3'],
    ['rehearsal-a', 'codex-mini'],
    ['rehearsal-b', 'rehearsal-a'],
    ['rehearsal-b', 'claude-sonnet-4-5'],
    ['rehearsal-b', 'opus'],
    ['rehearsal-b', 'sonnet'],
    ['rehearsal-b', 'haiku'],
    ['rehearsal-a', 'unheard-of'],
  ])('to an agent on %s, queue-add of model %s is INVALID_ARGUMENT', async (model, other) => {
    const name = await spawned(model);
    expectError(await queue(name, { model: other }), 'INVALID_ARGUMENT', 'model');
  });

  test.each([
    ['rehearsal-a', 'opus'],
    ['rehearsal-a', ''],
    ['rehearsal-b', 'gpt-5'],
    ['rehearsal-b', 'o4-mini'],
  ])('to an agent on %s, queue-add of model %j is accepted', async (model, same) => {
    expectOk(await queue(await spawned(model), { model: same }));
  });

  const efforts = {
    'rehearsal-a': {
      yes: ['low', 'medium', 'high', 'xhigh', 'max', ''],
      no: ['none', 'minimal', 'HIGH', '3'],
    },
    'rehearsal-b': {
      yes: ['none', 'low', 'medium', 'high', 'xhigh', ''],
      no: ['max', 'minimal', 'Low', '3'],
    },
  };
  const effortRows = (side: 'yes' | 'no') =>
    Object.entries(efforts).flatMap(([model, values]) =>
      values[side].map((value) => [model, value] as const),
    );

  test.each(effortRows('no'))(
    'on %s a reasoningEffort of %j is INVALID_ARGUMENT, at queue-add and at spawn',
    async (model, reasoningEffort) => {
      const name = await spawned(model);
      expectError(await queue(name, { reasoningEffort }), 'INVALID_ARGUMENT', 'reasoningEffort');
      const spawn = { agentId: agent(uniqueName('x')), description: 'x', model, reasoningEffort };
      expectError(await api.post('/v1/agent/spawn', spawn), 'INVALID_ARGUMENT', 'reasoningEffort');
    },
  );

  test.each(effortRows('yes'))(
    'on %s a reasoningEffort of %j is accepted',
    async (model, reasoningEffort) => {
      expectOk(await queue(await spawned(model), { reasoningEffort }));
    },
  );

  test.each([
    ['rehearsal-a', 'standard'],
    ['rehearsal-a', 'fast'],
    ['rehearsal-a', 'flex'],
    ['rehearsal-a', 'gold'],
    ['rehearsal-b', 'gold'],
    ['rehearsal-b', 'FAST'],
  ])(
    'on %s a serviceTier of %j is INVALID_ARGUMENT, at queue-add and at spawn',
    async (model, serviceTier) => {
      expectError(await queue(await spawned(model), { serviceTier }), 'INVALID_ARGUMENT', 'serviceTier');
      const spawn = { agentId: agent(uniqueName('x')), description: 'x', model, serviceTier };
      expectError(await api.post('/v1/agent/spawn', spawn), 'INVALID_ARGUMENT', 'serviceTier');
    },
  );

  test.each([
    ['rehearsal-a', ''],
    ['rehearsal-b', ''],
    ['rehearsal-b', 'standard'],
    ['rehearsal-b', 'fast'],
    ['rehearsal-b', 'flex'],
  ])('on %s a serviceTier of %j is accepted', async (model, serviceTier) => {
    expectOk(await queue(await spawned(model), { serviceTier }));
  });

  test('fastMode is not checked per backend', async () => {
    for (const model of ['rehearsal-a', 'rehearsal-b']) {
      for (const fastMode of [true, false]) expectOk(await queue(await spawned(model), { fastMode }));
    }
  });

  test('deliverAt on an agent whose build lacks deferral support is FAILED_PRECONDITION', async () => {
    const name = uniqueName('old-build');
    await t.spawn(name);
    const claim = await t.claim(name, { capabilities: [], build: 'before deferral' });
    await t.report(claim, { started: true });
    const later = { description: 'x', deliverAt: inAnHour() };
    expectError(await t.send('agent/queue', name, later), 'FAILED_PRECONDITION');
    expect((await t.status(name)).followUps).toEqual([]);
    expectOk(await t.send('agent/queue', name, { description: 'now' }));
    await t.end(claim);
  });

  test('an agent with no runner yet accepts deliverAt', async () => {
    expectOk(await queue(await spawned('rehearsal-a'), { deliverAt: inAnHour() }));
  });

  test.each<[what: string, more: () => Record<string, unknown>]>([
    ['in the past', () => ({ deliverAt: inMs(-1_000) })],
    ['long ago', () => ({ deliverAt: '1970-01-01T00:00:00Z' })],
    ['now', () => ({ deliverAt: inMs(0) })],
    ['more than 30 days out', () => ({ deliverAt: inMs(30 * dayMs + 60_000) })],
    ['in the year 9999', () => ({ deliverAt: '9999-12-31T23:59:59Z' })],
    ['combined with preempt', () => ({ deliverAt: inAnHour(), preempt: true })],
  ])('a deliverAt %s is INVALID_ARGUMENT', async (_, more) => {
    const name = await spawned('rehearsal-a');
    expectError(await queue(name, more()), 'INVALID_ARGUMENT', /^(deliverAt|preempt)$/);
    expectOk(await queue(name, { deliverAt: inAnHour(), preempt: false }));
  });
});

describe('conditions of stop-turn', () => {
  test.each(['0', '1', '2'])('with no turn running, runId %s is INVALID_ARGUMENT', async (runId) => {
    const name = await spawned('rehearsal-a');
    const answer = await api.post('/v1/agent/stop-turn', { agentId: agent(name), runId });
    expectError(answer, 'INVALID_ARGUMENT', 'runId');
  });

  test('a runId that is omitted, stale or ahead is INVALID_ARGUMENT, and changes nothing', async () => {
    const name = uniqueName('stop');
    await t.spawn(name);
    await t.turn(name);
    const rested = await t.send('agent/stop-turn', name, { runId: '1' });
    expectError(rested, 'INVALID_ARGUMENT', 'runId');
    await t.queue(name, 'again');
    const claim = await t.start(name);
    for (const runId of [undefined, null, '0', '1', '3', '-2', 0, 1, 3]) {
      for (const mode of ['STOP_TURN_MODE_INTERRUPT', 'STOP_TURN_MODE_KILL']) {
        const answer = await t.send('agent/stop-turn', name, { runId, mode });
        expectError(answer, 'INVALID_ARGUMENT', 'runId');
      }
    }
    expect((await t.status(name)).run).toMatchObject({ runId: '2', state: 'RUNNING' });
    await t.end(claim);
  });
});

describe('conditions of a catalog write', () => {
  test('an ifGenerationMatch that differs is FAILED_PRECONDITION, nothing written', async () => {
    const name = uniqueName('cas');
    expectOk(await postResource(api, 'profile', name, { n: 1 }));
    const answer = await postResource(api, 'profile', name, { n: 2 }, { ifGenerationMatch: '2' });
    expectError(answer, 'FAILED_PRECONDITION');
    expect(await readDocument(api, 'profile', name)).toMatchObject({ generation: '1', document: { n: 1 } });
  });

  test('a negative ifGenerationMatch is INVALID_ARGUMENT', async () => {
    const name = uniqueName('cas');
    const answer = await postResource(api, 'profile', name, {}, { ifGenerationMatch: '-1' });
    expectError(answer, 'INVALID_ARGUMENT', 'ifGenerationMatch');
    expectError(await readResource(api, 'profile', name), 'NOT_FOUND');
  });
});

describe('an agent that does not exist', () => {
  /** The fields that each agent route requires besides the agent. */
  const more: Partial<Record<RouteName, Record<string, unknown>>> = {
    queue: { description: 'x' },
    removeFollowUp: { followUpId: 'x' },
    followUp: { followUpId: 'x' },
    stopTurn: { runId: '1' },
    createTasks: { tasks: [{ subject: 'x' }] },
    updateTask: { id: 't', subject: 'x' },
    ask: { question: 'x' },
    fail: { message: 'x' },
  };
  /** Only the run of an existing agent may ask and finish. */
  const forEverybody = agentRoutes.filter(([name]) => !['ask', 'finish', 'fail'].includes(name));

  test.each(forEverybody)('%s is NOT_FOUND', async (name, route) => {
    const bodies = [agent(uniqueName('absent')), { ...agent(uniqueName('absent')), workspace: 'nowhere' }];
    for (const agentId of bodies) {
      expectError(await api.post(route.path, { agentId, ...more[name] }), 'NOT_FOUND');
    }
    const existing = await spawned('rehearsal-a');
    const child = { agentId: agent(existing, 'no-child'), ...more[name] };
    expectError(await api.post(route.path, child), 'NOT_FOUND');
    const elsewhere = { agentId: { ...agent(existing), workspace: 'nowhere' }, ...more[name] };
    expectError(await api.post(route.path, elsewhere), 'NOT_FOUND');
    const another = { agentId: { ...agent(existing), account: 'somebody' }, ...more[name] };
    expectError(await api.post(route.path, another), 'NOT_FOUND');
  });

  test('the children of an unknown agent are NOT_FOUND, and so is a wait for several unknown agents', async () => {
    expectError(await api.post('/v1/agents', { parentId: agent(uniqueName('absent')) }), 'NOT_FOUND');
    const agentIds = [agent(await spawned('rehearsal-a')), agent(uniqueName('absent'))];
    expectError(await api.post('/v1/agents/wait', { agentIds }), 'NOT_FOUND');
  });

  test.each(agentRoutes)('%s with an empty path is INVALID_ARGUMENT', async (name, route) => {
    for (const agentId of [undefined, {}, { agent: [] }, { workspace: 'default' }]) {
      const answer = await api.post(route.path, { agentId, ...more[name] });
      expectError(answer, 'INVALID_ARGUMENT', /^agentId/);
    }
  });
});

describe('every reply that is not 2xx has the error envelope', () => {
  const fill = (route: Route) => route.path.replace('{ref.kind}', 'persona').replace('{ref.name}', 'default');
  const json = { 'content-type': 'application/json' };
  const expectAnyError = (answer: Answer<unknown>): void => {
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(errorSchemaProblem(answer.body)).toBeUndefined();
    expectErrorEnvelope(answer);
  };

  test.each(routeEntries)('%s: no key, broken JSON, a wrong shape, another method', async (_, route) => {
    const path = fill(route);
    const headers = { authorization: `Bearer ${server.key}` };
    expectAnyError(await sendRaw(server.url, { method: route.method, path }));
    expectAnyError(await sendRaw(server.url, { method: 'PUT', path, headers }));
    if (route.method !== 'POST') return;
    expectAnyError(await sendRaw(server.url, { path, headers: { ...headers, ...json }, body: '{' }));
    expectAnyError(await sendRaw(server.url, { path, headers: { ...headers, ...json }, body: '[]' }));
    expectAnyError(
      await sendRaw(server.url, { path, headers: { ...headers, 'content-type': 'a/b' }, body: 'x' }),
    );
    for (const field of Object.keys(route.body?.properties ?? {})) {
      const body = JSON.stringify({ [field]: [[{}]] });
      expectAnyError(await sendRaw(server.url, { path, headers: { ...headers, ...json }, body }));
    }
  });

  test.each([
    '/v1/catalog/persona/%E0%A4%A',
    '/v1/catalog/persona/%',
    `/v1/catalog/persona/${'x'.repeat(3000)}`,
    '/v1/catalog/%ff/x',
    '//',
    '/v1/../etc/passwd',
    '/v1/catalog//x',
    '/v1/catalog/persona/?x=%E0%A4%A',
  ])('GET %s', async (path) => {
    const headers = { authorization: `Bearer ${server.key}` };
    const answer = await sendRaw(server.url, { method: 'GET', path, headers });
    expect([400, 404]).toContain(answer.status);
    expectAnyError(answer);
  });

  test.each([
    ['not HTTP', 'hello\r\n\r\n'],
    ['a broken header', 'GET /v1/whoami HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n'],
    ['a broken length', 'POST /v1/agents HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n'],
    ['headers without end', `GET /v1/whoami HTTP/1.1\r\nhost: x\r\nx: ${'x'.repeat(200_000)}\r\n\r\n`],
  ])('a request that is %s gets the envelope, or no reply', async (_, bytes) => {
    const reply = await sendBytes(server.url, bytes);
    if (reply === '') return;
    const [head = '', body = ''] = reply.split('\r\n\r\n');
    expect(head).toMatch(/^HTTP\/1\.1 4\d\d /);
    expect(errorSchemaProblem(JSON.parse(body))).toBeUndefined();
    expectOk(await api.get('/v1/whoami'));
  });

  test('a refused stream has the envelope too, as JSON', async () => {
    for (const path of ['/v1/agent/timeline/stream', '/v1/agent/wait', '/v1/agents/wait']) {
      const agentId = agent(uniqueName('absent'));
      expectAnyError(await api.post(path, { agentId, agentIds: [agentId] }));
    }
    expectAnyError(await api.post('/v1/agents/stream', { tenant: { org: 'another' } }));
  });

  test('the message is for people and says what is wrong', async () => {
    const { message } = expectError(
      await api.post('/v1/agent/spawn', { agentId: agent('a/b'), description: 'x' }),
      'INVALID_ARGUMENT',
      'agentId.agent.0',
    );
    expect(message).toMatch(/agent/);
    const absent = uniqueName('absent');
    const missing = expectError(await api.post('/v1/agent/status', { agentId: agent(absent) }), 'NOT_FOUND');
    expect(missing.message).toContain(absent);
  });
});

describe('5xx', () => {
  test('an internal error has an incident id; the cause is in the log and never in the reply', async () => {
    const name = await spawned('rehearsal-a');
    const schema = await breakStore();
    try {
      const answer = await until(
        'a 5xx',
        () => api.post('/v1/agent/queue', { agentId: agent(name), description: `x ${randomUUID()}` }),
        ({ status }) => status >= 500,
      );
      const { message, code } = expectErrorEnvelope(answer);
      expect([2, 13, 14]).toContain(code);
      expect(JSON.stringify(answer.body)).not.toMatch(
        /relation|does not exist|SELECT|INSERT|UPDATE|\bat .+:\d+:\d+|\.[jt]s\b|postgres/i,
      );
      const incident = message.match(/[A-Za-z0-9_-]*\d[A-Za-z0-9_-]*/g)?.find((word) => word.length >= 6);
      expect(incident, message).toBeDefined();
      await until(
        'the incident in the log',
        async () => server.output.join(''),
        (log) => log.includes(incident ?? ' ') && /does not exist/.test(log),
      );
    } finally {
      await withDatabase(async (database) => {
        await database.query(`ALTER SCHEMA broken_by_test RENAME TO "${schema}"`);
      });
    }
    await until(
      'the service healed',
      () => api.post('/v1/agent/queue', { agentId: agent(name), description: 'y' }),
      ({ status }) => status === 200,
    );
  });

  /** Renames the schema that the service uses. */
  async function breakStore(): Promise<string> {
    let schema = '';
    await withDatabase(async (database) => {
      const { rows } = await database.query<{ schema: string }>(
        `SELECT DISTINCT table_schema AS schema FROM information_schema.tables
         WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')`,
      );
      expect(rows).toHaveLength(1);
      schema = rows[0]?.schema ?? '';
      await database.query(`ALTER SCHEMA "${schema}" RENAME TO broken_by_test`);
    });
    return schema;
  }
});

import { type Route, type RouteName, statusCodes } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { type Answer, agent } from '../support/api.ts';
import { postResource, uniqueName } from '../support/catalog.ts';
import { agentRoutes, errorSchemaProblem, routeEntries } from '../support/contract-schemas.ts';
import { useDatabase } from '../support/database.ts';
import { errorCodes, expectError, expectErrorEnvelope, expectOk } from '../support/expect-reply.ts';
import { sendBytes, sendRaw } from '../support/raw-requests.ts';
import { openRequest } from '../support/streams.ts';
import { callersOfEachRole } from './role-callers.ts';

const { server, admin: api, viewer, t } = await callersOfEachRole();
const database = await useDatabase(server.databaseUrl);

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
      await forgetBeginning(name);
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
  async function forgetBeginning(name: string): Promise<void> {
    const { rows } = await database.query('SELECT tenant, id FROM agents WHERE path = $1', [name]);
    const agentKey = [rows[0]?.tenant, rows[0]?.id];
    await database.query('DELETE FROM timeline WHERE tenant = $1 AND agent = $2 AND sequence < 4', agentKey);
  }
});

describe('an agent that does not exist', () => {
  /** The fields that each agent route requires besides the agent. */
  const more: Partial<Record<RouteName, Record<string, unknown>>> = {
    queue: { description: 'x' },
    removeFollowUp: { followUpId: 'x' },
    followUp: { followUpId: 'x' },
    stopTurn: { runId: '1' },
    setBudget: { budgetUsd: 5 },
    createTasks: { tasks: [{ subject: 'x' }] },
    updateTask: { id: 't', subject: 'x' },
    createReview: { comments: [{ path: 'a.ts', body: 'x' }] },
    replyToThread: { threadId: '01890000-0000-7000-8000-000000000000', body: 'x' },
    resolveThread: { threadId: '01890000-0000-7000-8000-000000000000' },
    ask: { question: 'x' },
    fail: { message: 'x' },
    attachment: { attachmentId: '01890000-0000-7000-8000-000000000000' },
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
  const fill = (route: Route) =>
    route.path.replace('{pool}', 'default').replace('{ref.kind}', 'persona').replace('{ref.name}', 'default');
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

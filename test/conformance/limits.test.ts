import type { AgentEntry, AgentStatus } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { type Answer, agent, statusOf } from '../support/api.ts';
import { createKey, encode, postResource, readDocument, uniqueName } from '../support/catalog.ts';
import { copyAgents, useDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { openRequest } from '../support/streams.ts';
import { inAnHour, inMs } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;
const database = await useDatabase(server.databaseUrl);

/** Copies an agent in the database: thousands of requests would take longer than the rest of this file. */
async function copyAgent(path: string, account: string, count: number): Promise<void> {
  await copyAgents(
    database,
    {
      from: 'agents a CROSS JOIN (SELECT n, gen_random_uuid() AS id FROM generate_series(1, $3::int) n) c',
      where: 'a.path = $1 AND a.account = $2',
      fields: `json_build_object('id', c.id, 'path', a.path || '-' || c.n,
        'root', CASE WHEN a.parent IS NULL THEN c.id ELSE a.root END)`,
    },
    [path, account, count],
  );
}

/** Copies an undelivered message in the database. */
async function copyFollowUp(path: string, followUpId: string, count: number): Promise<void> {
  await database.query(
    `INSERT INTO follow_ups SELECT (json_populate_record(f, json_build_object(
       'id', f.id || '-' || n, 'position', f.position + n))).*
     FROM follow_ups f JOIN agents a ON a.tenant = f.tenant AND a.id = f.agent, generate_series(1, $3::int) n
     WHERE a.path = $1 AND f.id = $2`,
    [path, followUpId, count],
  );
  await database.query(
    `UPDATE agents a SET queued = f.queued, deferred = f.deferred
     FROM (SELECT tenant, agent, count(*) FILTER (WHERE state = 'QUEUED') AS queued,
         count(*) FILTER (WHERE state = 'DEFERRED') AS deferred FROM follow_ups GROUP BY tenant, agent) f
     WHERE a.path = $1 AND f.tenant = a.tenant AND f.agent = a.id`,
    [path],
  );
}

const kib = 1024;
const dayMs = 86_400_000;

const spawn = (path: string[], more: Record<string, unknown> = {}): Promise<Answer> =>
  api.post('/v1/agent/spawn', { agentId: agent(...path), description: 'x', ...more });

async function spawned(more: Record<string, unknown> = {}): Promise<string> {
  const name = uniqueName('limit');
  expectOk(await spawn([name], more));
  return name;
}

const queue = (name: string, more: Record<string, unknown>): Promise<Answer> =>
  api.post('/v1/agent/queue', { agentId: agent(name), ...more });

describe('one request', () => {
  const padded = (bytes: number): string => {
    const frame = JSON.stringify({ padding: '' }).length;
    return JSON.stringify({ padding: 'x'.repeat(bytes - frame) });
  };

  test('a body has at most 1 MiB; more is INVALID_ARGUMENT', async () => {
    const headers = { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' };
    const send = (bytes: number) => sendRaw(server.url, { path: '/v1/agents', headers, body: padded(bytes) });
    expectOk(await send(1024 * kib));
    expectError(await send(1024 * kib + 1), 'INVALID_ARGUMENT');
  });

  const texts: [what: string, of: (bytes: number) => string][] = [
    ['one-byte characters', (bytes) => 'x'.repeat(bytes)],
    [
      'characters of more bytes',
      (bytes) => '\u{1f600}'.repeat(Math.floor(bytes / 4)) + 'x'.repeat(bytes % 4),
    ],
  ];
  test.each(texts)('a description has at most 256 KiB, of %s, at spawn and queue-add', async (_, of) => {
    const most = of(256 * kib);
    expect(Buffer.byteLength(most)).toBe(256 * kib);
    const name = await spawned({ description: most });
    expect((await statusOf(api, name)).description).toBe(most);
    expectOk(await queue(name, { description: most }));
    const tooMuch = { description: of(256 * kib + 1) };
    expectError(await spawn([uniqueName('limit')], tooMuch), 'INVALID_ARGUMENT', 'description');
    expectError(await queue(name, tooMuch), 'INVALID_ARGUMENT', 'description');
  });

  const schemaOf = (bytes: number): string => {
    const frame = JSON.stringify({ type: 'object', description: '' }).length;
    return JSON.stringify({ type: 'object', description: 'x'.repeat(bytes - frame) });
  };
  test('a body is nested at most 100 levels deep', async () => {
    // In an unknown field, which is ignored.
    const nested = (levels: number) => `{"more":${'['.repeat(levels)}"]]\\"]]"${']'.repeat(levels)}}`;
    expectOk(await api.post('/v1/agents', nested(99)));
    const refused = await api.post('/v1/agents', nested(100));
    expectError(refused, 'INVALID_ARGUMENT');
    expect(JSON.stringify(refused.body)).toContain('deeper than 100 levels');
  });

  test('a body has at most 50,000 objects and lists', async () => {
    // In an unknown field, which is ignored. The body itself and the list of the others count too.
    const wide = (lists: number) => `{"more":[${'[],'.repeat(lists)}0]}`;
    expectOk(await api.post('/v1/agents', wide(49_998)));
    const refused = await api.post('/v1/agents', wide(49_999));
    expectError(refused, 'INVALID_ARGUMENT');
    expect(JSON.stringify(refused.body)).toContain('at most 50000 objects and lists');
  });

  test('an outputSchema has at most 64 KiB, at spawn and queue-add', async () => {
    const outputSchema = schemaOf(64 * kib);
    const name = await spawned({ outputSchema });
    expect((await statusOf(api, name)).outputSchema).toBe(outputSchema);
    expectOk(await queue(name, { outputSchema }));
    const tooMuch = { outputSchema: schemaOf(64 * kib + 1) };
    expectError(await spawn([uniqueName('limit')], tooMuch), 'INVALID_ARGUMENT', 'outputSchema');
    expectError(await queue(name, tooMuch), 'INVALID_ARGUMENT', 'outputSchema');
  });

  /** An object for each property, and two around them. */
  const schemaOfNodes = (nodes: number) =>
    JSON.stringify({
      properties: Object.fromEntries(Array.from({ length: nodes - 2 }, (_, i) => [`p${i}`, {}])),
    });
  const schemaOfReferences = (references: number) =>
    JSON.stringify({
      $defs: { x: { type: 'string' } },
      anyOf: Array.from({ length: references }, () => ({ $ref: '#/$defs/x' })),
    });

  test.each([
    ['2,000 objects and arrays', schemaOfNodes(2000), schemaOfNodes(2001)],
    ['200 references', schemaOfReferences(200), schemaOfReferences(201)],
  ])('an outputSchema has at most %s, at spawn and queue-add', async (_, most, tooMany) => {
    const name = await spawned({ outputSchema: most });
    expectOk(await queue(name, { outputSchema: most }));
    const refused = { outputSchema: tooMany };
    expectError(await spawn([uniqueName('limit')], refused), 'INVALID_ARGUMENT', 'outputSchema');
    expectError(await queue(name, refused), 'INVALID_ARGUMENT', 'outputSchema');
  });

  test('a catalog document has at most 512 KiB', async () => {
    const frame = JSON.stringify({ note: '' }).length;
    const sized = (bytes: number) => encode({ note: 'x'.repeat(bytes - frame) });
    const name = uniqueName('large');
    const path = `/v1/catalog/profile/${name}`;
    expectOk(await api.post(path, { payload: sized(512 * kib) }));
    expectError(await api.post(path, { payload: sized(512 * kib + 1) }), 'INVALID_ARGUMENT', 'payload');
    expect((await readDocument(api, 'profile', name)).generation).toBe('1');
  });

  test('a patch may not make a document of more than 512 KiB', async () => {
    const name = uniqueName('grown');
    expectOk(await postResource(api, 'profile', name, { one: 'x'.repeat(300 * kib) }));
    const more = { updateMask: 'two' };
    const answer = await postResource(api, 'profile', name, { two: 'x'.repeat(300 * kib) }, more);
    expectError(answer, 'INVALID_ARGUMENT');
    expect((await readDocument(api, 'profile', name)).generation).toBe('1');
  });

  test('a document nested too deep is INVALID_ARGUMENT', async () => {
    const text = `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`;
    const payload = Buffer.from(text).toString('base64');
    const answer = await api.post(`/v1/catalog/profile/${uniqueName('deep')}`, { payload });
    expectError(answer, 'INVALID_ARGUMENT', /^payload/);
  });

  test('a path has at most 8 elements', async () => {
    const path = [uniqueName('depth')];
    expectOk(await spawn(path));
    for (let depth = 2; depth <= 8; depth += 1) {
      path.push(`level-${depth}`);
      expectOk(await spawn(path));
    }
    expect((await statusOf(api, ...path)).agentId.agent).toHaveLength(8);
    expectError(await spawn([...path, 'level-9']), 'INVALID_ARGUMENT', /^agentId\.agent/);
    const status = { agentId: agent(...path, 'level-9') };
    expectError(await api.post('/v1/agent/status', status), 'INVALID_ARGUMENT', /^agentId\.agent/);
  });

  test('a name has 1 to 128 characters', async () => {
    const name = 'n'.repeat(120) + uniqueName('').slice(-8);
    expect(name).toHaveLength(128);
    expectOk(await spawn([name], { workspace: 'w'.repeat(128) }));
    expectOk(await postResource(api, 'profile', 'p'.repeat(128), {}));
    expect((await readDocument(api, 'profile', 'p'.repeat(128))).generation).toBe('1');
    expectError(await spawn([`${name}n`]), 'INVALID_ARGUMENT', 'agentId.agent.0');
    expectError(await spawn(['']), 'INVALID_ARGUMENT', 'agentId.agent.0');
    const wide = { agentId: { agent: [uniqueName('limit')], workspace: 'w'.repeat(129) }, description: 'x' };
    expectError(await api.post('/v1/agent/spawn', wide), 'INVALID_ARGUMENT', 'agentId.workspace');
    expectError(await postResource(api, 'profile', 'p'.repeat(129), {}), 'INVALID_ARGUMENT', /name$/);
  });

  test('a followUpId has 1 to 128 characters', async () => {
    const name = await spawned();
    const followUpId = 'f'.repeat(128);
    expect(expectOk(await queue(name, { description: 'x', followUpId }))).toEqual({
      followUpId,
      state: 'QUEUED',
      wakesAt: null,
    });
    const tooLong = { description: 'x', followUpId: `${followUpId}f` };
    expectError(await queue(name, tooLong), 'INVALID_ARGUMENT', 'followUpId');
  });

  test('one request has at most 500 tasks', async () => {
    const tasks = (count: number) => Array.from({ length: count }, (_, i) => ({ id: `t${i}` }));
    const name = await spawned({ tasks: tasks(500) });
    expect((await statusOf(api, name)).tasks).toHaveLength(500);
    expectError(await spawn([uniqueName('limit')], { tasks: tasks(501) }), 'INVALID_ARGUMENT', 'tasks');
    const other = await spawned();
    expectError(await queue(other, { tasks: tasks(501) }), 'INVALID_ARGUMENT', 'tasks');
    const create = { agentId: agent(other), tasks: tasks(501) };
    expectError(await api.post('/v1/agent/tasks/create', create), 'INVALID_ARGUMENT', 'tasks');
  });

  test.each([
    ['1,001', 1001],
    ['-1', -1],
    ['1.5', 1.5],
  ])('a pageSize of %s is INVALID_ARGUMENT', async (_, pageSize) => {
    expectError(await api.post('/v1/agents', { pageSize }), 'INVALID_ARGUMENT', 'pageSize');
    const listed = await api.get(`/v1/catalog/persona?pageSize=${pageSize}`);
    expectError(listed, 'INVALID_ARGUMENT', 'pageSize');
    const history = await api.get(`/v1/catalog/persona/default/history?pageSize=${pageSize}`);
    expectError(history, 'INVALID_ARGUMENT', 'pageSize');
  });

  test('a pageSize of 1,000 is accepted', async () => {
    expectOk(await api.post('/v1/agents', { pageSize: 1000 }));
    expectOk(await api.get('/v1/catalog/persona?pageSize=1000'));
  });

  test('deliverAt is in the future and at most 30 days ahead', async () => {
    const name = await spawned();
    expectOk(await queue(name, { description: 'x', deliverAt: inMs(30 * dayMs - 60_000) }));
    expectOk(await queue(name, { description: 'x', deliverAt: inMs(60_000) }));
    for (const deliverAt of [inMs(30 * dayMs + 60_000), inMs(0), inMs(-60_000)]) {
      const refused = await queue(name, { description: 'x', deliverAt });
      expect(expectError(refused, 'INVALID_ARGUMENT', 'deliverAt').message).toContain(`got ${deliverAt}`);
    }
  });

  test('ifGenerationMatch is at least 0', async () => {
    expectOk(await postResource(api, 'profile', uniqueName('bound'), {}, { ifGenerationMatch: '0' }));
    const below = await postResource(api, 'profile', uniqueName('bound'), {}, { ifGenerationMatch: '-1' });
    expectError(below, 'INVALID_ARGUMENT', 'ifGenerationMatch');
  });

  test("a wait is limited only by the client's timeout, and ends when the client disconnects", async () => {
    const name = await spawned();
    const gone = openRequest(api, '/v1/agent/wait', { agentId: agent(name) });
    const stays = openRequest(api, '/v1/agent/wait', { agentId: agent(name) });
    gone.abort();
    expect((await gone.ended).cut).toBe(true);
    expectOk(await api.post('/v1/agent/kill', { agentId: agent(name) }));
    const { status, text } = await stays.ended;
    expect(status).toBe(200);
    expect((JSON.parse(text) as AgentStatus).phase).toBe('PHASE_CANCELED');
  });
});

describe('counts that accumulate', () => {
  test('an agent has at most 500 tasks; one more is RESOURCE_EXHAUSTED', async () => {
    const tasks = Array.from({ length: 499 }, (_, i) => ({ id: `t${i}` }));
    const name = await spawned({ tasks });
    const agentId = agent(name);
    expectOk(await api.post('/v1/agent/tasks/create', { agentId, tasks: [{ id: 'last' }] }));
    const over = await api.post('/v1/agent/tasks/create', { agentId, tasks: [{ id: 'over' }] });
    expectError(over, 'RESOURCE_EXHAUSTED');
    expect(over.headers.get('retry-after')).toMatch(/^\d+$/);
    expectError(await queue(name, { tasks: [{ id: 'over' }] }), 'RESOURCE_EXHAUSTED');
    expect((await statusOf(api, name)).tasks).toHaveLength(500);
  });

  test('the tasks of undelivered follow-ups count', async () => {
    const name = await spawned({ tasks: [{ id: 'first' }] });
    const tasks = Array.from({ length: 499 }, (_, i) => ({ id: `t${i}` }));
    expectOk(await queue(name, { tasks, followUpId: 'many' }));
    expectError(await queue(name, { tasks: [{ id: 'over' }] }), 'RESOURCE_EXHAUSTED');
    expectOk(await api.post('/v1/agent/queue/remove', { agentId: agent(name), followUpId: 'many' }));
    expectOk(await queue(name, { tasks: [{ id: 'over' }] }));
  });

  test('an agent has at most 1,000 undelivered follow-ups, deferred ones included', async () => {
    const name = await spawned();
    const later = { deliverAt: inAnHour() };
    expectOk(await queue(name, { description: 'message 0', followUpId: 'f0', ...later }));
    expectOk(await queue(name, { description: 'message 1', followUpId: 'f1' }));
    await copyFollowUp(name, 'f0', 499);
    await copyFollowUp(name, 'f1', 498);
    expectOk(await queue(name, { description: 'the last' }));
    const over = await queue(name, { description: 'over' });
    expectError(over, 'RESOURCE_EXHAUSTED');
    expect(over.headers.get('retry-after')).toMatch(/^\d+$/);
    const deferred = { description: 'over', deliverAt: inAnHour() };
    expectError(await queue(name, deferred), 'RESOURCE_EXHAUSTED');
    expect((await statusOf(api, name)).followUps).toHaveLength(1000);
    // Known messages still get a reply, and a removed one makes room for another.
    expectOk(await queue(name, { description: 'message 1', followUpId: 'f1' }));
    expectOk(await api.post('/v1/agent/queue/remove', { agentId: agent(name), followUpId: 'f0' }));
    expectOk(await queue(name, { description: 'in its place' }));
    expectError(await queue(name, { description: 'over' }), 'RESOURCE_EXHAUSTED');
    // A preempt clears the queue first, so it is within the limit.
    expectOk(await queue(name, { description: 'now', preempt: true }));
  });

  test('a root has at most 500 live descendants', async () => {
    const root = await spawned();
    expectOk(await spawn([root, 'child']));
    expectOk(await spawn([root, 'c0']));
    expectOk(await spawn([root, 'child', 'g1']));
    await copyAgent(`${root}/c0`, 'admin', 248);
    await copyAgent(`${root}/child/g1`, 'admin', 248);
    expectOk(await spawn([root, 'the-last']));
    for (const path of [
      [root, 'over'],
      [root, 'child', 'over'],
    ]) {
      expectError(await spawn(path), 'RESOURCE_EXHAUSTED');
    }
    expectOk(await spawn([uniqueName('another-root')]));
    expectOk(await api.post('/v1/agent/kill', { agentId: agent(root, 'c0') }));
    expectOk(await spawn([root, 'in-its-place']));
    expectError(await spawn([root, 'over']), 'RESOURCE_EXHAUSTED');
  });

  test('a page has 1,000 entries by default and at most', async () => {
    const account = uniqueName('crowd');
    const { api: crowded } = await createKey(api, { role: 'member', account });
    expectOk(await crowded.post('/v1/agent/spawn', { agentId: agent('a'), description: 'x' }));
    await copyAgent('a', account, 1000);
    interface Page {
      readonly entries: AgentEntry[];
      readonly nextPageToken: string;
    }
    for (const pageSize of [undefined, 0, 1000]) {
      const first = expectOk(await crowded.post<Page>('/v1/agents', { pageSize }));
      expect(first.entries).toHaveLength(1000);
      expect(first.nextPageToken).not.toBe('');
      const next = { pageSize, pageToken: first.nextPageToken };
      const second = expectOk(await crowded.post<Page>('/v1/agents', next));
      expect(second.entries).toHaveLength(1);
      expect(second.nextPageToken).toBe('');
      const names = [...first.entries, ...second.entries].map(({ agentId }) => agentId.agent[0]);
      expect(new Set(names).size).toBe(1001);
    }
  });
});

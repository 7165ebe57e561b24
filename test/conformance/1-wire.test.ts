import { type AgentStatus, limits, type RouteName, routes, type TimelineEntry } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, agent, apiOf, statusOf, violation } from '../support/api.ts';
import {
  createKey,
  decode,
  encode,
  postResource,
  readDocument,
  readResource,
  uniqueName,
} from '../support/catalog.ts';
import { replySchemaProblem, routeEntries } from '../support/contract-schemas.ts';
import {
  expectError,
  expectErrorEnvelope,
  expectOk,
  ignoredFields,
  normalizeField,
} from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

let server: SharedServer;
let api: Api;
let t: TestTenant;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
  t = await newTestTenant(api);
});
afterAll(() => server?.close());

const json = { 'content-type': 'application/json' };
const bearer = () => ({ authorization: `Bearer ${server.key}` });

async function spawned(more: Record<string, unknown> = {}): Promise<string> {
  const name = uniqueName('wire');
  expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'work', ...more }));
  return name;
}

/** An agent whose run 1 is RUNNING. */
async function running(): Promise<{ agentId: ReturnType<TestTenant['id']>; end: () => Promise<unknown> }> {
  const name = uniqueName('running');
  await t.spawn(name);
  const claim = await t.start(name);
  return { agentId: t.id(name), end: () => t.runner.end(claim) };
}

const statusById = async (agentId: unknown): Promise<AgentStatus> =>
  expectOk(await api.post<AgentStatus>('/v1/agent/status', { agentId }));

describe('media type, names, enums, times, binary values', () => {
  test('a reply is application/json, and so is an error', async () => {
    const answers = [
      await api.get('/v1/whoami'),
      await api.post('/v1/agent/status', { agentId: agent('no') }),
    ];
    for (const answer of answers) {
      expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/);
    }
  });

  test('every field name of a reply is lowerCamelCase', async () => {
    const name = await spawned({ tasks: [{ subject: 'one' }] });
    const names = new Set<string>();
    const collect = (value: unknown): void => {
      if (Array.isArray(value)) for (const item of value) collect(item);
      else if (value !== null && typeof value === 'object') {
        for (const [key, inner] of Object.entries(value)) {
          names.add(key);
          collect(inner);
        }
      }
    };
    collect((await api.get('/v1/whoami')).body);
    collect(await statusOf(api, name));
    collect((await api.post('/v1/agents', {})).body);
    collect((await api.post('/v1/agent/timeline', { agentId: agent(name) })).body);
    collect((await api.get('/v1/catalog/persona')).body);
    for (const field of names) expect(field).toMatch(/^[a-z][A-Za-z0-9]*$/);
  });

  test('enums are the names of their values', async () => {
    const name = await spawned({ tasks: [{ subject: 'one' }] });
    const status = await statusOf(api, name);
    expect(status.phase).toBe('PHASE_PENDING');
    expect(status.agentId.ownerProvider).toBe('PROVIDER_CODEHOST_OAUTH');
    expect(status.agentId.tenant.provider).toBe('PROVIDER_CODEHOST_APP');
    expect(status.tasks[0]?.status).toBe('TASK_STATUS_PENDING');
    expect((await readResource(api, 'persona', 'default')).body.inputFormat).toBe('INPUT_FORMAT_MARKDOWN');
  });

  test.each([
    ['a number', 1],
    ['another case', 'provider_codehost_app'],
    ['an unknown name', 'PROVIDER_OTHER'],
  ])('an enum given as %s is INVALID_ARGUMENT', async (_, provider) => {
    const answer = await api.post('/v1/agents', { tenant: { provider } });
    expectError(answer, 'INVALID_ARGUMENT', 'tenant.provider');
  });

  test('timestamps are RFC 3339 date-times', async () => {
    const status = await statusOf(api, await spawned());
    for (const time of [status.createdAt, status.phaseSince, status.progressAt]) {
      expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/);
    }
  });

  test.each([
    ['an offset', (at: Date) => at.toISOString().replace('Z', '+00:00')],
    ['UTC', (at: Date) => at.toISOString()],
    ['no fraction', (at: Date) => at.toISOString().replace(/\.\d+Z/, 'Z')],
  ])('a timestamp with %s is read', async (_, spell) => {
    const name = await spawned();
    const deliverAt = new Date(Math.ceil(Date.now() / 1000) * 1000 + 3_600_000);
    const body = { agentId: agent(name), description: 'later', deliverAt: spell(deliverAt) };
    expectOk(await api.post('/v1/agent/queue', body));
    const { followUps } = await statusOf(api, name);
    expect(new Date(followUps[0]?.deliverAt ?? 0)).toEqual(deliverAt);
  });

  test.each(['tomorrow', '2026-13-01T00:00:00Z', '2099-01-01', 1893456000])(
    '%j is not a timestamp',
    async (deliverAt) => {
      const body = { agentId: agent(await spawned()), description: 'x', deliverAt };
      expectError(await api.post('/v1/agent/queue', body), 'INVALID_ARGUMENT', 'deliverAt');
    },
  );

  test('binary values are base64', async () => {
    const { body } = await readResource(api, 'persona', 'default');
    expect(body.payload).toMatch(/^[A-Za-z0-9+/]+={0,2}$/);
    expect(decode(body.payload)).toMatchObject({ name: 'default' });
  });

  test('agent-scoped operations are POST with agentId in the body, reads too', () => {
    // Streams are also GET routes, for EventSource.
    const scoped = routeEntries.filter(
      ([name, { path }]) => path.startsWith('/v1/agent/') && !name.endsWith('ByGet'),
    );
    expect(scoped.length).toBeGreaterThan(10);
    for (const [, { method, body }] of scoped) {
      expect(method).toBe('POST');
      expect(body?.properties).toHaveProperty('agentId');
    }
  });
});

describe('64-bit integers', () => {
  test('runCount, runId, generation, sequence and token counts are written as strings', async () => {
    const { agentId, end } = await running();
    const status = await statusById(agentId);
    const digits = expect.stringMatching(/^\d+$/);
    expect(status).toMatchObject({
      runCount: '1',
      run: { runId: '1' },
      inputTokens: digits,
      cachedInputTokens: digits,
      outputTokens: digits,
      totalTokens: digits,
    });
    const { entries } = expectOk(
      await api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', { agentId }),
    );
    for (const entry of entries) expect(entry).toMatchObject({ sequence: digits, runId: digits });
    expect((await postResource(api, 'profile', uniqueName('int64'), {})).body.generation).toBe('1');
    await end();
  });

  test('cleared is a number', async () => {
    const agentId = agent(await spawned());
    expectOk(await api.post('/v1/agent/queue', { agentId, description: 'one' }));
    const answer = await api.post('/v1/agent/clear-follow-ups', { agentId });
    expect(answer.body).toEqual({ cleared: 1 });
  });

  test.each([
    ['a string', '1'],
    ['a JSON number', 1],
  ])('stop-turn reads runId as %s', async (_, runId) => {
    const { agentId, end } = await running();
    expectOk(await api.post('/v1/agent/stop-turn', { agentId, runId }));
    expect((await statusById(agentId)).run?.state).toBe('STOPPING');
    await end();
  });

  test.each([
    ['a string', '0'],
    ['a JSON number', 0],
  ])('a write reads ifGenerationMatch as %s', async (_, ifGenerationMatch) => {
    const name = uniqueName('int64');
    const created = await postResource(api, 'profile', name, {}, { ifGenerationMatch });
    expect(expectOk(created).generation).toBe('1');
    expectError(await postResource(api, 'profile', name, {}, { ifGenerationMatch }), 'FAILED_PRECONDITION');
  });

  test.each([
    ['a string', '1'],
    ['a JSON number', 1],
  ])('the timeline reads afterSequence as %s', async (_, afterSequence) => {
    const name = await spawned();
    const { entries } = expectOk(
      await api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', {
        agentId: agent(name),
        afterSequence,
      }),
    );
    expect(entries.map((e) => e.sequence)).not.toContain('1');
  });

  test('the largest 64-bit integer is accepted', async () => {
    const more = { ifGenerationMatch: '9223372036854775807' };
    expectError(await postResource(api, 'profile', uniqueName('int64'), {}, more), 'FAILED_PRECONDITION');
  });

  test.each([
    ['a number that is not a safe integer', '9007199254740993'],
    ['a number with a fraction', '1.5'],
    ['a number too large for any type', '1e400'],
    ['a boolean', 'true'],
    ['an object', '{}'],
    ['an array', '["1"]'],
    ['an empty string', '""'],
    ['a word', '"one"'],
    ['a fraction in a string', '"1.5"'],
    ['an exponent in a string', '"1e3"'],
    ['a hexadecimal string', '"0x1"'],
    ['a padded string', '" 1"'],
    ['a string with a plus', '"+1"'],
    ['NaN in a string', '"NaN"'],
    ['one more than the largest', '"9223372036854775808"'],
    ['twenty digits', '"10000000000000000000"'],
  ])('%s is not a 64-bit integer', async (_, literal) => {
    const written = await api.post(
      `/v1/catalog/profile/${uniqueName('int64')}`,
      `{"ifGenerationMatch":${literal}}`,
    );
    expectError(written, 'INVALID_ARGUMENT', 'ifGenerationMatch');
    const name = await spawned();
    const stop = `{"agentId":{"agent":["${name}"]},"runId":${literal}}`;
    expectError(await api.post('/v1/agent/stop-turn', stop), 'INVALID_ARGUMENT', 'runId');
  });
});

describe('absent fields and null', () => {
  test('a status carries every documented field, with its default', async () => {
    const name = await spawned({ model: 'rehearsal-b' });
    const status = await statusOf(api, name);
    expect(replySchemaProblem('status', status)).toBeUndefined();
    expect(status).toMatchObject({
      needsInput: '',
      wakesAt: null,
      runCount: '0',
      run: null,
      expectedOutput: '',
      response: '',
      structuredOutput: null,
      outputSchema: '',
      reasoningEffort: '',
      serviceTier: '',
      fastMode: false,
      tasks: [],
      followUps: [],
      children: [],
      repos: [],
      diffStat: null,
      changeRequests: [],
      cost: 0,
      treeCost: 0,
      inputTokens: '0',
      cachedInputTokens: '0',
      outputTokens: '0',
      totalTokens: '0',
      endedAt: null,
      error: null,
    } satisfies Partial<AgentStatus>);
  });

  test('a task in a reply carries every field', async () => {
    const name = await spawned({ tasks: [{ subject: 'bare' }] });
    expect((await statusOf(api, name)).tasks).toEqual([
      {
        id: expect.stringMatching(/./),
        subject: 'bare',
        description: '',
        status: 'TASK_STATUS_PENDING',
        blocks: [],
        blockedBy: [],
        activation: null,
        persona: '',
        dedupKey: '',
        ephemeral: false,
      },
    ]);
  });

  test('every reply matches its schema, defaults included', async () => {
    const name = await spawned({ tasks: [{ id: 't', subject: 'one' }] });
    const agentId = agent(name);
    expectOk(await api.post('/v1/agent/queue', { agentId, description: 'x', followUpId: 'f' }));
    const persona = uniqueName('fits');
    const path = `/v1/catalog/persona/${persona}`;
    const replies: [RouteName, unknown][] = [
      ['whoami', expectOk(await api.get('/v1/whoami'))],
      ['status', expectOk(await api.post('/v1/agent/status', { agentId }))],
      ['list', expectOk(await api.post('/v1/agents', {}))],
      ['timeline', expectOk(await api.post('/v1/agent/timeline', { agentId }))],
      ['runs', expectOk(await api.post('/v1/agent/runs', { agentId }))],
      ['diff', expectOk(await api.post('/v1/agent/diff', { agentId }))],
      ['tasks', expectOk(await api.post('/v1/agent/tasks', { agentId }))],
      ['createTasks', expectOk(await api.post('/v1/agent/tasks/create', { agentId, tasks: [{ id: 'u' }] }))],
      [
        'updateTask',
        expectOk(await api.post('/v1/agent/tasks/update', { agentId, id: 't', subject: 'two' })),
      ],
      ['listFollowUps', expectOk(await api.post('/v1/agent/queue/list', { agentId }))],
      ['followUp', expectOk(await api.post('/v1/agent/queue/get', { agentId, followUpId: 'f' }))],
      ['removeFollowUp', expectOk(await api.post('/v1/agent/queue/remove', { agentId, followUpId: 'f' }))],
      ['clearFollowUps', expectOk(await api.post('/v1/agent/clear-follow-ups', { agentId }))],
      ['queue', expectOk(await api.post('/v1/agent/queue', { agentId, description: 'y' }))],
      ['kill', expectOk(await api.post('/v1/agent/kill', { agentId }))],
      ['wait', expectOk(await api.post('/v1/agent/wait', { agentId }))],
      ['waitMany', expectOk(await api.post('/v1/agents/wait', { agentIds: [agentId] }))],
      [
        'spawn',
        expectOk(await api.post('/v1/agent/spawn', { agentId: agent(uniqueName('fits')), description: 'x' })),
      ],
      ['writeResource', expectOk(await api.post(path, { payload: encode({}) }))],
      ['readResource', expectOk(await api.get(path))],
      ['listResources', expectOk(await api.get('/v1/catalog/persona'))],
      ['resourceHistory', expectOk(await api.get(`${path}/history`))],
      ['deleteResource', expectOk(await api.del(path))],
    ];
    for (const [route, body] of replies) expect(replySchemaProblem(route, body), route).toBeUndefined();
  });

  test('stop-turn and kill answer an empty object', async () => {
    const { agentId, end } = await running();
    const stop = await api.post('/v1/agent/stop-turn', { agentId, runId: '1' });
    expect([stop.status, stop.body]).toEqual([200, {}]);
    const kill = await api.post('/v1/agent/kill', { agentId });
    expect([kill.status, kill.body]).toEqual([200, {}]);
    await end();
  });

  test('null in a request is the same as absent, at every level', async () => {
    const name = uniqueName('null');
    const agentId = { tenant: null, ownerProvider: null, account: null, agent: [name], workspace: null };
    const settings = {
      agent: null,
      model: null,
      reasoningEffort: null,
      serviceTier: null,
      fastMode: null,
      outputSchema: null,
    };
    const nothing = Object.fromEntries(Object.keys(settings).map((key) => [key, null]));
    const spawn = await api.post('/v1/agent/spawn', {
      agentId,
      description: 'x',
      expectedOutput: null,
      tasks: null,
      persona: null,
      workspace: null,
      ...nothing,
    });
    expect(expectOk(spawn)).toMatchObject({
      agentId: { agent: [name], account: 'admin', workspace: 'default' },
    });
    expect(ignoredFields(spawn)).toEqual([]);
    const queued = await api.post<{ followUpId: string }>('/v1/agent/queue', {
      agentId: { ...agentId, tenant: { provider: null, org: null } },
      description: 'y',
      tasks: null,
      followUpId: null,
      preempt: null,
      deliverAt: null,
      ...nothing,
    });
    expect(expectOk(queued).followUpId).toMatch(/^[0-9a-f-]{36}$/);
    expectOk(
      await api.post('/v1/agents', {
        parentId: null,
        account: null,
        includeTerminal: null,
        tenant: null,
        workspace: null,
        phases: null,
        text: null,
        pageSize: null,
        pageToken: null,
      }),
    );
    const task = { id: 'n', subject: null, status: null, blocks: null, activation: null, ephemeral: null };
    expectOk(await api.post('/v1/agent/tasks/create', { agentId, tasks: [task] }));
    expectOk(await api.post('/v1/agent/timeline', { agentId, afterSequence: null, limit: null }));
    const written = await api.post(`/v1/catalog/profile/${uniqueName('null')}`, {
      ref: null,
      payload: null,
      updateMask: null,
      justification: null,
      ifGenerationMatch: null,
    });
    expect(expectOk(written)).toMatchObject({ generation: '1' });
  });

  test('null in a required field is refused like a missing field', async () => {
    const agentId = agent(await spawned());
    for (const body of [{ agentId }, { agentId, runId: null }]) {
      expectError(await api.post('/v1/agent/stop-turn', body), 'INVALID_ARGUMENT', 'runId');
    }
  });
});

describe('ignored fields and aliases', () => {
  test('unknown request fields are ignored, and named in Muster-Ignored-Fields', async () => {
    const answer = await api.post('/v1/agents', { colour: 'red', agent_id: {}, account: '' });
    expectOk(answer);
    expect(ignoredFields(answer)).toEqual(['agent_id', 'colour']);
  });

  test('unknown fields inside a message are named by their path', async () => {
    const name = uniqueName('ignored');
    const answer = await api.post('/v1/agent/spawn', {
      agentId: { agent: [name], tenant: { region: 'x' }, colour: 'red' },
      description: 'x',
      tasks: [{ subject: 'one', colour: 'red' }],
    });
    expectOk(answer);
    expect(ignoredFields(answer).map(normalizeField)).toEqual([
      'agentId.colour',
      'agentId.tenant.region',
      'tasks.0.colour',
    ]);
  });

  test('unknown query parameters are ignored and named, on every method', async () => {
    const name = uniqueName('ignored');
    const path = `/v1/catalog/profile/${name}?colour=red&size=2`;
    for (const answer of [await api.post(path, {}), await api.get(path), await api.del(path)]) {
      expectOk(answer);
      expect(ignoredFields(answer)).toEqual(['colour', 'size']);
    }
    const whoami = await api.get('/v1/whoami?colour=red');
    expectOk(whoami);
    expect(ignoredFields(whoami)).toEqual(['colour']);
  });

  test('without unknown fields there is no Muster-Ignored-Fields header', async () => {
    const answer = await api.post('/v1/agents', { account: '', tenant: {} });
    expectOk(answer);
    expect(answer.headers.has('muster-ignored-fields')).toBe(false);
  });

  test('unknown fields of a document are stored, so the header does not name them', async () => {
    const answer = await postResource(api, 'profile', uniqueName('open'), { colour: 'red' });
    expectOk(answer);
    expect(answer.headers.has('muster-ignored-fields')).toBe(false);
  });

  test.each([
    ['a line break', 'a\r\nset-cookie: x=y'],
    ['letters outside ASCII', 'größe-👍'],
    ['control characters', 'a\u0007b'],
    ['ten thousand characters', 'x'.repeat(10_000)],
    ['nothing at all', ''],
  ])('an unknown field whose name has %s is ignored', async (_, field) => {
    const answer = await api.post('/v1/agents', { [field]: 1 });
    expectOk(answer);
    expect(answer.headers.has('muster-ignored-fields')).toBe(true);
    expect(answer.headers.has('set-cookie')).toBe(false);
  });

  test('a thousand unknown fields are ignored', async () => {
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`unknownFieldNumber${i}`, i]));
    const answer = await api.post('/v1/agents', many);
    expectOk(answer);
    expect(answer.headers.has('muster-ignored-fields')).toBe(true);
  });

  test('spawn reads persona as an alias of agent', async () => {
    const name = uniqueName('alias');
    const answer = await api.post('/v1/agent/spawn', {
      agentId: agent(name),
      description: 'x',
      persona: 'planner',
    });
    expectOk(answer);
    expect(ignoredFields(answer)).toEqual([]);
    expect((await statusOf(api, name)).persona).toBe('planner');
  });

  test('spawn reads a top-level workspace as agentId.workspace', async () => {
    const name = uniqueName('alias');
    const answer = await api.post('/v1/agent/spawn', {
      agentId: agent(name),
      description: 'x',
      workspace: 'elsewhere',
    });
    expect(expectOk(answer)).toMatchObject({ agentId: { workspace: 'elsewhere' } });
    expect(ignoredFields(answer)).toEqual([]);
  });

  test('a catalog body may repeat ref.kind and ref.name', async () => {
    const name = uniqueName('alias');
    const answer = await postResource(api, 'profile', name, {}, { ref: { kind: 'profile', name } });
    expectOk(answer);
    expect(ignoredFields(answer)).toEqual([]);
    expectOk(await postResource(api, 'profile', name, {}, { ref: { kind: 'Service_Profiles' } }));
  });

  test.each([
    ['kind', { kind: 'persona' }],
    ['kind', { kind: 'no-kind' }],
    ['name', { name: 'another' }],
  ])('a ref.%s that differs from the path is INVALID_ARGUMENT', async (field, ref) => {
    const name = uniqueName('alias');
    expectError(await postResource(api, 'profile', name, {}, { ref }), 'INVALID_ARGUMENT', `ref.${field}`);
    expectError(await readResource(api, 'profile', name), 'NOT_FOUND');
  });
});

describe('bodies', () => {
  test('an empty body on POST is the same as {}', async () => {
    const empty = [
      await sendRaw(server.url, { path: '/v1/agents', headers: bearer() }),
      await sendRaw(server.url, { path: '/v1/agents', headers: { ...bearer(), 'content-length': '0' } }),
      await sendRaw(server.url, { path: '/v1/agents', headers: { ...bearer(), ...json }, body: '' }),
    ];
    for (const answer of empty) expect(expectOk(answer)).toHaveProperty('entries');
  });

  test('an empty body is refused for the fields that are missing', async () => {
    const answer = await sendRaw(server.url, { path: '/v1/agent/status', headers: bearer() });
    expectError(answer, 'INVALID_ARGUMENT', /^agentId/);
  });

  test('a write with an empty body writes the document {}', async () => {
    const name = uniqueName('empty');
    const path = `/v1/catalog/profile/${name}`;
    expectOk(await sendRaw(server.url, { path, headers: bearer() }));
    expect((await readDocument(api, 'profile', name)).document).toMatchObject({ name });
  });

  const padded = (bytes: number): string => {
    const frame = JSON.stringify({ padding: '' });
    return JSON.stringify({ padding: 'x'.repeat(bytes - frame.length) });
  };

  test('a body of 1 MiB is read', async () => {
    const body = padded(limits.bodyBytes);
    expectOk(await sendRaw(server.url, { path: '/v1/agents', headers: { ...bearer(), ...json }, body }));
  });

  test.each([
    ['with its length announced', false],
    ['sent in chunks', true],
  ])('a body over 1 MiB %s is INVALID_ARGUMENT', async (_, chunked) => {
    const body = padded(limits.bodyBytes + 1);
    const headers = { ...bearer(), ...json };
    expectError(
      await sendRaw(server.url, { path: '/v1/agents', headers, body, chunked }),
      'INVALID_ARGUMENT',
    );
    expectOk(await api.get('/v1/whoami'));
  });

  test.each([
    ['an unclosed object', '{"account": ""'],
    ['a single quote', "{'account': ''}"],
    ['a trailing comma', '{"account": "",}'],
    ['a comment', '{} // none'],
    ['two documents', '{}{}'],
    ['NaN', '{"pageSize": NaN}'],
    ['a bare word', 'account'],
    ['a raw control character', '{"account": "\u0001"}'],
    ['an XML document', '<agents/>'],
  ])('%s is broken JSON: INVALID_ARGUMENT', async (_, body) => {
    expectError(await api.post('/v1/agents', body), 'INVALID_ARGUMENT');
  });

  test('bytes that are not UTF-8 are broken JSON: INVALID_ARGUMENT', async () => {
    const body = Buffer.concat([Buffer.from('{"text": "'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]);
    const headers = { ...bearer(), ...json };
    expectError(await sendRaw(server.url, { path: '/v1/agents', headers, body }), 'INVALID_ARGUMENT');
  });

  test.each(['[]', '"text"', '1', 'true', 'null'])('%s is not an object: INVALID_ARGUMENT', async (body) => {
    expectError(await api.post('/v1/agents', body), 'INVALID_ARGUMENT');
  });

  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/xml',
    'application/octet-stream',
    'application/jsonx',
    'nonsense',
  ])('a body of media type %s is INVALID_ARGUMENT', async (type) => {
    const headers = { ...bearer(), 'content-type': type };
    const answer = await sendRaw(server.url, { path: '/v1/agents', headers, body: '{}' });
    expectError(answer, 'INVALID_ARGUMENT');
  });

  test.each(['application/json', 'application/json; charset=utf-8', 'Application/JSON'])(
    'a body of media type %s is read',
    async (type) => {
      const headers = { ...bearer(), 'content-type': type };
      expectOk(await sendRaw(server.url, { path: '/v1/agents', headers, body: '{}' }));
    },
  );

  test('a body nested ten thousand levels deep gets a reply', async () => {
    const deep = `{"unknown":${'['.repeat(10_000)}${']'.repeat(10_000)}}`;
    const answer = await api.post('/v1/agents', deep);
    expect([200, 400]).toContain(answer.status);
    if (answer.status === 400) expectError(answer, 'INVALID_ARGUMENT');
    expectOk(await api.get('/v1/whoami'));
  });
});

describe('paths and methods', () => {
  test.each([
    ['GET', '/v1/nothing'],
    ['POST', '/v1/nothing'],
    ['POST', '/v1/agent/nothing'],
    ['POST', '/v1/agent'],
    ['POST', '/v2/agents'],
    ['POST', '/agent'],
    ['GET', '/v1'],
    ['GET', '/v1/catalog'],
    ['GET', '/v1/catalog/persona/default/nothing'],
    ['DELETE', '/v1/catalog/persona/default/history/1'],
  ])('%s %s is an unknown path: NOT_FOUND', async (method, path) => {
    expectError(await sendRaw(server.url, { method, path, headers: bearer() }), 'NOT_FOUND');
  });

  const fill = (path: string): string =>
    path.replace('{ref.kind}', 'persona').replace('{ref.name}', 'default');
  const paths = [...new Set(routeEntries.map(([, { path }]) => path))];
  const wrong = paths.flatMap((path) => {
    const known = routeEntries.filter(([, r]) => r.path === path).map(([, r]) => r.method as string);
    return ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']
      .filter((method) => !known.includes(method))
      .map((method) => [method, fill(path)] as const);
  });

  test.each(wrong)(
    '%s %s is a known path with another method: UNIMPLEMENTED, 12, 501',
    async (method, path) => {
      const answer = await sendRaw(server.url, { method, path, headers: bearer() });
      expectError(answer, 'UNIMPLEMENTED');
      expect([answer.status, (answer.body as { code: number }).code]).toEqual([501, 12]);
    },
  );

  test('every path starts with the version v1', () => {
    for (const { path } of Object.values(routes)) expect(path).toMatch(/^\/v1\//);
  });
});

describe('error details', () => {
  test('INVALID_ARGUMENT has a BadRequest with the wrong field and what it accepts', async () => {
    const { details } = expectError(
      await api.post('/v1/agents', { includeTerminal: 'yes' }),
      'INVALID_ARGUMENT',
      'includeTerminal',
    );
    expect(details).toContainEqual({
      '@type': 'type.googleapis.com/google.rpc.BadRequest',
      fieldViolations: [{ field: 'includeTerminal', description: expect.stringMatching(/./) }],
    });
  });

  test.each([
    ['agentId.agent.0', { agentId: { agent: [7] }, description: 'x' }],
    ['agentId.account', { agentId: { account: {} }, description: 'x' }],
    ['tasks.1.blocks.0', { tasks: [{}, { blocks: [{}] }], description: 'x' }],
    [
      'tasks.0.activation.filesModified.pattern',
      { tasks: [{ activation: { filesModified: { pattern: 1 } } }] },
    ],
    ['fastMode', { description: 'x', fastMode: 1 }],
    ['description', { description: ['x'] }],
  ])('the violated field is a path: %s', async (field, body) => {
    expectError(await api.post('/v1/agent/spawn', body), 'INVALID_ARGUMENT', field);
  });

  test('INVALID_ARGUMENT that is about no field has no details', async () => {
    const { details } = expectError(await api.post('/v1/agents', '{'), 'INVALID_ARGUMENT');
    expect(details.filter((d) => d['@type'].endsWith('BadRequest'))).toEqual([]);
  });

  test('FAILED_PRECONDITION has a PreconditionFailure', async () => {
    const more = { ifGenerationMatch: '7' };
    const { details } = expectError(
      await postResource(api, 'profile', uniqueName('pre'), {}, more),
      'FAILED_PRECONDITION',
    );
    expect(details).toContainEqual({
      '@type': 'type.googleapis.com/google.rpc.PreconditionFailure',
      violations: [
        { type: expect.any(String), subject: expect.any(String), description: expect.stringMatching(/./) },
      ],
    });
  });

  test('every other error has no details, or an ErrorInfo of domain muster', async () => {
    const answers = [
      await api.post('/v1/agent/status', { agentId: agent(uniqueName('absent')) }),
      await api.as('mst_none.none').get('/v1/whoami'),
      await api.get('/v1/nothing'),
    ];
    for (const answer of answers) {
      for (const detail of expectErrorEnvelope(answer).details) {
        expect(detail).toMatchObject({
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: expect.stringMatching(/^[A-Z][A-Z0-9_]+$/),
          domain: 'muster',
          metadata: expect.any(Object),
        });
      }
    }
  });
});

describe('order of checks', () => {
  let viewer: Api;
  beforeAll(async () => {
    viewer = (await createKey(api, { role: 'viewer', account: 'looker' })).api;
  });
  const foreign = { tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'somebody-else' } };

  test.each([
    ['broken JSON', '{'],
    ['a wrong type', { description: 1 }],
    ['a foreign tenant', { agentId: foreign, description: 'x' }],
    ['nothing wrong', { agentId: {}, description: 'x' }],
  ])('a missing key is refused first: %s', async (_, body) => {
    expectError(await api.as('mst_none.none').post('/v1/agent/spawn', body), 'UNAUTHENTICATED');
  });

  test('a missing key is refused before a body that is too large', async () => {
    const body = JSON.stringify({ padding: 'x'.repeat(limits.bodyBytes) });
    expectError(await sendRaw(server.url, { path: '/v1/agents', headers: json, body }), 'UNAUTHENTICATED');
  });

  test.each([
    ['broken JSON', '{'],
    ['another media type', undefined],
    ['a wrong type', { description: 1 }],
    ['a bad name', { agentId: { ...foreign, agent: ['a/b'] }, description: 'x' }],
    ['a foreign tenant and a wrong type', { agentId: foreign, description: 1 }],
  ])('a wrong body is refused before a missing permission: %s', async (_, body) => {
    const answer =
      body === undefined
        ? await viewer.post('/v1/agent/spawn', 'x', { 'content-type': 'text/plain' })
        : await viewer.post('/v1/agent/spawn', body);
    expectError(answer, 'INVALID_ARGUMENT');
  });

  test('a missing permission is refused before an unknown agent', async () => {
    const absent = uniqueName('absent');
    const body = { agentId: agent(absent), description: 'x' };
    expectError(await viewer.post('/v1/agent/queue', body), 'PERMISSION_DENIED');
    expectError(await viewer.post('/v1/agent/kill', { agentId: agent(absent) }), 'PERMISSION_DENIED');
    const away = { agentId: { ...foreign, agent: [absent] } };
    expectError(await api.post('/v1/agent/status', away), 'PERMISSION_DENIED');
    expectError(await viewer.post('/v1/catalog/pool/absent', { updateMask: 'maxRuns' }), 'PERMISSION_DENIED');
  });

  test('an unknown agent is refused before a wrong state', async () => {
    const agentId = agent(uniqueName('absent'));
    expectError(await api.post('/v1/agent/stop-turn', { agentId, runId: '1' }), 'NOT_FOUND');
    expectError(
      await api.post('/v1/agent/spawn', { agentId: agent(uniqueName('absent'), 'child'), description: 'x' }),
      'NOT_FOUND',
    );
    const more = { updateMask: 'displayName', ifGenerationMatch: '7' };
    expectError(await postResource(api, 'profile', uniqueName('absent'), {}, more), 'NOT_FOUND');
  });

  test('a wrong body is refused before an unknown agent', async () => {
    const agentId = agent(uniqueName('absent'));
    expectError(await api.post('/v1/agent/stop-turn', { agentId }), 'INVALID_ARGUMENT', 'runId');
    expectError(
      await api.post('/v1/agent/stop-turn', { agentId, runId: '1', mode: 'STOP' }),
      'INVALID_ARGUMENT',
      'mode',
    );
  });
});

describe('prototype keys', () => {
  test.each(['constructor', 'prototype', 'toString', 'hasOwnProperty'])(
    '%s is an unknown field like any other',
    async (key) => {
      const answer = await api.post('/v1/agents', `{"${key}": {"account": "*", "polluted": true}}`);
      expectOk(answer);
      expect(ignoredFields(answer)).toEqual([key]);
      expect((await api.get('/v1/whoami')).body).not.toHaveProperty('polluted');
    },
  );

  test.each([
    ['{"__proto__": {"account": "*"}}', '__proto__'],
    ['{"tenant": {"__proto__": {"org": "x"}}}', 'tenant.__proto__'],
  ])('__proto__ is refused by name: %s', async (body, field) => {
    expectError(await api.post('/v1/agents', body), 'INVALID_ARGUMENT', field);
  });

  test.each(['__proto__', 'constructor', 'toString'])('%s is a name like any other', async (name) => {
    expectError(await api.post('/v1/agent/status', { agentId: agent(name) }), 'NOT_FOUND');
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'x' }));
    expect((await statusOf(api, name)).agentId.agent).toEqual([name]);
    expectError(await readResource(api, 'persona', name), 'NOT_FOUND');
    expectError(await readResource(api, name, 'x'), 'NOT_FOUND');
    expectError(await postResource(api, name, 'x', {}), 'INVALID_ARGUMENT', /kind$/);
    const body = { agentId: agent(uniqueName('proto')), description: 'x', agent: name };
    expectError(await api.post('/v1/agent/spawn', body), 'INVALID_ARGUMENT', 'agent');
    const model = { agentId: agent(uniqueName('proto')), description: 'x', model: name };
    expectError(await api.post('/v1/agent/spawn', model), 'INVALID_ARGUMENT', 'model');
  });
});

describe('NUL and lone surrogates', () => {
  const broken = [
    ['NUL', '\\u0000'],
    ['a lone high surrogate', '\\ud800'],
    ['a lone low surrogate', '\\udfff'],
    ['surrogates in the wrong order', '\\udc00\\ud800'],
  ] as const;
  /** Where requests have strings: route, field, and the body as JSON text around the string. */
  const places: readonly (readonly [
    path: string,
    field: string,
    body: (text: string, name: string) => string,
  ])[] = [
    ['/v1/agent/spawn', 'description', (t) => `{"description":"${t}"}`],
    ['/v1/agent/spawn', 'expectedOutput', (t) => `{"description":"x","expectedOutput":"${t}"}`],
    ['/v1/agent/spawn', 'agentId.account', (t) => `{"agentId":{"account":"${t}"},"description":"x"}`],
    ['/v1/agent/spawn', 'agentId.agent.0', (t) => `{"agentId":{"agent":["${t}"]},"description":"x"}`],
    ['/v1/agent/spawn', 'agentId.workspace', (t) => `{"agentId":{"workspace":"${t}"},"description":"x"}`],
    [
      '/v1/agent/spawn',
      'agentId.tenant.org',
      (t) => `{"agentId":{"tenant":{"org":"${t}"}},"description":"x"}`,
    ],
    ['/v1/agent/spawn', 'tasks.0.subject', (t) => `{"description":"x","tasks":[{"subject":"${t}"}]}`],
    ['/v1/agent/spawn', 'tasks.0.id', (t) => `{"description":"x","tasks":[{"id":"${t}"}]}`],
    ['/v1/agent/spawn', 'tasks.0.dedupKey', (t) => `{"description":"x","tasks":[{"dedupKey":"${t}"}]}`],
    ['/v1/agent/spawn', 'model', (t) => `{"description":"x","model":"claude-${t}"}`],
    ['/v1/agent/queue', 'description', (t, n) => `{"agentId":{"agent":["${n}"]},"description":"${t}"}`],
    [
      '/v1/agent/queue',
      'followUpId',
      (t, n) => `{"agentId":{"agent":["${n}"]},"description":"x","followUpId":"${t}"}`,
    ],
    ['/v1/agent/queue/remove', 'followUpId', (t, n) => `{"agentId":{"agent":["${n}"]},"followUpId":"${t}"}`],
    ['/v1/agent/tasks/update', 'id', (t, n) => `{"agentId":{"agent":["${n}"]},"id":"${t}"}`],
    ['/v1/agents', 'text', (t) => `{"text":"${t}"}`],
    ['/v1/agents', 'account', (t) => `{"account":"${t}"}`],
    ['/v1/agents', 'pageToken', (t) => `{"pageToken":"${t}"}`],
    ['/v1/catalog/profile/surrogate', 'justification', (t) => `{"justification":"${t}"}`],
    ['/v1/catalog/profile/surrogate', 'updateMask', (t) => `{"updateMask":"${t}"}`],
    ['/v1/catalog/profile/surrogate', 'payload', (t) => `{"payload":"${t}"}`],
  ];
  const cases = places.flatMap(([path, field, body]) =>
    broken.map(([what, sequence]) => [what, path, field, sequence, body] as const),
  );

  test.each(cases)(
    '%s in a string of %s is INVALID_ARGUMENT and names %s',
    async (_, path, field, sequence, body) => {
      const name = path.startsWith('/v1/agent/') && path !== '/v1/agent/spawn' ? await spawned() : '';
      expectError(await api.post(path, body(`a${sequence}b`, name)), 'INVALID_ARGUMENT', field);
    },
  );

  test.each(broken)(
    '%s in a value or a key of a document is INVALID_ARGUMENT and names the payload',
    async (_, sequence) => {
      for (const document of [
        `{"displayName":"${sequence}"}`,
        `{"x":["${sequence}"]}`,
        `{"a${sequence}":1}`,
      ]) {
        const payload = Buffer.from(document).toString('base64');
        const answer = await api.post(`/v1/catalog/profile/${uniqueName('nul')}`, { payload });
        expectError(answer, 'INVALID_ARGUMENT');
        expect(violation(answer)).toMatch(/payload|displayName/);
      }
    },
  );

  test('NUL in a query parameter or in a path is INVALID_ARGUMENT', async () => {
    expectError(await readResource(api, 'persona', 'default', '?org=a%00b'), 'INVALID_ARGUMENT', 'org');
    expectError(await api.get('/v1/catalog/persona/a%00b'), 'INVALID_ARGUMENT', /name$/);
    expectError(await api.post('/v1/catalog/persona/a%00b', {}), 'INVALID_ARGUMENT', /name$/);
  });

  test('NUL in an Idempotency-Key cannot be sent, and other bytes are accepted', async () => {
    const body = { agentId: agent(uniqueName('idem')), description: 'x' };
    const answer = await api.post('/v1/agent/spawn', body, { 'idempotency-key': 'caf\u00e9' });
    expect([200, 400]).toContain(answer.status);
  });

  test('paired surrogates, characters of every plane and every line break are stored as sent', async () => {
    const description = 'a👩‍👩‍👧\u2028\u2029\r\n\t\u{10ffff}\ufffd\ufeffé';
    const name = await spawned({ description });
    expect((await statusOf(api, name)).description).toBe(description);
  });
});

test('no reply contains a stack trace or SQL', async () => {
  const answers = [
    await api.post('/v1/agents', { pageToken: "'; drop table agents; --" }),
    await api.post('/v1/agents', { text: "%' or '1'='1" }),
    await api.post('/v1/agents', '{'),
    await api.get('/v1/catalog/persona?pageToken=%27'),
  ];
  for (const answer of answers) {
    expect(answer.status).toBeLessThan(500);
    expect(JSON.stringify(answer.body)).not.toMatch(/\bat .+\.(js|ts):\d+|SELECT |INSERT |syntax error/i);
  }
});

import { limits } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { agent, statusOf, violation } from '../support/api.ts';
import { postResource, readDocument, readResource, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk, ignoredFields, normalizeField } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { useSharedServer } from '../support/shared-server.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

const json = { 'content-type': 'application/json' };
const bearer = () => ({ authorization: `Bearer ${server.key}` });

async function spawned(more: Record<string, unknown> = {}): Promise<string> {
  const name = uniqueName('wire');
  expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'work', ...more }));
  return name;
}

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

  test.each(broken)('%s in the name of an unknown field is named as ignored', async (_, sequence) => {
    const answer = await api.post('/v1/agents', `{"a${sequence}":1}`);
    expectOk(answer);
    expect(ignoredFields(answer)).toEqual([expect.stringMatching(/^a%/)]);
  });

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

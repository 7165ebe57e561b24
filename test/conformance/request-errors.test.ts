import { type ErrorEnvelope, limits, routes } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Api, agent } from '../support/api.ts';
import { createKey, postResource, uniqueName } from '../support/catalog.ts';
import { routeEntries } from '../support/contract-schemas.ts';
import { expectError, expectErrorEnvelope } from '../support/expect-reply.ts';
import { sendBytes, sendRaw } from '../support/raw-requests.ts';
import { useSharedServer } from '../support/shared-server.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

const json = { 'content-type': 'application/json' };
const bearer = () => ({ authorization: `Bearer ${server.key}` });

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
    path.replace('{pool}', 'default').replace('{ref.kind}', 'persona').replace('{ref.name}', 'default');
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

describe('a missing key is refused before anything else below /v1', () => {
  test.each([
    ['an unknown path', 'GET', '/v1/nothing'],
    ['an unknown path with a body that is not JSON', 'POST', '/v1/nothing', '{'],
    ['a path below one that is known', 'POST', '/v1/agent/status/more'],
    ['a slash too many', 'POST', '/v1/agents/'],
    ['another method', 'GET', '/v1/agents'],
    ['another method of a resource', 'PUT', '/v1/catalog/persona/x'],
    ['OPTIONS', 'OPTIONS', '/v1/agents'],
    ['a path that can not be decoded', 'GET', '/v1/catalog/%zz/x'],
    ['the bare version', 'GET', '/v1'],
    ['a query', 'GET', '/v1?x=1'],
  ])('%s', async (_what, method, path, body = '') => {
    for (const headers of [{}, { authorization: 'Bearer mst_no.body' }])
      expectError(await sendRaw(api.url, { method, path, body, headers }), 'UNAUTHENTICATED');
    const known = await sendRaw(api.url, {
      method,
      path,
      body,
      headers: { authorization: `Bearer ${api.key}` },
    });
    expect(known.status).not.toBe(401);
    expect(known.body).toMatchObject({ code: expect.any(Number), details: expect.any(Array) });
  });

  test.each([
    ['GET', '/v1/sign-in', 501],
    ['GET', '/nothing', 404],
    ['GET', '/v10', 404],
    ['POST', '/healthz', 501],
  ] as const)('%s %s needs no key', async (method, path, status) => {
    expect((await sendRaw(api.url, { method, path })).status).toBe(status);
  });
});

describe('requests that reach no route get the error envelope', () => {
  const host = 'Host: muster';
  test.each([
    ['no Host', 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', 'Host'],
    [
      'an unknown expectation',
      `GET /healthz HTTP/1.1\r\n${host}\r\nExpect: a-reply\r\nConnection: close\r\n\r\n`,
      'Expect',
    ],
    ['no HTTP at all', 'hello\r\n\r\n', 'HTTP/1.1'],
    ['an unknown method', `BREW / HTTP/1.1\r\n${host}\r\n\r\n`, 'HTTP/1.1'],
    ['a header without a colon', `GET / HTTP/1.1\r\n${host}\r\nnonsense\r\n\r\n`, 'HTTP/1.1'],
    [
      'two lengths',
      `POST /v1/agents HTTP/1.1\r\n${host}\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n`,
      'HTTP/1.1',
    ],
    ['headers of 20 KiB', `GET / HTTP/1.1\r\n${host}\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, '16 KiB'],
    [
      'a bad chunk',
      `POST /v1/agents HTTP/1.1\r\n${host}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      'HTTP/1.1',
    ],
  ])('%s', async (_what, bytes, says) => {
    const answer = await sendBytes(api.url, bytes);
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    expect(head).toMatch(/^HTTP\/1\.1 400 /);
    expect(head.toLowerCase()).toContain('content-type: application/json');
    const envelope = JSON.parse(body) as ErrorEnvelope;
    expect(envelope).toMatchObject({ code: 3, details: expect.any(Array) });
    expect(envelope.message).toContain(says);
  });

  test('HTTP/1.0 needs no Host, and 100-continue is an expectation that is met', async () => {
    expect(await sendBytes(api.url, 'GET /healthz HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /);
    const continued = `GET /healthz HTTP/1.1\r\n${host}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`;
    expect(await sendBytes(api.url, continued)).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /);
  });
});

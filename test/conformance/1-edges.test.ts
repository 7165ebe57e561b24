import type { ErrorEnvelope } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { expectError } from '../support/expect-reply.ts';
import { sendBytes, sendRaw } from '../support/raw-requests.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';

let server: SharedServer;
let api: Api;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
});
afterAll(() => server.close());

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

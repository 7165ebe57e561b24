import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { type IncomingMessage, request as requestHttp, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it, vi } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import {
  apiKey,
  ask,
  eventStream,
  messages,
  openai,
  post,
  started,
  stream,
  testGateway,
  token,
} from '../../../../../test/support/test-gateway.ts';
import { ValueMask } from '../../lib/value-mask.ts';

const { upstream, usages, open } = testGateway();

/** A request in the body of another. */
const inner = 'GET /v1/files HTTP/1.1\r\nHost: x\r\n\r\n';

describe('what the tools of an agent send', () => {
  const mask = new ValueMask(['hidden-value', 'hidden"quote']);

  it('reaches the service without the values of secrets', async () => {
    const endpoint = await open({ mask });
    const call = {
      method: 'tools/call',
      params: { arguments: { question: 'hidden-value or hidden"quote?' } },
    };
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    for (const body of [JSON.stringify(call), JSON.stringify(call).replace('hidden-', '\\u0068idden-')])
      expect((await post(endpoint, '/mcp', headers, body)).body).toBe('{}');
    for (const { request, body } of upstream.seen) {
      expect(JSON.parse(body)).toEqual({
        method: 'tools/call',
        params: { arguments: { question: '*** or ***?' } },
      });
      expect(request.headers['content-length']).toBe(String(Buffer.byteLength(body)));
    }
    expect(upstream.seen).toHaveLength(2);
  });

  it('is masked as text if it is not JSON, and limited in size', async () => {
    const endpoint = await open({ mask });
    const headers = { authorization: `Bearer ${token}` };
    await post(endpoint, '/mcp', headers, '{"broken": hidden-value');
    expect(upstream.seen.map(({ body }) => body)).toEqual(['{"broken": ***']);
    expect((await post(endpoint, '/mcp', headers, 'x'.repeat(3 * 1024 * 1024))).status).toBe(413);
    expect(upstream.seen).toHaveLength(1);
  });

  it.each([
    ['values', `[${'0,'.repeat(100_000)}0]`],
    ['levels', '['.repeat(200)],
  ])('is refused before it is parsed if it has too many %s', async (_, body) => {
    const endpoint = await open({ mask });
    const answer = await post(endpoint, '/mcp', { authorization: `Bearer ${token}` }, body);
    expect(answer.status).toBe(413);
  });

  it('is streamed as it is if the run has no secrets', async () => {
    const endpoint = await open({ mask: new ValueMask() });
    await post(endpoint, '/mcp', { authorization: `Bearer ${token}` }, '{ "spaces": "stay" }');
    expect(upstream.seen.map(({ body }) => body)).toEqual(['{ "spaces": "stay" }']);
  });
});

describe('the credentials of a request', () => {
  it('is replaced on the way to anthropic: the token of the run by the key of the provider', async () => {
    const endpoint = await open();
    const headers = {
      authorization: `Bearer ${token}`,
      'x-api-key': token,
      'x-own': `has ${token} inside`,
      'anthropic-version': '2023-06-01',
      connection: 'keep-alive, x-hop',
      'x-hop': 'one hop only',
      'accept-encoding': 'br',
    };
    const path = '/anthropic/v1/messages?beta=true';
    expect((await post(endpoint, path, headers, JSON.stringify(messages))).body).toBe('{}');
    const [{ request, body }] = upstream.seen as [(typeof upstream.seen)[number]];
    expect(request.url).toBe('/v1/messages?beta=true');
    expect(body).toBe(JSON.stringify(messages));
    expect(request.headers).toMatchObject({
      'x-api-key': apiKey,
      'anthropic-version': '2023-06-01',
      'accept-encoding': 'identity',
      host: new URL(upstream.url).host,
    });
    expect(request.headers).not.toHaveProperty('x-hop');
    expect(JSON.stringify(request.rawHeaders)).not.toContain(token);
    expect(request.headers.authorization).toBeUndefined();
  });

  it('is replaced on the way to openai, whose URL ends in /v1', async () => {
    const endpoint = await open({ provider: openai });
    await ask(endpoint, '/openai/v1/responses');
    const [{ request }] = upstream.seen as [(typeof upstream.seen)[number]];
    expect(request.url).toBe('/v1/responses');
    expect(request.headers.authorization).toBe(`Bearer ${apiKey}`);
  });

  it('is never returned, not even in the text of an error', async () => {
    const endpoint = await open({ provider: openai });
    upstream.answer = (_request, response) =>
      response.writeHead(401, { 'content-type': 'application/json', 'set-cookie': 'a=b' }).end(
        JSON.stringify({
          error: { message: `Incorrect API key provided: sk-ant-a********6789. ${apiKey}` },
        }),
      );
    const response = await ask(endpoint, '/openai/v1/responses');
    expect(response.status).toBe(401);
    expect(await response.json()).toEqual({ error: { message: 'Incorrect API key provided: ***. ***' } });
    expect(response.headers.get('set-cookie')).toBeNull();
    expect(JSON.stringify(await endpoint.failure)).not.toContain('6789');
  });

  it.each([
    ['none', {}],
    ['a wrong one', { authorization: `Bearer ${token}x` }],
    ['another scheme', { authorization: `Digest ${token}` }],
  ])('are required: with %s nothing is forwarded', async (_what, headers) => {
    const git = vi.fn();
    const endpoint = await open({ git });
    for (const path of ['/anthropic/v1/messages', '/openai/v1/responses', '/mcp', '/git/0/info/refs', '/']) {
      expect((await ask(endpoint, path, { headers })).status).toBe(401);
    }
    expect(upstream.seen).toEqual([]);
    expect(git).not.toHaveBeenCalled();
  });

  it('may be a bearer token, an API key, or the password of git', async () => {
    const git = vi.fn(
      (_request: IncomingMessage, response: ServerResponse, path: string) => void response.end(path),
    );
    const endpoint = await open({ git });
    for (const headers of [
      { authorization: `bearer ${token}` },
      { 'x-api-key': token },
      { authorization: `Basic ${Buffer.from(`muster:${token}`).toString('base64')}` },
    ]) {
      const response = await ask(endpoint, '/git/0/info/refs?service=git-upload-pack', { headers });
      expect(await response.text()).toBe('/git/0/info/refs?service=git-upload-pack');
    }
    const challenged = await ask(endpoint, '/git/0/info/refs', { headers: {} });
    expect(challenged.headers.get('www-authenticate')).toContain('Basic');
  });
});

describe('a request', () => {
  it('is forwarded as one request, whatever its body looks like', async () => {
    const endpoint = await open();
    const socket = connect(endpoint.port ?? 0, '127.0.0.1');
    socket.write(
      `GET /anthropic/v1/models HTTP/1.1\r\nHost: x\r\nx-api-key: ${token}\r\nTransfer-Encoding: chunked\r\n\r\n` +
        `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`,
    );
    await once(socket, 'data');
    socket.destroy();
    expect(upstream.seen.map(({ request, body }) => [request.url, body])).toEqual([['/v1/models', '']]);
  });

  it.each([
    ['/anthropic/v1/models', ''],
    ['/mcp', inner],
  ])('to %s is forwarded as one request, though `connection` names its length', async (path, passed) => {
    const endpoint = await open();
    const socket = connect(endpoint.port ?? 0, '127.0.0.1');
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nConnection: content-length\r\n` +
        `Content-Length: ${inner.length}\r\n\r\n${inner}`,
    );
    await once(socket, 'data');
    socket.destroy();
    expect(upstream.seen.map(({ body }) => body)).toEqual([passed]);
  });

  it('is refused while too many others are in progress', async () => {
    const held: ServerResponse[] = [];
    upstream.answer = (_request, response) => void held.push(response);
    const endpoint = await open();
    const socket = connect(endpoint.port ?? 0, '127.0.0.1');
    socket.write(`GET /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`.repeat(128));
    await eventually(() => expect(held).toHaveLength(128));
    const refused = await ask(endpoint, '/anthropic/v1/messages');
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
    socket.destroy();
    await eventually(async () => {
      upstream.answer = (_request, response) => response.end('{}');
      expect((await ask(endpoint, '/anthropic/v1/messages')).status).toBe(200);
    });
  });
});

describe('the tools of the agent', () => {
  it("are at the service, with the run's token, streamed both ways", async () => {
    let finish = () => {};
    upstream.answer = (_request, response) => {
      response.writeHead(200, { ...eventStream, 'mcp-session-id': 'abc' }).write('data: 1\n\n');
      finish = () => response.end('data: 2\n\n');
    };
    const endpoint = await open();
    const response = await ask(endpoint, '/mcp', {
      headers: { 'x-api-key': token, accept: 'text/event-stream' },
    });
    expect(response.headers.get('mcp-session-id')).toBe('abc');
    const [{ request, body }] = upstream.seen as [(typeof upstream.seen)[number]];
    expect([request.url, request.headers.authorization, body]).toEqual(['/mcp', `Bearer ${token}`, '{}']);
    expect(request.headers['x-api-key']).toBeUndefined();
    const reader = response.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('data: 1\n\n');
    finish();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('data: 2\n\n');
  });

  it('are at no other path', async () => {
    const endpoint = await open();
    expect((await ask(endpoint, '/mcp/other')).status).toBe(404);
    expect((await ask(endpoint, '/v1/agent/kill')).status).toBe(404);
    expect(upstream.seen).toEqual([]);
  });
});

describe('an endpoint', () => {
  it('that closes ends its requests, reports their usage, and accepts no more', async () => {
    upstream.answer = (_request, response) => {
      response.writeHead(200, eventStream).write(stream(started('claude-opus-4-8')));
    };
    const endpoint = await open();
    const { port } = endpoint;
    const response = await ask(endpoint, '/anthropic/v1/messages');
    await response.body?.getReader().read();
    const closed = endpoint.close();
    expect(usages).toHaveLength(1);
    await closed;
    await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow();
    await endpoint.close();
    expect(usages).toHaveLength(1);
  });

  it('listens on a socket, also where an old socket file exists', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'muster-endpoint-'));
    const socketPath = join(folder, 'gateway');
    for (let run = 0; run < 2; run++) {
      const endpoint = await open({ listenAt: { socketPath } });
      expect(endpoint.port).toBeUndefined();
      const call = requestHttp({ socketPath, path: '/anthropic/v1/models', headers: { 'x-api-key': token } });
      call.end();
      const [response] = (await once(call, 'response')) as [IncomingMessage];
      expect(await text(response)).toBe('{}');
      if (run === 1) await endpoint.close();
    }
    expect(existsSync(socketPath)).toBe(false);
    await rm(folder, { recursive: true });
  });

  it('accepts only the token of its own run', async () => {
    await open();
    const other = await open({ token: `${token}2` });
    expect((await ask(other, '/anthropic/v1/messages')).status).toBe(401);
  });
});

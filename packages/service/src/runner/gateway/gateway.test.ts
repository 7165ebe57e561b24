import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import {
  createServer,
  type IncomingMessage,
  request as requestHttp,
  type Server,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import type { ReportItem } from '@muster/sdk/contract';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { eventually } from '../../../../../test/support/async.ts';
import type { ProviderAccess, Usage } from '../../harness/harness.ts';
import { silentLog } from '../log.ts';
import {
  type EndpointOptions,
  Gateway,
  type GatewayLimits,
  type GatewayOptions,
  type OpenEndpoint,
} from './gateway.ts';
import { readPrices } from './prices.ts';

const token = 'mst_run.0123456789abcdef0123456789abcdef';
const apiKey = 'sk-ant-api03-theRealKey-6789';
const prices = readPrices();
const anthropic: ProviderAccess = { name: 'anthropic', models: ['claude-opus-4-8', 'claude-next'] };
const openai: ProviderAccess = { name: 'openai', models: ['gpt-5.5'] };

/** A request of its own, in the body of another. */
const inner = 'GET /v1/files HTTP/1.1\r\nHost: x\r\n\r\n';

const messages = { model: 'claude-opus-4-8', messages: [{ role: 'user', content: 'Hello' }] };
const responses = { model: 'gpt-5.5', input: 'Hello', store: false };

/** Whoever is behind the gateway: it answers as the test says, and keeps what it was asked. */
class Upstream {
  readonly seen: { request: IncomingMessage; body: string }[] = [];
  answer: (request: IncomingMessage, response: ServerResponse) => void = (_request, response) =>
    response.end('{}');
  url = '';
  readonly #server: Server = createServer(async (request, response) => {
    const body = await text(request).catch(() => '(cut)');
    this.seen.push({ request, body });
    this.answer(request, response);
  });

  async start(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }
}

let upstream: Upstream;
let endpoints: OpenEndpoint[];
let usages: Usage[];
let items: ReportItem[];
let actions: string[];

beforeEach(async () => {
  upstream = new Upstream();
  await upstream.start();
  endpoints = [];
  usages = [];
  items = [];
  actions = [];
});

afterEach(async () => {
  for (const endpoint of endpoints) await endpoint.close();
  await upstream.stop();
});

const gatewayWith = (options: Partial<GatewayOptions>): Gateway =>
  new Gateway({
    providers: { anthropic: { url: upstream.url, apiKey }, openai: { url: `${upstream.url}/v1`, apiKey } },
    serviceUrl: upstream.url,
    prices,
    log: silentLog,
    ...options,
  });

async function openAt(gateway: Gateway, run: Partial<EndpointOptions> = {}): Promise<OpenEndpoint> {
  const listener = {
    usage: (usage: Usage) => usages.push(usage),
    item: (item: ReportItem) => items.push(item),
    action: (action: string) => actions.push(action),
  };
  const endpoint = await gateway.open({
    token,
    listenAt: { port: 0 },
    allowHosts: undefined,
    provider: anthropic,
    listener,
    ...run,
  });
  endpoints.push(endpoint);
  return endpoint;
}

const open = (
  run: Partial<EndpointOptions> = {},
  options: Partial<GatewayOptions> = {},
): Promise<OpenEndpoint> => openAt(gatewayWith(options), run);

/** Two runs of one runner. */
async function openTwo(limits: Partial<GatewayLimits> = {}): Promise<[OpenEndpoint, OpenEndpoint]> {
  const gateway = gatewayWith({ limits });
  return [await openAt(gateway), await openAt(gateway)];
}

const ask = (endpoint: OpenEndpoint, path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`http://127.0.0.1:${endpoint.port}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: path.includes('anthropic')
      ? JSON.stringify(messages)
      : path.includes('openai')
        ? JSON.stringify(responses)
        : '{}',
    ...init,
  } as RequestInit);

const stream = (...events: { type: string }[]): string =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');

const started = (model: string, input = 100) => ({
  type: 'message_start',
  message: { model, usage: { input_tokens: input, cache_read_input_tokens: 900, output_tokens: 1 } },
});
const ended = [{ type: 'message_delta', usage: { output_tokens: 1_000 } }, { type: 'message_stop' }];
const eventStream = { 'content-type': 'text/event-stream' };

describe("the provider's key and the run's token", () => {
  it('are exchanged on the way to anthropic', async () => {
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
    const call = requestHttp({
      host: '127.0.0.1',
      port: endpoint.port,
      method: 'POST',
      path: '/anthropic/v1/messages?beta=true',
      headers,
    });
    call.end(JSON.stringify(messages));
    const [response] = (await once(call, 'response')) as [IncomingMessage];
    expect(await text(response)).toBe('{}');
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

  it('are exchanged on the way to openai, whose address ends in /v1', async () => {
    const endpoint = await open({ provider: openai });
    await ask(endpoint, '/openai/v1/responses');
    const [{ request }] = upstream.seen as [(typeof upstream.seen)[number]];
    expect(request.url).toBe('/v1/responses');
    expect(request.headers.authorization).toBe(`Bearer ${apiKey}`);
  });

  it('never come back, not even in the words of an error', async () => {
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
    expect(JSON.stringify(await endpoint.trouble)).not.toContain('6789');
  });

  it.each([
    ['none', {}],
    ['a wrong one', { authorization: `Bearer ${token}x` }],
    ['another scheme', { authorization: `Digest ${token}` }],
  ])('must be shown: with %s nothing passes', async (_what, headers) => {
    const git = vi.fn();
    const endpoint = await open({ git });
    for (const path of ['/anthropic/v1/messages', '/openai/v1/responses', '/mcp', '/git/0/info/refs', '/']) {
      expect((await ask(endpoint, path, { headers })).status).toBe(401);
    }
    expect(upstream.seen).toEqual([]);
    expect(git).not.toHaveBeenCalled();
  });

  it('may be shown as a bearer, as an API key, or as the password of git', async () => {
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

describe('what a provider is asked', () => {
  it('is only what a harness needs', async () => {
    const endpoint = await open();
    for (const path of [
      '/anthropic/v1/files',
      '/anthropic/v1/messages/batches',
      '/anthropic/v1/messages/../files',
      '/openai/v1/files',
      '/anthropic',
    ]) {
      const call = requestHttp({
        host: '127.0.0.1',
        port: endpoint.port,
        method: 'POST',
        path,
        headers: { 'x-api-key': token },
      });
      call.end();
      const [response] = (await once(call, 'response')) as [IncomingMessage];
      expect(response.statusCode).toBe(404);
      response.resume();
    }
    expect(upstream.seen).toEqual([]);
  });

  it('is nothing when the runner has no key of it, in the form that its clients know', async () => {
    const anthropicEndpoint = await open({}, { providers: {} });
    const refused = await ask(anthropicEndpoint, '/anthropic/v1/messages');
    expect(refused.status).toBe(404);
    expect(await refused.json()).toMatchObject({ type: 'error', error: { type: 'not_found_error' } });
    const openaiEndpoint = await open({ provider: openai }, { providers: {} });
    const refusedToo = await ask(openaiEndpoint, '/openai/v1/responses');
    expect(refusedToo.status).toBe(404);
    expect(await refusedToo.json()).toMatchObject({ error: { type: 'invalid_request_error' } });
  });

  it('is one request, whatever stands behind it', async () => {
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
  ])('is one request at %s, though its length is said to be of this hop only', async (path, passed) => {
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

  it('is refused while very many others are under way', async () => {
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

  it('is nothing that it would do by itself: such a request does not leave the gateway', async () => {
    const endpoint = await open();
    const tools = [{ type: 'web_search_20250305', name: 'web_search' }];
    const body = JSON.stringify({ ...messages, tools });
    const response = await ask(endpoint, '/anthropic/v1/messages', { body });
    expect(response.status).toBe(400);
    expect(JSON.stringify(await response.json())).toContain('web_search_20250305');
    expect(upstream.seen).toEqual([]);
  });

  it('fails with 502 when it is not there', async () => {
    const endpoint = await open({}, { providers: { anthropic: { url: 'http://127.0.0.1:1', apiKey } } });
    const response = await ask(endpoint, '/anthropic/v1/messages', {
      body: JSON.stringify({ ...messages, system: 'x'.repeat(2_000_000) }),
    });
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({
      error: { message: "The runner can't reach anthropic at 127.0.0.1:1: ECONNREFUSED" },
    });
  });
});

describe('what a run may say to a provider', () => {
  it('goes to the provider of its own backend only, in the form that the other one knows', async () => {
    const endpoint = await open();
    const refused = await ask(endpoint, '/openai/v1/responses');
    expect(refused.status).toBe(404);
    expect(await refused.json()).toMatchObject({
      error: { message: 'This run has no access to openai: its agent uses anthropic' },
    });
    expect((await ask(endpoint, '/openai/v1/models', { method: 'GET', body: null })).status).toBe(404);
    expect(upstream.seen).toEqual([]);
  });

  it('goes nowhere when the run is rehearsed', async () => {
    const endpoint = await open({ provider: undefined });
    for (const path of ['/anthropic/v1/messages', '/openai/v1/responses']) {
      const refused = await ask(endpoint, path);
      expect(refused.status).toBe(404);
      expect(await refused.text()).toContain('it is rehearsed');
    }
    expect(upstream.seen).toEqual([]);
  });

  it('names a model of the run: another is refused, with one warning for each and not too many', async () => {
    const endpoint = await open();
    const asking = (model: string, path: string) =>
      ask(endpoint, path, { body: JSON.stringify({ ...messages, model }) });
    for (const path of ['/anthropic/v1/messages', '/anthropic/v1/messages/count_tokens']) {
      const refused = await asking('claude-dear', path);
      expect(refused.status).toBe(403);
      expect(await refused.json()).toMatchObject({
        error: { type: 'permission_error', message: expect.stringContaining('claude-opus-4-8, claude-next') },
      });
    }
    expect(items).toMatchObject([{ type: 'WARNING', data: { model: 'claude-dear' } }]);
    for (let i = 0; i < 25; i++) await asking(`claude-${i}`, '/anthropic/v1/messages');
    expect(items).toHaveLength(20);
    const fallbacks = [{ model: 'claude-dear' }];
    const body = JSON.stringify({ ...messages, fallbacks });
    expect((await ask(endpoint, '/anthropic/v1/messages', { body })).status).toBe(403);
    expect(upstream.seen).toEqual([]);
    expect((await asking('claude-next', '/anthropic/v1/messages')).status).toBe(200);
  });

  it('says that the run waits for the model, and only of what a model answers', async () => {
    const endpoint = await open();
    await ask(endpoint, '/anthropic/v1/messages/count_tokens');
    expect(actions).toEqual([]);
    await ask(endpoint, '/anthropic/v1/messages');
    expect(actions).toEqual(['Waiting for the model']);
  });

  it('goes on as it was checked, not as it came', async () => {
    const endpoint = await open();
    const image = { type: 'image', source: { type: 'url', url: 'https://elsewhere.example' } };
    const hidden = JSON.stringify([{ role: 'user', content: [image] }]);
    const body = `{"messages":${hidden},"model":"claude-dear",  "messages":[],"model":"claude-opus-4-8"}`;
    expect((await ask(endpoint, '/anthropic/v1/messages', { body })).status).toBe(200);
    expect(upstream.seen.map((seen) => seen.body)).toEqual(['{"messages":[],"model":"claude-opus-4-8"}']);
  });

  it.each([
    ['an image by URL', { messages: [{ content: [{ type: 'image', source: { type: 'url', url: 'x' } }] }] }],
    ['a file', { messages: [{ content: [{ type: 'document', source: { type: 'file', file_id: 'x' } }] }] }],
    ['an unknown field', { conversation: 'c' }],
  ])('holds all that the model is to read: %s is refused', async (_, fields) => {
    const endpoint = await open();
    const body = JSON.stringify({ ...messages, ...fields });
    const refused = await ask(endpoint, '/anthropic/v1/messages', { body });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ error: { type: 'invalid_request_error' } });
    expect(upstream.seen).toEqual([]);
  });

  it('has the headers of its harness, and those of no account', async () => {
    const endpoint = await open({ provider: openai });
    const headers = {
      authorization: `Bearer ${token}`,
      'openai-organization': 'org-1',
      'openai-project': 'proj-1',
      'chatgpt-account-id': 'a',
      'x-forwarded-for': '1.2.3.4',
      'session-id': 's',
      originator: 'codex',
    };
    await ask(endpoint, '/openai/v1/responses?client_version=1&project=p', { headers });
    const [{ request }] = upstream.seen as [(typeof upstream.seen)[number]];
    expect(request.url).toBe('/v1/responses?client_version=1');
    expect(
      Object.keys(request.headers)
        .filter((name) => name in headers)
        .sort(),
    ).toEqual(['authorization', 'originator', 'session-id']);
  });

  it('asks for no feature that lets the provider fetch, store or run', async () => {
    const endpoint = await open();
    const beta = 'claude-code-20250219, files-api-2025-04-14,effort-2025-11-24,mcp-client-2025-11-20';
    const headers = { 'x-api-key': token, 'anthropic-beta': beta, 'anthropic-workspace-id': 'w' };
    await ask(endpoint, '/anthropic/v1/messages', { headers });
    await ask(endpoint, '/anthropic/v1/messages', {
      headers: { ...headers, 'anthropic-beta': 'skills-2025-10-02' },
    });
    expect(upstream.seen.map(({ request }) => request.headers['anthropic-beta'])).toEqual([
      'claude-code-20250219,effort-2025-11-24',
      undefined,
    ]);
    expect(upstream.seen[0]?.request.headers).not.toHaveProperty('anthropic-workspace-id');
  });

  it('is not compressed', async () => {
    const endpoint = await open();
    const headers = { 'x-api-key': token, 'content-encoding': 'gzip' };
    const refused = await ask(endpoint, '/anthropic/v1/messages', { headers, body: gzipSync('{}') });
    expect(refused.status).toBe(415);
    expect(await refused.text()).toContain('content-encoding');
  });
});

describe('the memory of the runner', () => {
  const mebibyte = 1024 * 1024;

  /** Says how much it is going to send, and sends nothing of it. */
  async function promise(endpoint: OpenEndpoint, bytes: number) {
    const socket = connect(endpoint.port ?? 0, '127.0.0.1');
    socket.on('error', () => {});
    const head = `POST /anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: ${token}\r\nContent-Length: ${bytes}\r\n\r\n`;
    await new Promise((resolve) => socket.write(head, resolve));
    return socket;
  }

  it('has so much room for one run: what it asks beyond that waits unread, and other runs are served', async () => {
    const [greedy, other] = await openTwo();
    const sockets = [await promise(greedy, 32 * mebibyte), await promise(greedy, 16 * mebibyte)];
    // Its connection comes after the two, so theirs are known when it is answered.
    expect((await ask(greedy, '/anthropic/v1/models', { method: 'GET', body: null })).status).toBe(200);
    const waiting = ask(greedy, '/anthropic/v1/messages');
    for (let i = 0; i < 3; i++) expect((await ask(other, '/anthropic/v1/messages')).status).toBe(200);
    expect(upstream.seen).toHaveLength(4);
    sockets[1]?.destroy();
    expect((await waiting).status).toBe(200);
    sockets[0]?.destroy();
  });

  it('has so much room for all runs', async () => {
    const [first, second] = await openTwo({ requestBytes: 32 * mebibyte });
    expect((await ask(second, '/anthropic/v1/messages')).status).toBe(200);
    const socket = await promise(first, 32 * mebibyte);
    const models = (endpoint: OpenEndpoint) =>
      ask(endpoint, '/anthropic/v1/models', { method: 'GET', body: null });
    expect((await models(first)).status).toBe(200);
    const waiting = ask(second, '/anthropic/v1/messages');
    for (let i = 0; i < 20; i++) expect((await models(second)).status).toBe(200);
    expect(upstream.seen.filter(({ request }) => request.method === 'POST')).toHaveLength(1);
    socket.destroy();
    expect((await waiting).status).toBe(200);
  });

  it('is given back by a client that is too slow, which is told so', async () => {
    const [slow] = await openTwo({ requestBytes: 32 * mebibyte, receiveMs: 100 });
    const socket = await promise(slow, 32 * mebibyte);
    socket.write('{"model":');
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1.1 408 /);
    expect(answer).toContain('timeout_error');
    expect((await ask(slow, '/anthropic/v1/messages')).status).toBe(200);
  });

  it.each(['with its length', 'in chunks'])('refuses a body that is too large, %s', async (how) => {
    const [endpoint] = await openTwo();
    const chunk = Buffer.alloc(mebibyte, ' ');
    const call = requestHttp({
      host: '127.0.0.1',
      port: endpoint.port,
      method: 'POST',
      path: '/anthropic/v1/messages',
      headers: {
        'x-api-key': token,
        ...(how === 'with its length' && { 'content-length': String(33 * mebibyte) }),
      },
    });
    call.on('error', () => {});
    for (let i = 0; i < 33; i++) call.write(chunk);
    call.end();
    const [response] = (await once(call, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(413);
    expect(await text(response)).toContain('request_too_large');
    expect((await ask(endpoint, '/anthropic/v1/messages')).status).toBe(200);
  });

  it('lets the largest body pass, in as many pieces as it comes', async () => {
    const [endpoint] = await openTwo();
    const body = JSON.stringify({ ...messages, system: 'ü'.repeat(15 * mebibyte) });
    expect((await ask(endpoint, '/anthropic/v1/messages', { body })).status).toBe(200);
    expect(upstream.seen[0]?.body === body).toBe(true);
  });

  it('has calls of one run up to a number, and then asks to wait', async () => {
    const held: ServerResponse[] = [];
    upstream.answer = (_request, response) => void held.push(response);
    const endpoint = await open();
    const calls = Array.from({ length: 32 }, () => ask(endpoint, '/anthropic/v1/messages'));
    await eventually(() => expect(held).toHaveLength(32));
    const refused = await ask(endpoint, '/anthropic/v1/messages');
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
    expect(await refused.json()).toMatchObject({ error: { type: 'rate_limit_error' } });
    for (const response of held) response.end('{}');
    await Promise.all(calls.map(async (call) => (await call).text()));
    upstream.answer = (_request, response) => void response.end('{}');
    expect((await ask(endpoint, '/anthropic/v1/messages')).status).toBe(200);
  });
});

describe('a stream', () => {
  it('passes as it comes: its first event arrives before its last is sent', async () => {
    let finish = () => {};
    upstream.answer = (_request, response) => {
      response.writeHead(200, eventStream).write(stream(started('claude-opus-4-8')));
      finish = () => response.end(stream(...ended));
    };
    const endpoint = await open();
    const response = await ask(endpoint, '/anthropic/v1/messages');
    const reader = response.body?.getReader();
    const first = await reader?.read();
    expect(Buffer.from(first?.value ?? []).toString()).toContain('message_start');
    expect(usages).toEqual([]);
    finish();
    let last = '';
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      last += Buffer.from(part.value).toString();
    }
    expect(last).toContain('message_stop');
    expect(usages).toEqual([
      { inputTokens: 1_000, cachedInputTokens: 900, outputTokens: 1_000, costUsd: expect.closeTo(0.02595) },
    ]);
  });

  it('of openai is metered too', async () => {
    const usage = { input_tokens: 1_000, input_tokens_details: { cached_tokens: 400 }, output_tokens: 10 };
    const completed = {
      type: 'response.completed',
      response: { model: 'gpt-5.5', service_tier: 'default', usage },
    };
    upstream.answer = (_request, response) => response.writeHead(200, eventStream).end(stream(completed));
    await (await ask(await open({ provider: openai }), '/openai/v1/responses')).text();
    expect(usages).toEqual([
      { inputTokens: 1_000, cachedInputTokens: 400, outputTokens: 10, costUsd: expect.closeTo(0.0035) },
    ]);
  });

  it('whose reader goes away is cut at the provider, and what it used is told once', async () => {
    const gone = new Promise<void>((resolve) => {
      upstream.answer = (_request, response) => {
        response.writeHead(200, eventStream).write(stream(started('claude-opus-4-8')));
        response.once('close', resolve);
      };
    });
    const cut = new AbortController();
    const response = await ask(await open(), '/anthropic/v1/messages', { signal: cut.signal });
    await response.body?.getReader().read();
    cut.abort();
    await gone;
    await eventually(() => expect(usages).toHaveLength(1));
    expect(usages[0]).toMatchObject({ inputTokens: 1_000, outputTokens: 1 });
  });

  it('that the provider cuts is cut here', async () => {
    upstream.answer = (_request, response) => {
      response
        .writeHead(200, eventStream)
        .write(stream(started('claude-opus-4-8')), () => response.destroy());
    };
    const response = await ask(await open(), '/anthropic/v1/messages');
    await expect(response.text()).rejects.toThrow();
    expect(usages).toHaveLength(1);
  });

  it('that says nothing for too long is cut on both sides, with a warning', async () => {
    const gone = new Promise<void>((resolve) => {
      upstream.answer = (_request, response) => {
        response.writeHead(200, eventStream).write(stream(started('claude-opus-4-8')));
        response.once('close', resolve);
      };
    });
    const response = await ask(await open({}, { stallMs: 50 }), '/anthropic/v1/messages');
    await expect(response.text()).rejects.toThrow();
    await gone;
    expect(items.map((item) => item.type)).toEqual(['WARNING']);
    expect(items[0]?.text).toContain('anthropic sent nothing for 0.05 s');
    expect(usages).toHaveLength(1);
  });

  it('that never begins is cut too', async () => {
    upstream.answer = () => {};
    await expect(
      ask(await open({ provider: openai }, { stallMs: 50 }), '/openai/v1/responses'),
    ).rejects.toThrow();
    expect(items).toHaveLength(1);
  });
});

describe('a model without a price', () => {
  it('costs nothing, and is flagged once', async () => {
    upstream.answer = (_request, response) =>
      response.writeHead(200, eventStream).end(stream(started('claude-next'), ...ended));
    const endpoint = await open();
    for (let request = 0; request < 3; request++)
      await (await ask(endpoint, '/anthropic/v1/messages')).text();
    expect(usages).toHaveLength(3);
    expect(usages[0]).toMatchObject({ outputTokens: 1_000, costUsd: 0 });
    expect(items).toEqual([
      expect.objectContaining({ type: 'WARNING', text: expect.stringMatching(/claude-next.*MUSTER_PRICES/) }),
    ]);
  });
});

describe('a provider that refuses', () => {
  const limited = { type: 'error', error: { type: 'rate_limit_error', message: 'too many' } };
  const limit = (response: ServerResponse, seconds: number) =>
    response
      .writeHead(429, { 'content-type': 'application/json', 'retry-after': String(seconds) })
      .end(JSON.stringify(limited));

  it('for long: the harness gets its answer, and the run hears until when', async () => {
    upstream.answer = (_request, response) => limit(response, 61);
    const endpoint = await open();
    const response = await ask(endpoint, '/anthropic/v1/messages');
    expect(response.status).toBe(429);
    expect(response.headers.get('retry-after')).toBe('61');
    expect(await response.json()).toEqual(limited);
    const trouble = await endpoint.trouble;
    expect(trouble).toMatchObject({ type: 'limit', until: expect.any(Date) });
    expect(trouble.message).toBe('anthropic answered 429 (rate_limit_error: too many)');
  });

  it('for a moment: it is asked again, and the harness gets only the last answer', async () => {
    upstream.answer = (_request, response) =>
      upstream.seen.length < 3 ? limit(response, 1) : response.end('{"content":[]}');
    const endpoint = await open();
    const response = await ask(endpoint, '/anthropic/v1/messages');
    expect([response.status, await response.text()]).toEqual([200, '{"content":[]}']);
    expect(upstream.seen.map(({ body }) => body)).toEqual(Array(3).fill(JSON.stringify(messages)));
    expect(actions).toContain('Rate limited by anthropic: retrying in 1 s');
    expect(actions.at(-1)).toBe('Waiting for the model');
    expect(items[0]?.text).toBe(
      'anthropic answered 429 (rate_limit_error: too many). The gateway retries in 1 s.',
    );
  });

  it('for moments that add up to too long', async () => {
    upstream.answer = (_request, response) => limit(response, 1);
    const endpoint = await open({}, { limitWaitMs: 1_500 });
    expect((await ask(endpoint, '/anthropic/v1/messages')).status).toBe(429);
    expect(upstream.seen).toHaveLength(2);
    expect(await endpoint.trouble).toMatchObject({ type: 'limit' });
  });

  it.each([
    ['the harness gives up', (_: OpenEndpoint, cut: AbortController) => cut.abort()],
    ['the endpoint closes', (endpoint: OpenEndpoint) => endpoint.close()],
  ])('for a moment that is not waited out: %s', async (_, end) => {
    upstream.answer = (_request, response) => limit(response, 30);
    const endpoint = await open();
    const cut = new AbortController();
    const asked = ask(endpoint, '/anthropic/v1/messages', { signal: cut.signal });
    await eventually(() => expect(actions).toContain('Rate limited by anthropic: retrying in 30 s'));
    await Promise.all([end(endpoint, cut), expect(asked).rejects.toThrow()]);
    await endpoint.close();
    expect(upstream.seen).toHaveLength(1);
  });

  it('inside a stream that began well', async () => {
    const failed = {
      type: 'response.failed',
      response: { error: { code: 'rate_limit_exceeded', message: 'slow' } },
    };
    upstream.answer = (_request, response) => response.writeHead(200, eventStream).end(stream(failed));
    const endpoint = await open({ provider: openai });
    await (await ask(endpoint, '/openai/v1/responses')).text();
    expect(await endpoint.trouble).toMatchObject({ type: 'limit' });
  });

  it('the key: the run hears what the operator is to mend, and where', async () => {
    upstream.answer = (_request, response) =>
      response.writeHead(401).end(JSON.stringify({ error: { type: 'authentication_error', message: 'no' } }));
    const endpoint = await open({}, { runnerName: 'north' });
    await (await ask(endpoint, '/anthropic/v1/messages')).text();
    const trouble = await endpoint.trouble;
    expect(trouble.type).toBe('refused');
    expect(trouble.message).toContain('ANTHROPIC_API_KEY of the runner north');
    const again = await ask(endpoint, '/anthropic/v1/messages');
    expect([again.status, await again.text()]).toEqual([
      401,
      expect.stringContaining('authentication_error'),
    ]);
    expect(upstream.seen).toHaveLength(1);
  });

  it('something that no model needs: that is no trouble', async () => {
    const endpoint = await open({ provider: openai });
    upstream.answer = (request, response) =>
      response.writeHead(request.method === 'GET' ? 403 : 401).end('{}');
    expect((await ask(endpoint, '/openai/v1/models', { method: 'GET', body: null })).status).toBe(403);
    expect((await ask(endpoint, '/openai/v1/responses')).status).toBe(401);
    expect((await endpoint.trouble).message).toContain('openai answered 401');
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

  it('are nowhere else', async () => {
    const endpoint = await open();
    expect((await ask(endpoint, '/mcp/other')).status).toBe(404);
    expect((await ask(endpoint, '/v1/agent/kill')).status).toBe(404);
    expect(upstream.seen).toEqual([]);
  });
});

describe('a endpoint', () => {
  it('that closes cuts what is under way, tells what it used, and lets nobody in', async () => {
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

  it('listens on a socket, where an older one was left', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'muster-endpoint-'));
    const socketPath = join(folder, 'endpoint');
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

  it('is one per run: the token of one opens no other', async () => {
    await open();
    const other = await open({ token: `${token}2` });
    expect((await ask(other, '/anthropic/v1/messages')).status).toBe(401);
  });
});

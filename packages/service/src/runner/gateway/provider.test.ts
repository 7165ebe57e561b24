import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import {
  ask,
  get,
  keyAccounts,
  messages,
  openai,
  post,
  testGateway,
  token,
} from '../../../../../test/support/test-gateway.ts';
import type { OpenEndpoint } from './gateway.ts';

const { upstream, items, actions, open, openTwo } = testGateway();

describe('a request to a provider', () => {
  it('is forwarded only for the calls that a harness needs', async () => {
    const endpoint = await open();
    for (const path of [
      '/anthropic/v1/files',
      '/anthropic/v1/messages/batches',
      '/anthropic/v1/messages/../files',
      '/openai/v1/files',
      '/anthropic',
    ]) {
      expect((await post(endpoint, path, { 'x-api-key': token })).status).toBe(404);
    }
    expect(upstream.seen).toEqual([]);
  });

  it('gets an error in the format of the provider when the runner has no key for it', async () => {
    const anthropicEndpoint = await open({}, { providers: {} });
    const refused = await ask(anthropicEndpoint, '/anthropic/v1/messages');
    expect(refused.status).toBe(404);
    expect(await refused.json()).toMatchObject({ type: 'error', error: { type: 'not_found_error' } });
    const openaiEndpoint = await open({ provider: openai }, { providers: {} });
    const refusedToo = await ask(openaiEndpoint, '/openai/v1/responses');
    expect(refusedToo.status).toBe(404);
    expect(await refusedToo.json()).toMatchObject({ error: { type: 'invalid_request_error' } });
  });

  it('is not forwarded when it names a tool that runs at the provider', async () => {
    const endpoint = await open();
    const tools = [{ type: 'web_search_20250305', name: 'web_search' }];
    const body = JSON.stringify({ ...messages, tools });
    const response = await ask(endpoint, '/anthropic/v1/messages', { body });
    expect(response.status).toBe(400);
    expect(JSON.stringify(await response.json())).toContain('web_search_20250305');
    expect(upstream.seen).toEqual([]);
  });

  it('fails with 502 when the provider is unreachable', async () => {
    const endpoint = await open({}, { providers: keyAccounts('http://127.0.0.1:1') });
    const response = await ask(endpoint, '/anthropic/v1/messages', {
      body: JSON.stringify({ ...messages, system: 'x'.repeat(2_000_000) }),
    });
    expect(response.status).toBe(502);
    expect(response.headers.get('server')).toBe('muster-gateway');
    expect(await response.json()).toMatchObject({
      error: {
        message: "Muster's gateway: The runner can't reach anthropic at 127.0.0.1:1: ECONNREFUSED",
      },
    });
  });

  it('is forwarded only to the provider of the run', async () => {
    const endpoint = await open();
    const refused = await ask(endpoint, '/openai/v1/responses');
    expect(refused.status).toBe(404);
    expect(await refused.json()).toMatchObject({
      error: { message: "Muster's gateway: This run has no access to openai: its agent uses anthropic" },
    });
    expect((await get(endpoint, '/openai/v1/models')).status).toBe(404);
    expect(upstream.seen).toEqual([]);
  });

  it('is not forwarded in a rehearsal', async () => {
    const endpoint = await open({ provider: undefined });
    for (const path of ['/anthropic/v1/messages', '/openai/v1/responses']) {
      const refused = await ask(endpoint, path);
      expect(refused.status).toBe(404);
      expect(await refused.text()).toContain('it is a rehearsal');
    }
    expect(upstream.seen).toEqual([]);
  });

  it('may name only the models of the run: others are refused, with a limited number of warnings', async () => {
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

  it('sets the action of the run when a model answers it', async () => {
    const endpoint = await open();
    await ask(endpoint, '/anthropic/v1/messages/count_tokens');
    expect(actions).toEqual([]);
    await ask(endpoint, '/anthropic/v1/messages');
    expect(actions).toEqual(['Waiting for the model']);
  });

  it('is forwarded as it was checked, not as it was sent', async () => {
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
  ])('with %s is refused', async (_, fields) => {
    const endpoint = await open();
    const body = JSON.stringify({ ...messages, ...fields });
    const refused = await ask(endpoint, '/anthropic/v1/messages', { body });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ error: { type: 'invalid_request_error' } });
    expect(upstream.seen).toEqual([]);
  });

  it('is forwarded with the headers of its harness, not with those of an account', async () => {
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

  it('is forwarded without features that let the provider fetch, store or run something', async () => {
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

  it('must not be compressed', async () => {
    const endpoint = await open();
    const headers = { 'x-api-key': token, 'content-encoding': 'gzip' };
    const refused = await ask(endpoint, '/anthropic/v1/messages', { headers, body: gzipSync('{}') });
    expect(refused.status).toBe(415);
    expect(await refused.text()).toContain('content-encoding');
  });
});

describe('requests in memory', () => {
  const mebibyte = 1024 * 1024;

  /** Sends the headers of a request of this size, and no body. */
  async function announce(endpoint: OpenEndpoint, bytes: number) {
    const socket = connect(endpoint.port ?? 0, '127.0.0.1');
    socket.on('error', () => {});
    const head = `POST /anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: ${token}\r\nContent-Length: ${bytes}\r\n\r\n`;
    await new Promise((resolve) => socket.write(head, resolve));
    return socket;
  }

  it('are limited for one run: more wait unread, while other runs are served', async () => {
    const [greedy, other] = await openTwo();
    const sockets = [await announce(greedy, 32 * mebibyte), await announce(greedy, 16 * mebibyte)];
    // The gateway has accepted the other two connections before this one.
    expect((await get(greedy, '/anthropic/v1/models')).status).toBe(200);
    const waiting = ask(greedy, '/anthropic/v1/messages');
    for (let i = 0; i < 3; i++) expect((await ask(other, '/anthropic/v1/messages')).status).toBe(200);
    expect(upstream.seen).toHaveLength(4);
    sockets[1]?.destroy();
    expect((await waiting).status).toBe(200);
    sockets[0]?.destroy();
  });

  it('are limited for all runs together', async () => {
    const [first, second] = await openTwo({ requestBytes: 32 * mebibyte });
    expect((await ask(second, '/anthropic/v1/messages')).status).toBe(200);
    const socket = await announce(first, 32 * mebibyte);
    const models = (endpoint: OpenEndpoint) => get(endpoint, '/anthropic/v1/models');
    expect((await models(first)).status).toBe(200);
    const waiting = ask(second, '/anthropic/v1/messages');
    for (let i = 0; i < 20; i++) expect((await models(second)).status).toBe(200);
    expect(upstream.seen.filter(({ request }) => request.method === 'POST')).toHaveLength(1);
    socket.destroy();
    expect((await waiting).status).toBe(200);
  });

  it('are dropped when the client is too slow', async () => {
    const [slow] = await openTwo({ requestBytes: 32 * mebibyte, receiveMs: 1_000 });
    const socket = await announce(slow, 32 * mebibyte);
    socket.write('{"model":');
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1.1 408 /);
    expect(answer).toContain('timeout_error');
    expect((await ask(slow, '/anthropic/v1/messages')).status).toBe(200);
  });

  it.each(['with its length', 'in chunks'])('are refused when they are too large, %s', async (how) => {
    const [endpoint] = await openTwo();
    const chunks = Array<Buffer>(33).fill(Buffer.alloc(mebibyte, ' '));
    const length = how === 'with its length' && { 'content-length': String(33 * mebibyte) };
    const headers = { 'x-api-key': token, ...length };
    const { status, body } = await post(endpoint, '/anthropic/v1/messages', headers, ...chunks);
    expect(status).toBe(413);
    expect(body).toContain('request_too_large');
    expect((await ask(endpoint, '/anthropic/v1/messages')).status).toBe(200);
  });

  it('may have the largest size', async () => {
    const [endpoint] = await openTwo();
    const body = JSON.stringify({ ...messages, system: 'ü'.repeat(15 * mebibyte) });
    expect((await ask(endpoint, '/anthropic/v1/messages', { body })).status).toBe(200);
    expect(upstream.seen[0]?.body === body).toBe(true);
  });

  it('are limited in number for one run', async () => {
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

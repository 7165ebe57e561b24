import { once } from 'node:events';
import { request as requestHttp } from 'node:http';
import { limits } from '@muster/sdk/contract';
import { describe, expect, it, vi } from 'vitest';
import { ask, eventStream, get, post, testGateway, token } from '../../../../../test/support/test-gateway.ts';
import type { RemoteMcpServer } from '../workspace/mcp-servers.ts';

const { upstream, items, open } = testGateway();

const key = 'the-key-of-the-server';
const howToAllow = 'the operator can allow it';

/** An endpoint with the server `team` at a path of the upstream. */
const openTeam = (server: Partial<RemoteMcpServer> = {}) => {
  const url = new URL(`${upstream.url}/team/mcp?a=b`);
  const headers = { Authorization: `Bearer ${key}`, 'X-Team': 'seven' };
  const remote = [{ name: 'team', url, headers, mayBeInner: true as const, ...server }];
  return open({ mcpServers: { remote, headerValues: [`Bearer ${key}`, key] } });
};

const credentials = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
const warnings = () => items.map(({ text }) => text);

describe('a remote MCP server', () => {
  it('gets the message with its headers, and no others than those of the protocol', async () => {
    const endpoint = await openTeam();
    upstream.answer = (_request, response) =>
      response
        .writeHead(200, {
          'content-type': 'application/json',
          'mcp-session-id': 's1',
          'set-cookie': 'a=b',
          'x-other': key,
        })
        .end('{"ok":true}');
    const headers = {
      ...credentials,
      cookie: 'c=d',
      'x-team': 'eight',
      'x-api-key': token,
      'mcp-session-id': 's1',
      'mcp-protocol-version': '2025-06-18',
      'mcp-name': `has ${token}`,
      'last-event-id': '7',
      'accept-encoding': 'gzip',
    };
    const answer = await ask(endpoint, '/mcp-servers/team?c=d', { headers, body: '{"id":1}' });
    expect(await answer.text()).toBe('{"ok":true}');
    expect(Object.fromEntries(answer.headers)).toMatchObject({ 'mcp-session-id': 's1' });
    for (const name of ['set-cookie', 'x-other']) expect(answer.headers.has(name)).toBe(false);
    const [{ request, body }] = upstream.seen as [(typeof upstream.seen)[number]];
    expect([request.method, request.url, body]).toEqual(['POST', '/team/mcp?a=b', '{"id":1}']);
    expect(request.headers).toMatchObject({
      authorization: `Bearer ${key}`,
      'x-team': 'seven',
      'mcp-session-id': 's1',
      'mcp-protocol-version': '2025-06-18',
      'last-event-id': '7',
      'accept-encoding': 'identity',
    });
    for (const name of ['cookie', 'x-api-key', 'mcp-name']) expect(request.headers).not.toHaveProperty(name);
  });

  it('needs the token of the run', async () => {
    const endpoint = await openTeam();
    expect((await post(endpoint, '/mcp-servers/team', {}, '{}')).status).toBe(401);
    expect(upstream.seen).toEqual([]);
  });

  it('streams events as they come, without its headers, also if one arrives in parts', async () => {
    const endpoint = await openTeam();
    let send: (text: string) => void = () => {};
    upstream.answer = (_request, response) => {
      response.writeHead(200, { ...eventStream, 'mcp-session-id': key });
      send = (text) => void response.write(text);
      send('data: äöü\n\n');
    };
    const answer = await get(endpoint, '/mcp-servers/team');
    expect(answer.headers.get('mcp-session-id')).toBe('***');
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    const next = async () => new TextDecoder().decode((await reader.read()).value);
    expect(await next()).toBe('data: äöü\n\n');
    send(`data: Bearer ${key.slice(0, 9)}`);
    send(`${key.slice(9)} and ${key}.\n\n`);
    let text = '';
    while (!text.endsWith('\n\n')) text += await next();
    expect(text).toBe('data: *** and ***.\n\n');
    const disconnected = once(upstream.seen[0]?.request.socket as NonNullable<object> as never, 'close');
    await endpoint.close();
    await disconnected;
  });

  it('is not asked again elsewhere after a redirect, and a refusal is reported once', async () => {
    const endpoint = await openTeam();
    upstream.answer = (_request, response) =>
      response.writeHead(307, { location: `http://other.example/?${key}` }).end();
    for (const _ of [1, 2]) {
      const answer = await ask(endpoint, '/mcp-servers/team');
      expect(answer.status).toBe(502);
      expect(await answer.text()).toContain('redirects to http://other.example (307), which is not followed');
    }
    expect(upstream.seen).toHaveLength(2);
    expect(warnings()).toEqual([
      'The MCP server team redirects to http://other.example (307), which is not followed; write the address to url.',
    ]);
  });

  it.each([
    [401, {}, 'does not accept the headers that the workspace has for it (401)'],
    [200, { 'content-encoding': 'gzip' }, 'answers with the encoding gzip'],
  ])('that answers %s with %j is unavailable', async (status, headers, problem) => {
    const endpoint = await openTeam();
    upstream.answer = (_request, response) =>
      response.writeHead(status, { 'www-authenticate': 'Bearer', ...headers }).end(key);
    const answer = await ask(endpoint, '/mcp-servers/team');
    expect(answer.status).toBe(502);
    expect(answer.headers.has('www-authenticate')).toBe(false);
    expect(await answer.text()).toContain(problem);
    expect(warnings().join()).toContain(problem);
  });

  it('that is not there is unavailable, and other errors of it are passed on', async () => {
    const unreachable = await openTeam({ url: new URL('http://127.0.0.1:9/mcp') });
    expect(await (await ask(unreachable, '/mcp-servers/team')).text()).toContain(
      "can't be reached: ECONNREFUSED",
    );
    const endpoint = await openTeam();
    upstream.answer = (_request, response) => response.writeHead(404).end(`no session ${key}`);
    const answer = await ask(endpoint, '/mcp-servers/team');
    expect([answer.status, await answer.text()]).toEqual([404, 'no session ***']);
    expect(warnings()).toEqual([expect.stringContaining('ECONNREFUSED')]);
  });

  it.each([
    'http://127.0.0.1',
    'http://[::1]',
    'http://[::ffff:10.0.0.1]',
    'http://localhost',
    'http://0x7f.1',
  ])('at the inner address %s is refused to other tenants', async (origin) => {
    const { port } = new URL(upstream.url);
    const endpoint = await openTeam({ url: new URL(`${origin}:${port}/`), mayBeInner: howToAllow });
    const answer = await ask(endpoint, '/mcp-servers/team');
    expect(answer.status).toBe(502);
    expect(await answer.text()).toMatch(/an address of an internal network; the operator can allow it/);
    expect(upstream.seen).toEqual([]);
  });
});

describe('a request to a remote MCP server', () => {
  it('is refused if it names no server, or has another method', async () => {
    const endpoint = await openTeam();
    for (const path of ['/mcp-servers', '/mcp-servers/', '/mcp-servers/other', '/mcp-servers/team/x']) {
      const answer = await ask(endpoint, path);
      expect([path, answer.status]).toEqual([path, 404]);
      expect(await answer.text()).toMatch(/MCP server .* not found/);
    }
    const answer = await ask(endpoint, '/mcp-servers/team', { method: 'PUT' });
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST, GET, DELETE']);
    expect(upstream.seen).toEqual([]);
  });

  it('is refused if it is too large, whatever its framing', async () => {
    const endpoint = await openTeam();
    const size = limits.mcpRequestBytes + 1;
    const declared = await post(endpoint, '/mcp-servers/team', {
      ...credentials,
      'content-length': size,
      connection: 'close',
    });
    expect(declared.status).toBe(413);
    const part = Buffer.alloc(1024 * 1024);
    const parts = Array<Buffer>(limits.mcpRequestBytes / part.length + 1).fill(part);
    const chunked = await post(endpoint, '/mcp-servers/team', credentials, ...parts);
    expect(chunked.status).toBe(413);
    await vi.waitUntil(() => upstream.seen.length === 1);
    expect(upstream.seen[0]?.body).toBe('(cut)');
  });

  it('is refused while too many others are open, which end with their clients', async () => {
    const endpoint = await openTeam();
    upstream.answer = (_request, response) => response.writeHead(200, eventStream).flushHeaders();
    const path = '/mcp-servers/team';
    const streams = await Promise.all(
      Array.from({ length: limits.mcpRequestsPerServer }, async () => {
        const options = { host: '127.0.0.1', port: endpoint.port, path, headers: credentials };
        const stream = requestHttp(options).end();
        stream.on('error', () => {});
        await once(stream, 'response');
        return stream;
      }),
    );
    const refused = await ask(endpoint, path);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
    for (const stream of streams) stream.destroy();
    upstream.answer = (_request, response) => response.end('{}');
    await vi.waitUntil(async () => (await ask(endpoint, path)).status === 200);
  });
});

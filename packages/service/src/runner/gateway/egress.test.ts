import { once } from 'node:events';
import { createServer, type IncomingMessage, request as requestHttp } from 'node:http';
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { testGateway } from '../../../../../test/support/test-gateway.ts';

const { items, open: openEndpoint } = testGateway();
const servers: Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

const open = async (allowHosts: readonly string[] | undefined): Promise<number> =>
  (await openEndpoint({ allowHosts })).port ?? 0;

async function listening(server: Server): Promise<number> {
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

const echo = (): Promise<number> => listening(createTcpServer((socket) => socket.pipe(socket)));

async function tunnel(proxy: number, authority: string): Promise<{ socket: Socket; head: string }> {
  const socket = connect(proxy, '127.0.0.1');
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
  const [head] = (await once(socket, 'data')) as [Buffer];
  return { socket, head: head.toString() };
}

async function get(proxy: number, uri: string): Promise<{ status: number | undefined; body: string }> {
  const call = requestHttp({
    host: '127.0.0.1',
    port: proxy,
    path: uri,
    headers: { host: 'other', 'proxy-connection': 'close' },
  });
  call.end();
  const [response] = (await once(call, 'response')) as [IncomingMessage];
  return { status: response.statusCode, body: await text(response) };
}

describe('a tunnel', () => {
  it('connects to an address that is listed itself', async () => {
    const port = await echo();
    const { socket, head } = await tunnel(await open([`127.0.0.1:${port}`]), `127.0.0.1:${port}`);
    expect(head).toMatch(/^HTTP\/1.1 200 /);
    socket.write('hello');
    expect(String((await once(socket, 'data'))[0])).toBe('hello');
    socket.end();
    await once(socket, 'close');
  });

  it('connects to localhost when that is listed', async () => {
    const port = await echo();
    const { socket, head } = await tunnel(await open([`LocalHost:${port}`]), `localhost:${port}`);
    expect(head).toMatch(/ 200 /);
    socket.destroy();
  });

  it('ends when the endpoint closes', async () => {
    const port = await echo();
    const endpoint = await openEndpoint({ allowHosts: [`127.0.0.1:${port}`] });
    const { socket } = await tunnel(endpoint.port ?? 0, `127.0.0.1:${port}`);
    socket.on('error', () => {});
    const closed = new Promise((resolve) => socket.once('close', resolve));
    await endpoint.close();
    await closed;
  });

  it('to a host that is not listed is refused, with one warning for each', async () => {
    const proxy = await open(['example.com', '*.example.org']);
    for (const authority of [
      'example.net:443',
      'example.net:443',
      'example.org:443',
      'example.com:8443',
      '10.0.0.1:443',
    ]) {
      const { head, socket } = await tunnel(proxy, authority);
      expect(head).toMatch(/^HTTP\/1.1 403 /);
      expect(head).toContain(authority);
      expect(head).toContain('`allowHosts`');
      socket.destroy();
    }
    expect(items.map((item) => [item.type, item.data?.host])).toEqual(
      ['example.net', 'example.org', 'example.com', '10.0.0.1'].map((host) => ['WARNING', host]),
    );
  });

  it('to a listed name is refused when the name points to a private address', async () => {
    const port = await echo();
    const { head, socket } = await tunnel(await open([`127.1:${port}`]), `127.1:${port}`);
    expect(head).toMatch(/ 403 /);
    expect(head).toContain('not a public address');
    expect(items).toHaveLength(1);
    socket.destroy();
  });

  it('to a host that does not listen gets 502', async () => {
    const { head, socket } = await tunnel(await open(['127.0.0.1:1']), '127.0.0.1:1');
    expect(head).toMatch(/ 502 /);
    expect(head).toContain('ECONNREFUSED');
    socket.destroy();
  });

  it('needs a host and a port', async () => {
    const { head, socket } = await tunnel(await open([]), 'example.com');
    expect(head).toMatch(/ 400 /);
    socket.destroy();
  });

  it('is refused when the endpoint is not a proxy', async () => {
    const proxy = await open(undefined);
    const { head, socket } = await tunnel(proxy, 'example.com:443');
    expect(head).toMatch(/ 403 /);
    socket.destroy();
    expect((await get(proxy, 'http://example.com/')).status).toBe(403);
  });

  it('may be reset before its answer', async () => {
    const proxy = await open(undefined);
    for (let i = 0; i < 20; i++) {
      const socket = connect(proxy, '127.0.0.1');
      await once(socket, 'connect');
      socket.write('CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n');
      socket.resetAndDestroy();
    }
    expect((await get(proxy, 'http://example.com/')).status).toBe(403);
  });
});

describe('a request for an absolute URI', () => {
  it('is forwarded to a listed host, without the headers for the proxy', async () => {
    const server = createServer((request, response) =>
      response.end(
        JSON.stringify([request.url, request.headers.host, request.headers['proxy-connection'] ?? null]),
      ),
    );
    const port = await listening(server);
    const { status, body } = await get(await open([`127.0.0.1:${port}`]), `http://127.0.0.1:${port}/a?b=c`);
    expect([status, JSON.parse(body)]).toEqual([200, ['/a?b=c', `127.0.0.1:${port}`, null]]);
  });

  it('gets 502 from a host that answers with an invalid status', async () => {
    const host = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end('HTTP/1.1 000 Zero\r\nContent-Length: 0\r\n\r\n'));
    });
    const port = await listening(host);
    const { status } = await get(await open([`127.0.0.1:${port}`]), `http://127.0.0.1:${port}/`);
    expect(status).toBe(502);
  });

  it('is refused otherwise', async () => {
    const proxy = await open(['example.com']);
    expect(await get(proxy, 'http://169.254.169.254/latest/meta-data')).toMatchObject({
      status: 403,
      body: expect.stringContaining('169.254.169.254'),
    });
    expect((await get(proxy, 'http://2130706433/')).body).toContain('127.0.0.1');
    expect((await get(proxy, 'https://example.com/')).status).toBe(400);
    expect((await get(proxy, 'nopath')).status).toBe(400);
  });
});

it('an invalid entry of allowHosts is reported', async () => {
  await open(['https://example.com/', '*', 'exa mple', 'example.com', '[::1]:80', '::1', '*.10.0.0.1x']);
  expect(items.map((item) => item.text?.match(/"(.*)"/)?.[1])).toEqual([
    'https://example.com/',
    '*',
    'exa mple',
  ]);
});

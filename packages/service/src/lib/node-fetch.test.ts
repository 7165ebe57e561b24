import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { nodeFetch } from './node-fetch.ts';

let server: Server;
let url: string;
let answer: (response: ServerResponse, body: string) => void;

beforeAll(async () => {
  server = createServer(async (request, response) => answer(response, await text(request))).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

it('sends method, headers and body, and returns status, headers and text', async () => {
  answer = (response, body) => response.writeHead(409, { 'x-one': '1' }).end(`got ${body}`);
  const reply = await nodeFetch(url, { method: 'POST', headers: { 'x-two': '2' }, body: 'grüße' });
  expect([reply.ok, reply.status, reply.headers.get('x-one'), reply.headers.get('x-no')]).toEqual([
    false,
    409,
    '1',
    null,
  ]);
  expect(await reply.text()).toBe('got grüße');
});

it('streams the body', async () => {
  let last: ServerResponse | undefined;
  answer = (response) => {
    last = response;
    response.write('one');
  };
  const reader = (await nodeFetch(url, {})).body?.getReader();
  expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('one');
  last?.end('two');
  expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('two');
});

it('rejects when the signal aborts, before and after the headers of the reply', async () => {
  const stop = new AbortController();
  answer = () => stop.abort();
  await expect(nodeFetch(url, { signal: stop.signal })).rejects.toThrow('fetch failed');
  const later = new AbortController();
  answer = (response) => response.write('one');
  const reply = await nodeFetch(url, { signal: later.signal });
  later.abort();
  await expect(reply.text()).rejects.toThrow();
});

it('rejects when the reply is incomplete', async () => {
  answer = (response) => response.write('one', () => response.destroy());
  await expect(nodeFetch(url, {}).then((reply) => reply.text())).rejects.toThrow();
});

it('rejects with the error code of a refused connection as its cause', async () => {
  const closed = createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address() as AddressInfo;
  closed.close();
  await once(closed, 'close');
  await expect(nodeFetch(`http://127.0.0.1:${port}`, {})).rejects.toMatchObject({
    cause: { code: 'ECONNREFUSED' },
  });
});

it('closes a connection that is idle, which a network may have dropped without a word', async () => {
  // The server never closes it.
  server.keepAliveTimeout = 0;
  answer = (response) => response.end('done');
  const accepted = once(server, 'connection');
  server.closeAllConnections();
  expect(await (await nodeFetch(url, {})).text()).toBe('done');
  const [socket] = (await accepted) as [Socket];
  if (!socket.destroyed) await once(socket, 'close');
});

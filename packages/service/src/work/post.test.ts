import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hostRuleOf } from '../lib/host-rules.ts';
import { post } from './post.ts';

let paths: string[] = [];
const server = createServer((request, reply) => {
  paths.push(`${request.method} ${request.url}`);
  if (request.url === '/hang') return;
  if (request.url === '/endless') {
    reply.writeHead(500);
    const more = (): void => void reply.write('x'.repeat(16_384), more);
    return more();
  }
  if (request.url === '/moved') return reply.writeHead(308, { location: '/elsewhere' }).end();
  if (request.url === '/later') return reply.writeHead(429, { 'retry-after': '120' }).end();
  reply.writeHead(204).end();
});
let url = '';
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const send = (path: string, timeoutMs = 10_000, isAllowed = true) => {
  paths = [];
  const rule = hostRuleOf(new URL(url).host);
  const innerHosts = rule && isAllowed ? [rule] : [];
  const { signal } = new AbortController();
  return post({ url: new URL(`${url}${path}`), headers: {}, body: '{}' }, { innerHosts, timeoutMs, signal });
};

test('a 2xx is enough', async () => {
  await send('/ok?token=1');
  expect(paths).toEqual(['POST /ok?token=1']);
});

test('an endpoint that does not answer fails after a time, without its path in the text', async () => {
  const host = new URL(url).host;
  await expect(send('/hang', 50)).rejects.toMatchObject({
    kind: 'unknown',
    message: `${host}: no complete reply within 0.05 s`,
  });
});

test('of an endless reply, only the beginning is read', async () => {
  await expect(send('/endless')).rejects.toMatchObject({ kind: 'unknown', status: 500 });
});

test('a redirect is not followed', async () => {
  await expect(send('/moved')).rejects.toMatchObject({ kind: 'refused', status: 308 });
  expect(paths).toEqual(['POST /moved']);
});

test('an endpoint may ask to wait', async () => {
  await expect(send('/later')).rejects.toMatchObject({ kind: 'limited', retryAfterMs: 120_000 });
});

test('an inner address is not called unless it is allowed', async () => {
  await expect(send('/ok', 10_000, false)).rejects.toMatchObject({ kind: 'refused', status: 0 });
  expect(paths).toEqual([]);
});

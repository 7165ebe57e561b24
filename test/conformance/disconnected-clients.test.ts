import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { Claim } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { expectOk } from '../support/expect-reply.ts';
import { FaultProxy } from '../support/fault-proxy.ts';
import { type Server, startServer } from '../support/server.ts';
import { openStream } from '../support/streams.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

/** Clients that stop reading, on a service with a short keep-alive interval. */
let server: Server;
let api: Api;
let tenant: TestTenant;
const cleanUps: (() => unknown)[] = [];

beforeAll(async () => {
  server = await startServer({
    runner: false,
    env: { MUSTER_KEEP_ALIVE_SECONDS: '1' },
  });
  api = apiOf(server);
  tenant = await newTestTenant(api);
  for (const path of ['quiet', 'worker', 'talkative', 'read']) await tenant.spawn(path);
  await sayMuch(await tenant.start('talkative'));
});
afterAll(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp();
  await server?.close();
});

/**
 * Sends more than the kernels of both sides buffer. A page has 4 MiB of text, which is about what the kernel of the service
 * takes; as JSON, line breaks are twice as long.
 */
async function sayMuch(claim: Claim): Promise<void> {
  const items = Array.from({ length: 2 }, () => ({ type: 'MESSAGE', text: '\n'.repeat(250_000) }));
  for (let reports = 0; reports < 24; reports += 1) await tenant.report(claim, { items });
  await tenant.report(claim, { items: [{ type: 'MESSAGE', text: 'the last' }] });
}

const agentId = (path: string) => ({ workspace: tenant.workspace, agent: [path] });

async function openReplies(): Promise<RegExpMatchArray | null> {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  return text.match(/^muster_long_replies_open\S* [1-9]\d*$/gm);
}

const noOpenReplies = () => until('no open replies', openReplies, (open) => open === null);

/** A request whose reply has started, on a connection that reads nothing more. */
async function unread(path: string, body: unknown): Promise<Socket> {
  const { hostname, port } = new URL(api.url);
  const socket = connect(Number(port), hostname);
  cleanUps.push(() => socket.destroy());
  socket.on('error', () => {});
  const text = JSON.stringify(body);
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${api.key}\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
  );
  await once(socket, 'readable');
  return socket;
}

/** Only Linux lets an unprivileged program drop the packets of its own connection. */
const canVanish = process.platform === 'linux';
if (!canVanish) process.stderr.write('\n*** TESTS OF CLIENTS THAT VANISH ARE SKIPPED: they need Linux\n\n');

/**
 * Sends a request, reads the beginning of the reply and drops every later packet, so that nothing is acknowledged any
 * more, not even a keep-alive probe. The connection stays open, as on a machine that lost its power.
 */
const script = `
use Socket;
socket(my $socket, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
connect($socket, sockaddr_in($ARGV[0], inet_aton('127.0.0.1'))) or die "connect: $!";
syswrite($socket, $ARGV[1]) or die "write: $!";
sysread($socket, my $beginning, 65536) or die "read: $!";
my $dropAll = pack('SCCL', 6, 0, 0, 0);
setsockopt($socket, SOL_SOCKET, 26, pack('S x![P] P', 1, $dropAll)) or die "filter: $!";
syswrite(STDOUT, "vanished");
sleep;
`;

/** Resolves when the client drops all packets. */
async function vanishingClient(api: Api, path: string, body: unknown): Promise<ChildProcess> {
  const text = JSON.stringify(body);
  const request = [
    `POST ${path} HTTP/1.1`,
    'Host: localhost',
    `Authorization: Bearer ${api.key}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(text)}`,
    '',
    text,
  ].join('\r\n');
  const { port } = new URL(api.url);
  const client = spawn('perl', ['-e', script, port, request], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(client.stdout, 'data');
  return client;
}

/** Every client is disconnected at the end, so the clients of all tests are connected at the same time. */
describe.concurrent('a client', () => {
  test('that reads keeps its wait and its stream, and gets a few bytes in each interval', async () => {
    const headers = { authorization: `Bearer ${api.key}`, 'content-type': 'application/json' };
    const cut = new AbortController();
    cleanUps.push(() => cut.abort());
    const body = JSON.stringify({ agentId: agentId('read') });
    const seen = { wait: '', stream: '' };
    const read = async (what: keyof typeof seen, path: string) => {
      const request = { method: 'POST', headers, body, signal: cut.signal };
      const response = await fetch(`${api.url}${path}`, request);
      const decoder = new TextDecoder();
      for await (const chunk of response.body ?? [])
        seen[what] += decoder.decode(chunk as Uint8Array, { stream: true });
    };
    const wait = read('wait', '/v1/agent/wait');
    const stream = read('stream', '/v1/agent/timeline/stream');
    for (const reading of [wait, stream]) reading.catch(() => {});
    const beats = until(
      'some beats of both',
      async () => [seen.wait.length, seen.stream.split(': alive').length - 1],
      (counts) => counts.every((count) => count >= 3),
    );
    await Promise.race([beats, wait, stream]);
    expectOk(await api.post('/v1/agent/kill', { agentId: agentId('read') }));
    await wait;
    expect(seen.wait).toMatch(/^ {3,}\{.*"PHASE_CANCELED"/);
    cut.abort();
  });

  test('that stops reading loses its stream of an agent that sends a lot', async () => {
    await unread('/v1/agent/timeline/stream', { agentId: agentId('talkative') });
    await noOpenReplies();
  });

  test('loses its stream behind a proxy that stops reading', async () => {
    const proxy = await FaultProxy.listen({ port: Number(new URL(server.url).port) });
    cleanUps.push(() => proxy.close());
    const stream = await openStream({ ...api, url: proxy.url }, '/v1/agent/timeline/stream', {
      agentId: agentId('talkative'),
    });
    proxy.set('unread');
    cleanUps.push(() => stream.close());
    await noOpenReplies();
  });

  test.skipIf(!canVanish)(
    "that stops reading loses an ordinary reply that is larger than the kernels' buffers",
    async () => {
      const socket = await unread('/v1/agent/timeline', { agentId: agentId('talkative') });
      const hex = (port: number | string | undefined) =>
        Number(port).toString(16).toUpperCase().padStart(4, '0');
      const established = new RegExp(`:${hex(new URL(api.url).port)} \\w+:${hex(socket.localPort)} 01 `);
      const isOpen = () => established.test(readFileSync('/proc/net/tcp', 'latin1'));
      await until(
        'the end of the connection',
        async () => isOpen(),
        (seen) => !seen,
      );
    },
  );
});

describe.skipIf(!canVanish)(
  'a client that disappears without closing its connection',
  { concurrent: true },
  () => {
    const vanish = async (path: string, body: unknown) => {
      const client = await vanishingClient(api, path, body);
      cleanUps.push(() => client.kill('SIGKILL'));
    };

    test('loses its stream of an agent that sends nothing', async () => {
      await vanish('/v1/agent/timeline/stream', { agentId: agentId('quiet') });
      await noOpenReplies();
    });

    test('loses its stream of an agent that sends a little all the time', async () => {
      const claim = await tenant.start('worker');
      await vanish('/v1/agent/timeline/stream', { agentId: agentId('worker') });
      let isOver = false;
      const talk = (async () => {
        while (!isOver) {
          await tenant.report(claim, { items: [{ type: 'MESSAGE', text: 'still here' }] });
          // Several times per interval; as often as possible would keep both cores busy.
          await pause(100);
        }
      })();
      await noOpenReplies().finally(() => {
        isOver = true;
      });
      await talk;
    });

    test('loses its stream of a list', async () => {
      await vanish('/v1/agents/stream', { workspace: tenant.workspace });
      await noOpenReplies();
    });

    test('loses its wait', async () => {
      await vanish('/v1/agent/wait', { agentId: agentId('quiet') });
      await noOpenReplies();
    });
  },
);

test('an agent whose runner disappeared during its poll is PENDING for NO_RUNNER while the lease lasts, and starts when the runner is back', async () => {
  const t = await newTestTenant(api);
  await t.rested('a');
  const { runnerId, name, key } = t.runner;
  const poll = { runnerId, name, poll: 1000, rehearses: true, free: { real: 8, rehearsed: 8 }, runs: [] };
  const cut = new AbortController();
  const hanging = fetch(`${api.url}/v1/runner/poll`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...poll, waitMs: 20_000 }),
    signal: cut.signal,
  });
  await until('the poll', openReplies, (open) => open?.some((line) => line.includes('poll')) ?? false);
  cut.abort();
  await expect(hanging).rejects.toThrow();
  // Until the service has noticed, the poll would claim the run.
  await noOpenReplies();
  await t.queue('a', 'more');
  await until(
    'NO_RUNNER',
    () => t.phase('a'),
    (seen) => seen === 'PENDING/NO_RUNNER',
  );
  const { body } = await t.runner.poll({ ...poll, poll: 1001 });
  expect(body.claims).toHaveLength(1);
});

import { connect, type Socket } from 'node:net';
import { type AgentEntry, limits } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, agent, apiOf } from '../support/api.ts';
import { runConcurrently, until } from '../support/async.ts';
import { createKey, uniqueName, writeResource } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { type Server, startServer } from '../support/server.ts';
import { rateLimited, sharedServer } from '../support/shared-server.ts';
import { openStream } from '../support/streams.ts';

let server: Server;
let api: Api;

beforeAll(async () => {
  server = await startServer();
  api = apiOf(server);
  // The agents of this workspace wait for a runner.
  await writeResource(api, 'pool', 'without-runner', {});
  await writeResource(api, 'workspace', 'pending', { pool: 'without-runner' });
});

afterAll(() => server?.close());

async function pendingAgent() {
  const agentId = { workspace: 'pending', agent: [uniqueName('limit')] };
  expectOk(await api.post('/v1/agent/spawn', { agentId, description: 'x' }));
  return agentId;
}

describe('rate', () => {
  const answersOf = (caller: Api) => runConcurrently(100, 16, () => caller.get('/v1/whoami'));

  test('requests per key are not limited by default', async () => {
    expect((await answersOf(api)).map(({ status }) => status)).toEqual(new Array(100).fill(200));
  });

  test('MUSTER_RATE_LIMIT limits the requests per second of each key', async ({ onTestFinished }) => {
    const limited = await sharedServer(rateLimited);
    onTestFinished(limited.close);
    const owner = apiOf(limited);
    const { api: other } = await createKey(owner, {});
    const answers = await answersOf(owner);
    const passed = answers.filter(({ status }) => status === 200);
    const refused = answers.filter(({ status }) => status !== 200);
    expect(passed.length).toBeGreaterThanOrEqual(4);
    expect(refused.length).toBeGreaterThan(0);
    for (const answer of refused) {
      expectError(answer, 'RESOURCE_EXHAUSTED');
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    }
    expectOk(await other.get('/v1/whoami'));
    await until(
      'the limit passed',
      () => owner.get('/v1/whoami'),
      ({ status }) => status === 200,
    );
  });
});

describe('runs', () => {
  test('a runner of pool default takes 256 rehearsed runs; the next waits as POOL_FULL', async () => {
    await runConcurrently(257, 64, async (i) =>
      expectOk(
        await api.post('/v1/agent/spawn', {
          agentId: agent(`r${i}`),
          description: '!sleep 600',
          model: 'rehearsal-a',
        }),
      ),
    );
    const listed = async (filter: object) => {
      const body = { workspace: 'default', pageSize: 1000, ...filter };
      return expectOk(await api.post<{ entries: AgentEntry[] }>('/v1/agents', body)).entries;
    };
    // The whole list is long: it is read when most runs have probably started.
    await until(
      'one waiting',
      () => listed({ phases: ['PHASE_PENDING'] }),
      (seen) => seen.length <= 1,
      120_000,
    );
    const entries = await until(
      '256 working and one waiting',
      () => listed({}),
      (seen) => seen.filter(({ phaseReason }) => phaseReason === 'WORKING').length >= 256,
      120_000,
    );
    expect(entries.filter(({ phase }) => phase === 'PHASE_RUNNING')).toHaveLength(256);
    const waiting = entries.filter(({ phase }) => phase === 'PHASE_PENDING');
    expect(waiting.map(({ phaseReason }) => phaseReason)).toEqual(['POOL_FULL']);
  }, 180_000);
});

describe('open waits and streams', () => {
  /** Pipelined requests on one connection: the service handles all of them at the same time. */
  function pipelined(by: Api, path: string, body: unknown, count: number): Socket {
    const { hostname, port } = new URL(by.url);
    const socket = connect(Number(port), hostname);
    const text = JSON.stringify(body);
    const request = [
      `POST ${path} HTTP/1.1`,
      'Host: localhost',
      `Authorization: Bearer ${by.key}`,
      'Content-Type: application/json',
      `Content-Length: ${text.length}`,
      '',
      text,
    ].join('\r\n');
    socket.on('error', () => {});
    socket.write(request.repeat(count));
    return socket;
  }
  const openWaits = async (): Promise<number> => {
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    return Number(/^muster_long_replies_open\{kind="wait"\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
  };

  /** 10,000 waits cost ten seconds of processor time; `npm run test:deep` opens them. */
  const mostWaits = Number(process.env.MUSTER_OPEN_WAITS ?? 0);
  test.each([
    ['100 waits that watch 1,000 agents each', 100, 1_000],
    ...(mostWaits > 0 ? ([[`${mostWaits} waits`, mostWaits, 1]] as const) : []),
  ] as const)(
    'after %s, more are RESOURCE_EXHAUSTED, and other keys have their own limit',
    {
      timeout: 240_000,
    },
    async (_, waits, agents) => {
      const agentIds = await runConcurrently(agents, 50, pendingAgent);
      const [agentId] = agentIds;
      const { api: crowded } = await createKey(api, { role: 'admin' });
      const body = agents === 1 ? { agentId } : { agentIds };
      const sockets: Socket[] = [];
      try {
        for (let open = waits / 5; open <= waits; open += waits / 5) {
          sockets.push(
            pipelined(crowded, agents === 1 ? '/v1/agent/wait' : '/v1/agents/wait', body, waits / 5),
          );
          await expect.poll(openWaits, { timeout: 120_000 }).toBe(open);
        }
        for (const [path, body] of [
          ['/v1/agent/wait', { agentId, timeoutSeconds: 1 }],
          ['/v1/agent/timeline/stream', { agentId }],
          ['/v1/agents/stream', {}],
        ] as const) {
          const refused = await crowded.post(path, body);
          expectError(refused, 'RESOURCE_EXHAUSTED');
          expect(refused.headers.get('retry-after'), path).toBe('1');
        }
        expectOk(await crowded.post('/v1/agent/status', { agentId }));
        const other = await openStream(api, '/v1/agent/timeline/stream', { agentId });
        expect(other.status).toBe(200);
        other.close();
      } finally {
        for (const socket of sockets) socket.destroy();
      }
      await expect.poll(openWaits).toBe(0);
      const stream = await openStream(crowded, '/v1/agent/timeline/stream', { agentId });
      expect(stream.status).toBe(200);
      stream.close();
    },
  );
});

describe('large bodies', () => {
  test('of an account are in memory only up to a limit; small ones and other accounts are served', async () => {
    const { api: crowded } = await createKey(api, { role: 'member', account: 'crowded' });
    const { api: other } = await createKey(api, { role: 'member', account: 'other' });
    const { hostname, port } = new URL(server.url);
    const head = [
      'POST /v1/agent/spawn HTTP/1.1',
      'Host: localhost',
      `Authorization: Bearer ${crowded.key}`,
      'Content-Type: application/json',
      `Content-Length: ${limits.bodyBytes}`,
      '',
      '{',
    ].join('\r\n');
    const sockets: Socket[] = [];
    const sendPart = () => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => {});
      socket.write(head);
      sockets.push(socket);
    };
    for (let bytes = 0; bytes < limits.openBodyBytesPerAccount; bytes += limits.bodyBytes) sendPart();
    const spawn = (by: Api, bytes: number) =>
      by.post('/v1/agent/spawn', {
        agentId: { workspace: 'pending', agent: [uniqueName('large')] },
        description: 'x'.repeat(bytes),
      });
    const large = 100_000;
    const refused = await until(
      'the limit reached',
      () => {
        // One of them may have been refused because of the request below.
        sendPart();
        return spawn(crowded, large);
      },
      ({ status }) => status !== 200,
    );
    expectError(refused, 'UNAVAILABLE');
    expect(refused.headers.get('retry-after')).toBe('1');
    expectOk(await spawn(crowded, 10));
    expectOk(await spawn(other, large));
    for (const socket of sockets) socket.destroy();
    await until(
      'the account served again',
      () => spawn(crowded, large),
      ({ status }) => status === 200,
    );
  });
});

import { connect, type Socket } from 'node:net';
import type { AgentEntry } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, agent, apiOf } from '../support/api.ts';
import { runConcurrently, until } from '../support/async.ts';
import { createKey, uniqueName, writeResource } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { type Server, startServer } from '../support/server.ts';
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
  test('requests per key are not limited by default', async () => {
    const answers = await runConcurrently(500, 16, () => api.get('/v1/whoami'));
    expect(answers.map(({ status }) => status)).toEqual(new Array(500).fill(200));
  });

  test('MUSTER_RATE_LIMIT limits the requests per second of each key', async () => {
    const limited = await startServer({
      runner: false,
      databaseUrl: server.databaseUrl,
      env: { MUSTER_RATE_LIMIT: '10' },
    });
    try {
      const owner = apiOf({ url: limited.url, key: server.key });
      const { api: other } = await createKey(owner, {});
      const answers = await runConcurrently(100, 16, () => owner.get('/v1/whoami'));
      const passed = answers.filter(({ status }) => status === 200);
      const refused = answers.filter(({ status }) => status !== 200);
      expect(passed.length).toBeGreaterThanOrEqual(9);
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
    } finally {
      await limited.close();
    }
  });
});

describe('runs', () => {
  test('a runner of pool default takes 256 rehearsed runs; the next waits as POOL_FULL', async () => {
    await runConcurrently(257, 8, async (i) =>
      expectOk(
        await api.post('/v1/agent/spawn', {
          agentId: agent(`r${i}`),
          description: '!sleep 600',
          model: 'rehearsal-a',
        }),
      ),
    );
    const entries = await until(
      '256 working and one waiting',
      async () => {
        const body = { workspace: 'default', pageSize: 1000 };
        return expectOk(await api.post<{ entries: AgentEntry[] }>('/v1/agents', body)).entries;
      },
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

  test('a key has at most 10,000; more are RESOURCE_EXHAUSTED, and other keys have their own limit', {
    timeout: 240_000,
  }, async () => {
    const agentId = await pendingAgent();
    const { api: crowded } = await createKey(api, { role: 'admin' });
    const waits = pipelined(crowded, '/v1/agent/wait', { agentId }, 10_000);
    try {
      await expect.poll(openWaits, { timeout: 120_000, interval: 500 }).toBe(10_000);
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
      waits.destroy();
    }
    await expect.poll(openWaits).toBe(0);
    const stream = await openStream(crowded, '/v1/agent/timeline/stream', { agentId });
    expect(stream.status).toBe(200);
    stream.close();
  });

  test('watch at most 100,000 agents', async () => {
    const agentIds = Array(1000).fill(await pendingAgent());
    const { api: crowded } = await createKey(api, { role: 'admin' });
    const waits: Socket[] = [];
    try {
      for (let open = 20; open <= 100; open += 20) {
        waits.push(pipelined(crowded, '/v1/agents/wait', { agentIds }, 20));
        await expect.poll(openWaits).toBe(open);
      }
      expectError(await crowded.post('/v1/agent/wait', { agentId: agentIds[0] }), 'RESOURCE_EXHAUSTED');
    } finally {
      for (const socket of waits) socket.destroy();
    }
    await expect.poll(openWaits).toBe(0);
  });
});

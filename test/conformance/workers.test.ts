import { readFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { join } from 'node:path';
import type { Caller } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { hasPid } from '../../packages/service/src/store/embedded/processes.ts';
import { type Api, agent, apiOf, sendRequest, statusOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { bootstrapKey, runnerPid, type Server, startServer } from '../support/server.ts';
import { codeOf, cookieIn, signInWithCode, signInWithKey } from '../support/sign-in.ts';
import { connectToWorkers, twoLoggedWorkers, type WorkerConnection, workerPids } from '../support/workers.ts';
import { cleanUp, linkOf, newFolder, outputOf, refusedStart, start } from './server-starts.ts';

const perSecond = 20;

let server: Server;
let database: pg.Client;
let connections: [WorkerConnection, WorkerConnection];
/** The API at each of the two workers. */
let one: Api;
let two: Api;

beforeAll(async () => {
  const env = { ...twoLoggedWorkers, MUSTER_RATE_LIMIT: String(perSecond) };
  server = await startServer({ runner: false, env });
  database = new pg.Client({ connectionString: server.databaseUrl });
  await database.connect();
  connections = await connectToWorkers(server);
  [one, two] = [connections[0].api, connections[1].api];
});

afterAll(async () => {
  await database?.end();
  await server?.close();
});
afterEach(cleanUp);

const apis = (): [Api, Api] => [one, two];

describe('two workers', () => {
  test('are named once in the start-up text', () => {
    expect(outputOf(server).match(/^ {2}workers {3}2$/gm)).toHaveLength(1);
    expect(outputOf(server).match(/is ready at/g)).toHaveLength(1);
    expect([...workerPids(server).keys()].sort()).toEqual([1, 2]);
  });

  test('exchange sign-in codes, each good once', async () => {
    for (const [made, used] of [apis(), apis().reverse()] as [Api, Api][]) {
      const code = await codeOf(made);
      const signIn = (api: Api) =>
        api.post<{ caller: Caller }>('/v1/sign-in', { code }, { origin: server.url });
      expect(expectOk(await signIn(used)).caller.role).toBe('admin');
      for (const api of apis()) expectError(await signIn(api), 'UNAUTHENTICATED');
    }
    const link = new URL((await linkOf(server)) ?? '');
    expectOk(await signInWithCode(server.url, link.hash.replace('#code=', '')));
  });

  test('refuse a key from the reply to its revocation on, and a session from its end on', async () => {
    const { key, name } = await createKey(one, { role: 'member' });
    for (const api of apis()) expectOk(await api.as(key).get('/v1/whoami'));
    expectOk(await one.del(`/v1/catalog/token/${name}`));
    for (const api of apis()) expectError(await api.as(key).get('/v1/whoami'), 'UNAUTHENTICATED');

    const cookie = cookieIn(await signInWithKey(server.url, server.key));
    const send = async ({ agent }: WorkerConnection, path: string) => {
      const headers = { cookie, origin: server.url, 'content-type': 'application/json' };
      const reply = await sendRequest(`${server.url}${path}`, { method: 'POST', headers, body: '{}', agent });
      reply.resume();
      return reply.statusCode;
    };
    for (const each of connections) expect(await send(each, '/v1/agents')).toBe(200);
    expect(await send(connections[1], '/v1/sign-out')).toBe(200);
    for (const each of connections) expect(await send(each, '/v1/agents')).toBe(401);
  });

  test('apply the limit of requests per second together', async () => {
    const { key } = await createKey(one, { role: 'member' });
    const caller = apis().map((api) => api.as(key));
    const startMs = performance.now();
    let passed = 0;
    const burst = async () => {
      const replies = caller.flatMap((api) => Array.from({ length: 10 }, () => api.get('/v1/whoami')));
      for (const { status } of await Promise.all(replies)) if (status === 200) passed += 1;
      return passed;
    };
    await until('three seconds of replies', burst, (seen) => seen > 3 * perSecond);
    const seconds = (performance.now() - startMs) / 1_000;
    expect(passed).toBeLessThanOrEqual(2 * perSecond + Math.ceil(perSecond * seconds));
  });

  test('add up their metrics', async () => {
    const counted = async (api: Api) => {
      const text = await (await fetch(`${api.url}/metrics`)).text();
      const route = /^muster_http_request_seconds_count\{.*route="\/openapi.json".*\} (\d+)$/m.exec(text);
      return [Number(/^muster_workers (\d+)$/m.exec(text)?.[1]), Number(route?.[1] ?? 0)];
    };
    for (const api of [one, one, two]) expectOk(await api.get('/openapi.json'));
    // A reply may arrive before it is counted.
    await expect.poll(() => counted(one)).toEqual([2, 3]);
    expect(await counted(two)).toEqual([2, 3]);
    expect(await (await fetch(`${one.url}/metrics`)).text()).toMatch(
      /^muster_build_info\{version=".*"\} 1$/m,
    );
  });

  test('both know that the poll of a runner was cut', async () => {
    const { key } = await createKey(one, { role: 'runner', pool: 'default' });
    const connection = new Agent();
    const runner = new FakeRunner(apiOf({ url: server.url, key }, undefined, connection));
    const full = { free: { real: 0, rehearsed: 0 } };
    expectOk(await runner.poll(full));
    expectOk(await one.post('/v1/agent/spawn', { agentId: agent('waiting'), description: 'x' }));
    const { key: reader } = await createKey(one, { role: 'admin' });
    const reasons = () =>
      Promise.all(apis().map(async (api) => (await statusOf(api.as(reader), 'waiting')).phaseReason));
    const poll = runner.poll({ ...full, waitMs: 20_000 }).catch(() => {});
    const polls = () => database.query('SELECT polls::int FROM runners WHERE id = $1', [runner.runnerId]);
    await until('the second poll', polls, ({ rows }) => rows[0]?.polls === 2);
    expect(await reasons()).toEqual(['POOL_FULL', 'POOL_FULL']);
    connection.destroy();
    await poll;
    await until('NO_RUNNER', reasons, (seen) => seen.every((reason) => reason === 'NO_RUNNER'));
  });

  test('refuse a port that is in use with one line', async () => {
    const { port } = new URL(server.url);
    const env = { MUSTER_PORT: port, MUSTER_WORKERS: '2' };
    const outcome = await refusedStart({ databaseUrl: server.databaseUrl, env });
    expect(outcome).toMatch(
      new RegExp(`\\nmuster: MUSTER_PORT: port ${port} of 127.0.0.1 is in use[^\\n]*\\n$`),
    );
    expect(outcome.match(/in use/g)).toHaveLength(1);
  });
});

test('a signal to the first process, or its death, ends the workers, the runner and the embedded PostgreSQL', async () => {
  const data = newFolder();
  const env = {
    DATABASE_URL: undefined,
    MUSTER_BOOTSTRAP_KEY: bootstrapKey(),
    MUSTER_DATA: data,
    MUSTER_WORKERS: '2',
  };
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const embedded = await start({ databaseUrl: 'embedded', runner: true, env });
    const postmaster = readFileSync(join(data, 'postgres', 'data', 'postmaster.pid'), 'utf8').split('\n')[0];
    const pids = [...workerPids(embedded).values(), runnerPid(data) ?? 0, Number(postmaster)];
    expect(pids.filter(hasPid)).toHaveLength(4);
    expectOk(
      await apiOf(embedded).post('/v1/agent/spawn', { agentId: agent(signal), description: '!sleep 600' }),
    );
    await embedded.end(signal);
    if (signal === 'SIGTERM') expect([embedded.process.exitCode, pids.filter(hasPid)]).toEqual([0, []]);
    await until(
      'no process',
      async () => pids.filter(hasPid),
      (left) => left.length === 0,
    );
  }
});

import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AgentStatus, routes } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { version } from '../../packages/service/src/lib/version.ts';
import { type Api, agent, apiOf, statusOf, untilStatus } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, postResource, readResource } from '../support/catalog.ts';
import { freshDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { FaultProxy } from '../support/fault-proxy.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { bootstrapKey, program, type Server, type ServerOptions, startServer } from '../support/server.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { openRequest } from '../support/streams.ts';
import { inAnHour } from '../support/test-tenant.ts';
import { whoami } from './role-callers.ts';
import { cleanUp, filesOf, linkOf, mode, newFolder, outputOf, refusedStart, start } from './server-starts.ts';

let plain: SharedServer;

beforeAll(async () => {
  plain = await sharedServer({ runner: false });
});

afterAll(() => plain?.close());
afterEach(cleanUp);

describe('a service with its own PostgreSQL', () => {
  const data = mkdtempSync(join(tmpdir(), 'muster-start-'));
  const secret = join(data, 'secret');
  const embedded: ServerOptions = {
    env: {
      DATABASE_URL: undefined,
      MUSTER_DATA: data,
      MUSTER_LOG: 'info',
      MUSTER_SECRET: undefined,
      MUSTER_BOOTSTRAP_KEY: bootstrapKey(),
    },
  };
  let first: Server;

  beforeAll(async () => {
    writeFileSync(secret, 'a-secret-that-everyone-could-read-until-now');
    chmodSync(secret, 0o644);
    chmodSync(data, 0o775);
    first = await startServer({ runner: false, ...embedded });
  });

  afterAll(async () => {
    await first?.close();
    rmSync(data, { recursive: true, force: true });
  });

  test('says that it creates the database, which takes longest', () => {
    expect(outputOf(first)).toContain('creating the database');
  });

  test('makes a data folder and files that others could read private, and the log says so', () => {
    expect(mode(data)).toBe('700');
    // PostgreSQL runs as another user, with its own rules in its folder.
    const files = filesOf(data).filter((path) => path !== join(data, 'postgres', 'lock'));
    expect(files).toContain(secret);
    expect(files.map(mode)).toEqual(files.map(() => '600'));
    const printed = outputOf(first);
    expect(printed).toMatch(/"was":"775".*data folder permissions fixed/);
    expect(printed).toMatch(/"was":"644".*data folder permissions fixed/);
  });

  test('has everything as it was when restarted after SIGTERM and after SIGKILL, and is the only one in its data folder', async () => {
    const api = apiOf(first);
    const parent = agent('parent');
    expectOk(
      await api.post('/v1/agent/spawn', {
        agentId: parent,
        description: 'work',
        expectedOutput: 'done',
        tasks: [{ id: 'a', blocks: ['b'] }, { id: 'b' }],
        model: 'rehearsal-b',
        serviceTier: 'flex',
        outputSchema: '{"type":"object"}',
      }),
    );
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent('parent', 'child'), description: 'x' }));
    expectOk(await api.post('/v1/agent/queue', { agentId: parent, description: 'next', fastMode: true }));
    const later = { agentId: parent, description: 'later', deliverAt: inAnHour() };
    expectOk(await api.post('/v1/agent/queue', later));
    const { api: member, key } = await createKey(api, { role: 'member', account: 'mia' });
    expectOk(await member.post('/v1/agent/spawn', { agentId: agent('hers'), description: 'x' }));
    expectOk(await postResource(api, 'workspace', 'ours', { repos: ['https://example.org/r.git'] }));
    expectOk(await postResource(api, 'workspace', 'ours', { model: 'opus' }, { updateMask: 'model' }));

    const everything = async (caller: Api) => ({
      parent: withoutAddress(await statusOf(caller, 'parent')),
      child: withoutAddress(await statusOf(caller, 'parent', 'child')),
      timeline: (await caller.post('/v1/agent/timeline', { agentId: parent })).body,
      workspace: (await readResource(caller, 'workspace', 'ours')).body,
      history: (await caller.get('/v1/catalog/workspace/ours/history')).body,
      caller: await whoami(caller),
    });
    const before = await everything(api);
    let last = first;
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await last.end(signal);
      last = await start(embedded);
      expect(await everything(apiOf(last)), signal).toEqual(before);
      expect(outputOf(last)).not.toContain('creating the database');
      const again = apiOf({ url: last.url, key });
      expect(await whoami(again)).toMatchObject({ account: 'mia', role: 'member' });
      expect((await statusOf(again, 'hers')).agentId.account).toBe('mia');
    }
    expect(await refusedStart(embedded)).toContain(data);
    expect(await everything(apiOf(last))).toEqual(before);
  });

  /** The port differs between two starts. */
  const withoutAddress = ({ dashboardUrl, ...rest }: AgentStatus) => rest;
});

test.runIf(process.getuid?.() === 0)('a data folder of another user is refused', async () => {
  const data = newFolder();
  chownSync(data, 12_345, 12_345);
  expect(await refusedStart({ databaseUrl: plain.databaseUrl, env: { MUSTER_DATA: data } })).toMatch(
    /data folder .* belongs to uid 12345, and this process runs as uid 0.*MUSTER_DATA/,
  );
});

describe('pages of the process itself', () => {
  const get = (path: string) => sendRaw(plain.url, { method: 'GET', path });

  test('/healthz, /metrics and --version name the version', async () => {
    expect((await get('/healthz')).body).toEqual({ status: 'ok', version });
    expect(await (await fetch(`${plain.url}/metrics`)).text()).toMatch(
      new RegExp(`^muster_build_info\\{version="${version}"\\} 1$`, 'm'),
    );
    expect(execFileSync(process.execPath, [program, '--version'], { encoding: 'utf8' })).toBe(`${version}\n`);
  });

  test.each(['/healthz', '/readyz'])('%s answers 200 without a key', async (path) => {
    expect((await get(path)).status).toBe(200);
  });

  test('/openapi.json describes every route, without a key', async () => {
    const { status, body, headers } = await get('/openapi.json');
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^application\/json\b/);
    const { openapi, paths, servers } = body as {
      openapi: string;
      paths: Record<string, Record<string, unknown>>;
      servers: { url: string }[];
    };
    expect(openapi).toMatch(/^3\.1\./);
    expect(servers[0]?.url).toBe(plain.url);
    for (const { path, method } of Object.values(routes)) {
      expect(paths[path]).toHaveProperty(method.toLowerCase());
    }
  });

  test('/metrics answers in the format of Prometheus', async () => {
    const { status, text: body, headers } = await get('/metrics');
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^text\/plain/);
    expect(body).toMatch(/^# TYPE \w+ (counter|gauge|histogram)$/m);
  });
});

describe('shutdown', () => {
  const exitOf = async ({ process: child }: Server): Promise<number | null> => {
    child.kill('SIGTERM');
    await until(
      'the process to exit',
      async () => child.exitCode ?? child.signalCode,
      (seen) => seen !== null,
    );
    return child.exitCode;
  };

  test('at SIGTERM waits end with 503 or are cut, the process exits 0, and what was acknowledged is stored', async () => {
    const server = await start({ runner: true, env: { MUSTER_KEEP_ALIVE_SECONDS: '5' } });
    const api = apiOf(server);
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent('a'), description: '!sleep 600' }));
    const begun = openRequest(api, '/v1/agent/wait', { agentId: agent('a') });
    await until(
      'white space',
      async () => begun.text(),
      (seen) => seen !== '',
    );
    const waits = [
      openRequest(api, '/v1/agent/wait', { agentId: agent('a') }),
      openRequest(api, '/v1/agents/wait', { agentIds: [agent('a')] }),
    ];
    const streams = [
      openRequest(api, '/v1/agent/timeline/stream', { agentId: agent('a') }),
      openRequest(api, '/v1/agents/stream', {}),
    ];
    for (const stream of streams) expect(await stream.opened).toBe(200);
    let acknowledged = 0;
    // Enough concurrent requests that some are in progress when the signal arrives.
    const lanes = Array.from({ length: 8 }, async (_, lane) => {
      for (let n = 0; ; n += 1) {
        const body = { agentId: agent('a'), description: 'x', followUpId: `f${lane}-${n}` };
        const answer = await api.post('/v1/agent/queue', body).catch(() => undefined);
        if (answer?.status !== 200) return;
        acknowledged += 1;
      }
    });
    // These requests were sent after the waits, so the waits have arrived.
    await until(
      'some messages',
      async () => acknowledged,
      (count) => count > 40,
    );
    expect(await exitOf(server)).toBe(0);
    await Promise.all(lanes);
    for (const wait of waits) {
      const { status, text: body, cut } = await wait.ended;
      expect(cut).toBe(false);
      const headers = new Headers({ 'content-type': 'application/json' });
      expectError({ status, body: JSON.parse(body), headers }, 'UNAVAILABLE');
    }
    for (const stream of streams) await stream.ended;
    const { status, text: body, cut } = await begun.ended;
    expect(status).toBe(200);
    expect(body.trim()).toBe('');
    expect(cut).toBe(true);

    const next = await start({ databaseUrl: server.databaseUrl });
    // Its configured key is not in this database.
    expect(await linkOf(next)).toBeUndefined();
    expect(outputOf(next)).not.toContain('key file');
    const { followUps } = await statusOf(apiOf({ url: next.url, key: server.key }), 'a');
    expect(followUps.length).toBeGreaterThanOrEqual(acknowledged);
    expect(followUps.length).toBeLessThanOrEqual(acknowledged + lanes.length);
  });

  test('a shutdown without its database ends in bounded time, says what is open, and loses nothing', async () => {
    const folder = newFolder();
    const database = await freshDatabase();
    const url = new URL(database.url);
    const socket = `.s.PGSQL.${url.port || 5432}`;
    const proxy = await FaultProxy.listen(
      { path: join(url.searchParams.get('host') ?? '', socket) },
      join(folder, socket),
    );
    url.searchParams.set('host', folder);
    const env = { MUSTER_BOOTSTRAP_KEY: bootstrapKey(), MUSTER_SHUTDOWN_SECONDS: '1' };
    const server = await start({ databaseUrl: url.href, env, runner: true });
    const api = apiOf(server);
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent('a'), description: '!sleep 600' }));
    await untilStatus(api, ['a'], 'a run', ({ phaseReason }) => phaseReason === 'WORKING');
    await proxy.close();
    // The runner's lease lasts for an hour.
    expect(await exitOf(server)).toBe(1);
    expect(outputOf(server)).toMatch(/"open":\["runner",.*"database"\].*"shutdown timed out"/);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    const { rows } = await client.query("SELECT phase, run_count FROM agents WHERE path = 'a'");
    await client.end();
    expect(rows).toEqual([{ phase: 'PHASE_RUNNING', run_count: 1 }]);
    await database.drop();
  });
});

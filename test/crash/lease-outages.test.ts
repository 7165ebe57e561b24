import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { silentLog } from '../../packages/service/src/lib/log.ts';
import { Runner } from '../../packages/service/src/runner/runner.ts';
import { Agents } from '../support/agents.ts';
import { apiOf } from '../support/api.ts';
import { eventually } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { freshDatabase } from '../support/database.ts';
import { FaultProxy, type ProxyMode } from '../support/fault-proxy.ts';
import { startServer } from '../support/server.ts';
import { runnerKey } from './runner-process.ts';

/** Long, so that a busy machine has time to poll after the outage. */
const leaseMs = 24_000;
const outageMs = leaseMs / 2;

const cleanUps: (() => unknown)[] = [];
afterAll(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const startService = async (databaseUrl?: string) => {
  const env = { MUSTER_LEASE_SECONDS: String(leaseMs / 1000) };
  const server = await startServer({ runner: false, env, ...(databaseUrl && { databaseUrl }) });
  cleanUps.push(() => server.close());
  return server;
};

function startRunner(url: string, apiKey: string, name: string): Runner {
  const dataFolder = mkdtempSync(join(tmpdir(), 'muster-runner-'));
  const runner = new Runner({
    ...{ url, apiKey, name, dataFolder, build: 'test', log: silentLog },
    ...{ rehearses: true, harnesses: {}, providers: {}, prices: new Map(), turnMs: 10 },
    ...{ stallMs: 300_000, limitWaitMs: 60_000, keepFoldersDays: 7, diskReserveGb: 0, innerHosts: [] },
    ...{ checkpointMs: 3_600_000, sandbox: null, environment: {}, tenantAllow: new Map() },
    limits: { rehearsedRunsPerRunner: 1 },
  });
  cleanUps.push(async () => {
    await runner.abandon();
    rmSync(dataFolder, { recursive: true, force: true });
  });
  return runner;
}

/** A runner with a run that takes longer than the outage, behind a proxy of its own. */
async function working(
  server: Awaited<ReturnType<typeof startService>>,
  agents: Agents,
  path: string,
  key: string,
) {
  const proxy = await FaultProxy.listen({ port: Number(new URL(server.url).port) });
  cleanUps.push(() => proxy.close());
  await agents.spawn(path, { description: '!say working\n!sleep 600' });
  const runner = startRunner(proxy.url, key, path);
  await runner.registered;
  return proxy;
}

const modes: readonly ProxyMode[] = ['cut', 'half-open', 'unread'];
const phases = [0, 1, 2, 3, 4];

describe.concurrent('half a lease without the service loses no run', () => {
  test('whatever the network does with connections, and at every moment of a poll', async () => {
    const server = await startService();
    const api = apiOf(server);
    const pool = uniqueName('pool');
    await writeResource(api, 'pool', pool, {});
    await writeResource(api, 'workspace', pool, { pool });
    const agents = new Agents(api, pool);
    const key = await runnerKey(api, pool);
    const cases = modes.flatMap((mode) => phases.map((phase) => ({ mode, phase, path: `${mode}-${phase}` })));
    const proxies = await Promise.all(
      cases.map(async (one) => ({ ...one, proxy: await working(server, agents, one.path, key) })),
    );
    const isWorking = async (path: string) => (await agents.status(path)).run?.state === 'RUNNING';
    for (const { path } of cases) await eventually(async () => expect(await isWorking(path)).toBe(true));
    await Promise.all(
      proxies.map(async ({ mode, phase, proxy }) => {
        // A poll waits for an eighth of a lease.
        await delay((phase / phases.length) * (leaseMs / 8));
        proxy.set(mode);
        await delay(outageMs);
        proxy.set('through');
      }),
    );
    // All leases from before the outage have ended now, unless they were renewed.
    await delay(leaseMs / 2);
    const lost = await Promise.all(
      cases.map(async ({ path }) =>
        (await agents.status(path)).run?.runId === '1' && (await isWorking(path)) ? [] : [path],
      ),
    );
    expect(lost.flat()).toEqual([]);
  });

  test('also if the database does not answer', async () => {
    const database = await freshDatabase();
    cleanUps.push(() => database.drop());
    const url = new URL(database.url);
    const socket = join(url.searchParams.get('host') ?? '', '.s.PGSQL.5432');
    const folder = mkdtempSync(join(tmpdir(), 'muster-proxy-'));
    cleanUps.push(() => rmSync(folder, { recursive: true, force: true }));
    const proxy = await FaultProxy.listen({ path: socket }, join(folder, '.s.PGSQL.5432'));
    cleanUps.push(() => proxy.close());
    url.searchParams.set('host', folder);
    const server = await startService(url.href);
    const api = apiOf(server);
    const agents = new Agents(api, 'default');
    await agents.spawn('a', { description: '!say working\n!sleep 600' });
    await startRunner(server.url, await runnerKey(api), 'one').registered;
    const run = async () => (await agents.status('a')).run;
    await eventually(async () => expect((await run())?.state).toBe('RUNNING'));
    proxy.set('cut');
    await delay(outageMs);
    proxy.set('through');
    await delay(leaseMs / 2);
    await eventually(async () => expect(await run()).toMatchObject({ runId: '1', state: 'RUNNING' }));
  });
});

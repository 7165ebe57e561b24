import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentEntry, AgentStatus, TimelineEntry } from '@muster/sdk/contract';
import { afterAll, describe, expect, test } from 'vitest';
import { exportDatabase } from '../archive/archives.ts';
import { refusedStart } from '../conformance/server-starts.ts';
import { Agents } from '../support/agents.ts';
import { apiOf } from '../support/api.ts';
import { eventually, runConcurrently, until } from '../support/async.ts';
import { type Database, execute, freshDatabase } from '../support/database.ts';
import { type DatabaseServer, startPgBouncer, startTlsPostgres } from '../support/database-servers.ts';
import { FaultProxy } from '../support/fault-proxy.ts';
import { startServer } from '../support/server.ts';
import { openStream } from '../support/streams.ts';
import { isInstalled } from '../support/system-packages.ts';
import { Load } from './load.ts';
import { Node } from './node.ts';
import { attempt, RetryingClient } from './retrying-client.ts';
import { lookInto, type Store } from './store.ts';

const cleanUps: (() => unknown)[] = [];
afterAll(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
});

const hasPgBouncer = isInstalled('pgbouncer');
if (!hasPgBouncer)
  process.stderr.write('\n*** TESTS OF PGBOUNCER ARE SKIPPED: apt-get install pgbouncer\n\n');

/** A database whose sessions have another time zone, with PgBouncer before its server. */
async function pooledDatabase(settings: Readonly<Record<string, string>> = {}): Promise<{
  readonly database: Database;
  readonly pooler: DatabaseServer;
  readonly url: string;
}> {
  const database = await freshDatabase();
  cleanUps.push(database.drop);
  const name = new URL(database.url).pathname.slice(1);
  await execute(database.url, `ALTER DATABASE ${name} SET timezone = 'Asia/Tokyo'`);
  const pooler = await startPgBouncer(database.url, settings);
  cleanUps.push(pooler.stop);
  return { database, pooler, url: pooler.url(name) };
}

async function startNode(databaseUrl: string, env: Record<string, string>, runner: boolean): Promise<Node> {
  const node = await Node.start({ databaseUrl, env, runner });
  cleanUps.push(() => node.close());
  return node;
}

/** The settings and prepared statements of the pooler's sessions. */
const leftInSessions = (store: Store) =>
  Promise.all(
    Array.from({ length: 4 }, () =>
      store.rows(`SELECT current_setting('statement_timeout') AS timeout, current_setting('timezone') AS zone,
        (SELECT array_agg(name) FROM pg_prepared_statements WHERE name <> '') AS statements, pg_sleep(0.05)::text`),
    ),
  );

describe.skipIf(!hasPgBouncer)('PgBouncer in transaction mode', () => {
  const pooled = { MUSTER_POOLER: 'transaction' };

  test('two nodes share its sessions, and spawn, queue, wait, streams, a runner and exports work', async () => {
    const { database, url } = await pooledDatabase();
    const one = await startNode(url, pooled, true);
    const other = apiOf({ url: (await startNode(url, pooled, false)).url, key: one.key });
    const [here, there] = [new Agents(one.api, 'default'), new Agents(other, 'default')];

    const startedMs = Date.now();
    await here.spawn('a', { description: '!say hello' });
    expect((await there.wait('a')).response).toBe('hello');
    expect(Date.parse((await there.status('a')).createdAt) - startedMs).toBeLessThan(600_000);
    const timeline = await openStream<TimelineEntry>(other, '/v1/agent/timeline/stream', {
      agentId: there.id('a'),
    });
    const list = await openStream<AgentEntry>(other, '/v1/agents/stream', {});
    await list.until(({ type }) => type === 'whole');
    await there.queue('a', '!say again');
    await timeline.until(({ data }) => data.type === 'MESSAGE' && data.text === 'again');
    timeline.close();
    expect(timeline.seen.map(({ id }) => Number(id))).toEqual(timeline.seen.map((_, i) => i + 1));

    await runConcurrently(8, 8, async (i) => {
      const [a, b] = i % 2 === 0 ? [here, there] : [there, here];
      await a.spawn(`busy-${i}`, { description: '!say one' });
      await b.queue(`busy-${i}`, '!say two');
      await until(
        'both answers',
        () => a.wait(`busy-${i}`),
        ({ response }) => response === 'two',
      );
    });
    // No session listens for the other node's changes, so the stream ends, and the next one has the whole list.
    expect(await list.until(() => false)).toBe(false);

    for (const file of ['first', 'second'])
      await exportDatabase({ connectionString: url, isPooled: true }, join(one.folder, file));
    await lookInto(database.url, async (store) => expect(await store.violations()).toEqual([]));
    const left = await lookInto(url, leftInSessions);
    expect(left.flat()).toEqual(
      left.map(() => ({ timeout: '0', zone: 'Asia/Tokyo', statements: null, pg_sleep: '' })),
    );
  });

  test('MUSTER_DIRECT_URL is used to listen', async () => {
    const { database, url } = await pooledDatabase();
    const env = { ...pooled, MUSTER_DIRECT_URL: database.url };
    const node = await startNode(url, env, false);
    expect((await node.api.get('/readyz')).status).toBe(200);
    const listening =
      "SELECT FROM pg_stat_activity WHERE application_name = 'muster-listen' AND datname = $1";
    const name = new URL(url).pathname.slice(1);
    expect(await lookInto(database.url, (store) => store.count(listening, [name]))).toBe(1);
  });

  test.each([
    ['refuses the settings of a session', {}],
    ['drops the settings of a session', { ignore_startup_parameters: 'options' }],
  ])('a start without MUSTER_POOLER is refused where it %s', async (_, settings) => {
    const { url } = await pooledDatabase(settings);
    expect(await refusedStart({ databaseUrl: url })).toContain('set MUSTER_POOLER=transaction');
  });
});

test('a node is not ready while its database is read-only', async () => {
  const database = await freshDatabase();
  cleanUps.push(database.drop);
  const node = await startNode(database.url, {}, false);
  const name = new URL(database.url).pathname.slice(1);
  const readiness = () => attempt(node, { method: 'GET', path: '/readyz' });
  const elsewhere = new URL(database.url);
  elsewhere.pathname = '/muster';
  const setReadOnly = (value: string) =>
    execute(
      elsewhere.href,
      `ALTER DATABASE "${name}" SET default_transaction_read_only = ${value};
       SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = '${name}' AND application_name LIKE 'muster%'`,
    );
  await setReadOnly('on');
  await until('not ready', readiness, (seen) => typeof seen === 'object' && seen.status === 503);
  await eventually(async () =>
    expect(await readiness()).toMatchObject({ body: { message: 'the database is read-only' } }),
  );
  await setReadOnly('off');
  await until('ready', readiness, (seen) => typeof seen === 'object' && seen.status === 200);
});

test('a password that changes under load, on a server with TLS, interrupts the service and loses nothing', async () => {
  const server = await startTlsPostgres();
  cleanUps.push(server.stop);
  await execute(server.url('postgres'), 'CREATE DATABASE muster');
  const url = new URL(server.url('muster'));
  url.password = '';
  const file = join(tmpdir(), `muster-password-${process.pid}`);
  cleanUps.push(() => rmSync(file, { force: true }));
  writeFileSync(file, `${server.password}\n`);
  const node = await startNode(url.href, { MUSTER_DATABASE_PASSWORD_FILE: file }, false);
  const client = new RetryingClient(node, { check: node.expectRunning });
  const load = new Load(client, 'rotated');
  load.open();
  await load.more(20);

  await execute(
    server.url('muster'),
    `ALTER ROLE muster PASSWORD 'changed';
     SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'muster%'`,
  );
  const status = (path: string) => async () => {
    const seen = await attempt(node, { method: 'GET', path });
    return typeof seen === 'object' ? seen.status : seen;
  };
  await until('the database unavailable', status('/readyz'), (seen) => seen === 503);
  expect(await status('/healthz')()).toBe(200);
  writeFileSync(file, 'changed');
  await until('the service ready', status('/readyz'), (seen) => seen === 200);
  await load.more(20);
  const findLost = load.snapshot();
  await load.close();
  url.password = 'changed';
  expect(await lookInto(url.href, findLost), 'acknowledged and lost').toEqual([]);
  expect(client.unexpected, 'nothing but 503, and no hang').toEqual([]);
  const { createdAt } = (
    await node.api.post<AgentStatus>('/v1/agent/status', { agentId: { agent: ['rotated-1'] } })
  ).body;
  expect(Math.abs(Date.parse(createdAt) - Date.now())).toBeLessThan(600_000);
});

test('a start waits for a database that can not be reached, and says where it looks for it', async () => {
  const database = await freshDatabase();
  cleanUps.push(database.drop);
  const folder = mkdtempSync(join(tmpdir(), 'muster-away-'));
  cleanUps.push(() => rmSync(folder, { recursive: true, force: true }));
  const url = new URL(database.url);
  const socket = `.s.PGSQL.${url.port || 5432}`;
  const target = { path: join(url.searchParams.get('host') ?? '', socket) };
  const proxy = await FaultProxy.listen(target, join(folder, socket));
  cleanUps.push(() => proxy.close());
  proxy.set('cut');
  url.searchParams.set('host', folder);
  const starting = startServer({ databaseUrl: url.href, runner: false });
  await proxy.faults(2, 60_000);
  proxy.set('through');
  const server = await starting;
  cleanUps.push(() => server.close());
  const lines = server.output
    .join('')
    .split('\n')
    .filter((line) => line.includes('database unavailable; retrying'));
  expect(lines.map((line) => JSON.parse(line))).toContainEqual(
    expect.objectContaining({ host: folder, database: url.pathname.slice(1), reason: expect.any(String) }),
  );
  expect(lines.join()).not.toContain(url.password || 'password');
});

test('a start names the variable whose file is missing', async () => {
  const database = 'postgres://muster@localhost:1/muster';
  const certificate = await refusedStart({
    databaseUrl: `${database}?sslmode=verify-full&sslrootcert=/no/ca.pem`,
  });
  expect(certificate).toMatch(/DATABASE_URL: .*\/no\/ca\.pem/);
  const env = { MUSTER_DATABASE_PASSWORD_FILE: '/no/password' };
  expect(await refusedStart({ databaseUrl: database, env })).toMatch(
    /MUSTER_DATABASE_PASSWORD_FILE: .*\/no\/password/,
  );
});

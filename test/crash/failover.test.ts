import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually, runConcurrently, until } from '../support/async.ts';
import { type Database, execute, freshDatabase } from '../support/database.ts';
import { startPgBouncer, startPostgres } from '../support/database-servers.ts';
import { isInstalled } from '../support/system-packages.ts';
import { Load } from './load.ts';
import { Node } from './node.ts';
import { attempt, RetryingClient, type Sent } from './retrying-client.ts';
import { lookInto } from './store.ts';

const cleanUps: (() => unknown)[] = [];
afterAll(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
});

async function startNode(databaseUrl: string, env: Record<string, string> = {}): Promise<Node> {
  const node = await Node.start({ databaseUrl, env, runner: false });
  cleanUps.push(() => node.close());
  return node;
}

const agentId = { agent: ['agent'] };

const spawnOf = (name: string): Sent => ({
  path: '/v1/agent/spawn',
  body: { agentId: { agent: [name] }, description: 'work', model: 'rehearsal-a' },
  headers: { 'idempotency-key': name },
});

/** What a client may send at any time: reads, and writes of each kind. */
const requests = {
  status: { path: '/v1/agent/status', body: { agentId } },
  list: { path: '/v1/agents', body: {} },
  timeline: { path: '/v1/agent/timeline', body: { agentId } },
  queue: { path: '/v1/agent/queue', body: { agentId, followUpId: 'f', description: 'more' } },
  document: {
    path: '/v1/catalog/persona/p',
    body: { payload: Buffer.from('{"instructions":"x"}').toString('base64') },
  },
} satisfies Record<string, Sent>;

const statusOf = async (node: Node, sent: Sent): Promise<number | string> => {
  const seen = await attempt(node, sent);
  return typeof seen === 'object' ? seen.status : seen;
};

async function statusesOf(node: Node): Promise<Record<string, number | string>> {
  const found: Record<string, number | string> = {};
  for (const [name, sent] of Object.entries(requests)) found[name] = await statusOf(node, sent);
  return found;
}

const all = (status: number) => Object.fromEntries(Object.keys(requests).map((name) => [name, status]));

const terminateSessions = (url: string): Promise<void> =>
  execute(
    url,
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'muster%'",
  );

describe('on one server', () => {
  let database: Database;
  let node: Node;
  beforeAll(async () => {
    database = await freshDatabase();
    cleanUps.push(database.drop);
    node = await startNode(database.url);
    expect(await statusOf(node, spawnOf('agent'))).toBe(200);
  });

  test('writes get 503 while the server is read-only, whichever statement of theirs is refused first', async () => {
    const name = new URL(database.url).pathname.slice(1);
    await execute(database.url, `ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    await terminateSessions(database.url);
    const seen = new Set<number | string>();
    await runConcurrently(40, 4, async (i) => {
      seen.add(await statusOf(node, spawnOf(`refused-${i}`)));
      seen.add(await statusOf(node, requests.queue));
      seen.add(await statusOf(node, requests.document));
    });
    expect(seen).toEqual(new Set([503]));
    await execute(database.url, `BEGIN READ WRITE; ALTER DATABASE ${name} RESET ALL; COMMIT`);
    // The sessions that began while it was read-only stay so.
    await until(
      'a session that can write',
      () => statusOf(node, spawnOf('later')),
      (status) => status === 200,
    );
    expect(await statusesOf(node)).toEqual(all(200));
  });

  test('sessions that are terminated under load cost no acknowledged write, and no answer but 503', async () => {
    const client = new RetryingClient(node, { check: node.expectRunning });
    const load = new Load(client, 'terminated');
    load.open();
    for (let round = 0; round < 10; round += 1) {
      await load.more(5);
      await terminateSessions(database.url);
    }
    const findLost = load.snapshot();
    await load.close();
    await lookInto(database.url, async (store) => {
      expect(await findLost(store), 'acknowledged and lost').toEqual([]);
      expect(await store.violations()).toEqual([]);
    });
    expect(client.unexpected, 'nothing but 503, and no hang').toEqual([]);
  });

  test('a command is repeated on another connection when its plan no longer fits the schema', async () => {
    expect(await statusesOf(node)).toEqual(all(200));
    await execute(database.url, 'ALTER TABLE agents ALTER run_count TYPE bigint');
    for (let i = 0; i < 4; i += 1) expect(await statusOf(node, requests.queue)).toBe(200);
    await until(
      'reads on other connections',
      () => statusesOf(node),
      (seen) => Object.values(seen).every((status) => status === 200),
    );
  });
});

const hasPgBouncer = isInstalled('pgbouncer');

interface Failover {
  readonly node: Node;
  /** As the node reaches it: directly, or through PgBouncer. */
  readonly databaseUrl: string;
}

test(`a node that reaches a standby directly${hasPgBouncer ? ' or through PgBouncer' : ''} neither reads nor writes there; it continues when the standby is promoted`, async () => {
  const server = await startPostgres();
  cleanUps.push(server.stop);
  const start = async (name: string, isPooled: boolean): Promise<Failover> => {
    await execute(server.url('postgres'), `CREATE DATABASE ${name}`);
    const pooler = isPooled && (await startPgBouncer(server.url(name), { server_login_retry: '1' }));
    if (pooler) cleanUps.push(pooler.stop);
    const databaseUrl = (pooler || server).url(name);
    const node = await startNode(databaseUrl, pooler ? { MUSTER_POOLER: 'transaction' } : {});
    expect(await statusOf(node, spawnOf('agent'))).toBe(200);
    expect(await statusesOf(node)).toEqual(all(200));
    return { node, databaseUrl };
  };
  const direct = await start('direct', false);
  const failovers = hasPgBouncer ? [direct, await start('pooled', true)] : [direct];

  writeFileSync(join(server.data, 'standby.signal'), '');
  await server.restart();
  for (const { node, databaseUrl } of failovers) {
    await eventually(() => execute(databaseUrl, 'SELECT'));
    for (let round = 0; round < 3; round += 1) expect(await statusesOf(node)).toEqual(all(503));
    expect(await statusOf(node, { method: 'GET', path: '/readyz' })).toBe(503);
  }

  await execute(server.url('postgres'), 'SELECT pg_promote()');
  for (const { node } of failovers) {
    await until(
      'the service ready',
      () => statusOf(node, { method: 'GET', path: '/readyz' }),
      (status) => status === 200,
    );
    expect(await statusesOf(node)).toEqual(all(200));
  }
});

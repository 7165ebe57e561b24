import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Random } from '../simulation/random.ts';
import { runConcurrently, until } from '../support/async.ts';
import { freshDatabase } from '../support/database.ts';
import { FaultProxy, type ProxyMode } from '../support/fault-proxy.ts';
import { openStream } from '../support/streams.ts';
import { Load } from './load.ts';
import { Node } from './node.ts';
import { attempt, RetryingClient } from './retrying-client.ts';
import { RunnerProcess, runnerKey } from './runner-process.ts';
import { Store } from './store.ts';
import { printFigures, randomOf, times, withinMs } from './tier.ts';

const seeds = times('MUSTER_CRASH_SEEDS', 8);
/** Half-open connections take the longest to be noticed. */
const silentSeeds = times('MUSTER_CRASH_SILENT_SEEDS', 2);
const firstSeed = times('MUSTER_CRASH_SEED', 1);
const concurrentSeeds = 2;

/** A node with a proxy before its database and before its HTTP server, whose connections can be cut. */
class ProxiedNode {
  readonly node: Node;
  readonly store: Store;
  readonly database: FaultProxy;
  readonly http: FaultProxy;
  readonly #cleanUps: (() => unknown)[];

  constructor(parts: Pick<ProxiedNode, 'node' | 'store' | 'database' | 'http'>, cleanUps: (() => unknown)[]) {
    this.node = parts.node;
    this.store = parts.store;
    this.database = parts.database;
    this.http = parts.http;
    this.#cleanUps = cleanUps;
  }

  static async start(): Promise<ProxiedNode> {
    const cleanUps: (() => unknown)[] = [];
    const real = await freshDatabase();
    cleanUps.unshift(real.drop);
    const folder = mkdtempSync(join(tmpdir(), 'muster-connection-'));
    cleanUps.unshift(() => rmSync(folder, { recursive: true, force: true }));
    // Clients of PostgreSQL find it by the folder of its socket, so the proxy has such a folder.
    const url = new URL(real.url);
    const socket = `.s.PGSQL.${url.port || 5432}`;
    const database = await FaultProxy.listen(
      { path: join(url.searchParams.get('host') ?? '', socket) },
      join(folder, socket),
    );
    cleanUps.unshift(() => database.close());
    url.searchParams.set('host', folder);
    const node = await Node.start({
      runner: false,
      databaseUrl: url.href,
      env: { MUSTER_LEASE_SECONDS: '8' },
    });
    cleanUps.unshift(() => node.close());
    const http = await FaultProxy.listen({ port: Number(new URL(node.url).port) });
    cleanUps.unshift(() => http.close());
    const runner = await RunnerProcess.start(http.url, await runnerKey(node.api), 'behind-a-proxy');
    cleanUps.unshift(() => runner.close());
    const store = await Store.open(real.url);
    cleanUps.unshift(() => store.close());
    return new ProxiedNode({ node, store, database, http }, cleanUps);
  }

  async close(): Promise<void> {
    for (const cleanUp of this.#cleanUps) await cleanUp();
  }
}

type Fault = readonly [where: 'database' | 'http', what: ProxyMode];

const kinds: readonly Fault[] = (['cut', 'slow'] as const).flatMap((what): Fault[] => [
  ['database', what],
  ['http', what],
]);

/** Each kind is the first fault of some seed; the second is a random one on the other proxy. */
function faultsOf(seed: number, firsts: readonly Fault[]): Fault[] {
  const first = firsts[seed % firsts.length] as Fault;
  return [first, randomOf(seed).oneOf(kinds.filter(([where]) => where !== first[0]))];
}

/** The nodes of both tests, each for one seed at a time. */
let nodes: ProxiedNode[] = [];
beforeAll(async () => {
  nodes = await Promise.all(Array.from({ length: concurrentSeeds }, () => ProxiedNode.start()));
});
afterAll(() => Promise.all(nodes.map((node) => node.close())));

interface Counts {
  acknowledged: number;
  faults: number;
  retries: number;
}

async function runSeed(
  proxied: ProxiedNode,
  name: string,
  random: Random,
  faults: readonly Fault[],
): Promise<Counts> {
  const { node, store } = proxied;
  const client = new RetryingClient(node, { timeoutMs: 40_000, check: node.expectRunning });
  const load = new Load(client, name);
  load.open(2);
  await load.more(random.between(1, 10));
  let count = 0;
  for (const [where, what] of faults) {
    proxied[where].set(what);
    count += await proxied[where].faults(random.between(1, 12), 1_000);
    proxied[where].set('through');
  }
  const findLost = load.snapshot();
  await load.close();

  const isReady = async () => {
    const seen = await attempt(node, { method: 'GET', path: '/readyz' });
    return typeof seen === 'object' && seen.status === 200;
  };
  await until('the service ready', isReady, (ready) => ready, 30_000);
  await until(
    'every agent idle',
    () => store.agentsNotIdle(),
    (found) => found.length === 0,
    60_000,
  );
  expect(await findLost(store), 'acknowledged and lost').toEqual([]);
  await load.replay(store);
  await load.checkCounts(store);
  expect(await store.violations()).toEqual([]);
  expect(client.unexpected, 'nothing but 503, and no hang').toEqual([]);
  return { acknowledged: load.acknowledged, faults: count, retries: client.retries };
}

/** Runs seeds whose first fault is one of these, several concurrently, each on its own node. */
async function runSeeds(name: string, count: number, firsts: readonly Fault[]): Promise<Counts> {
  const sum: Counts = { acknowledged: 0, faults: 0, retries: 0 };
  const free = [...nodes];
  await runConcurrently(count, free.length, async (index) => {
    const proxied = free.pop() as ProxiedNode;
    const seed = firstSeed * 1_000_000 + index;
    const faults = faultsOf(seed, firsts);
    try {
      const counts = await runSeed(proxied, `${name}-${seed}`, randomOf(seed), faults);
      sum.acknowledged += counts.acknowledged;
      sum.faults += counts.faults;
      sum.retries += counts.retries;
    } catch (error) {
      const text = `seed ${seed} (${faults.join('; ')}): ${String(error)}\n${proxied.node.logTail()}`;
      throw new Error(text, { cause: error });
    }
    free.push(proxied);
  });
  return sum;
}

test('the service recovers after connections were cut or slow', withinMs(seeds, 15_000), async () => {
  printFigures('connections cut or slow', { seeds, ...(await runSeeds('cut', seeds, kinds)), lost: 0 });
});

test(
  'the service recovers after connections were half-open and stayed silent',
  withinMs(silentSeeds, 60_000),
  async () => {
    const counts = await runSeeds('half-open', silentSeeds, [
      ['database', 'half-open'],
      ['http', 'half-open'],
    ]);
    printFigures('connections half-open', { seeds: silentSeeds, ...counts, lost: 0 });
  },
);

test('a list stream ends when the connection that listens was silent, because changes may be missing', async () => {
  const [{ node, database }] = nodes as [ProxiedNode];
  const list = await openStream(node.api, '/v1/agents/stream', {});
  expect(await list.until(({ type }) => type === 'whole')).toBe(true);
  // Only the connections that are open now stay silent.
  database.set('half-open');
  database.set('through');
  expect(await list.until(() => false)).toBe(false);
});

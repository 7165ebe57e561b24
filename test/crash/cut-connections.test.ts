import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runConcurrently, until } from '../support/async.ts';
import { freshDatabase } from '../support/database.ts';
import { FaultProxy, type ProxyMode } from '../support/fault-proxy.ts';
import { Load } from './load.ts';
import { Node } from './node.ts';
import { attempt, RetryingClient } from './retrying-client.ts';
import { RunnerProcess, runnerKey } from './runner-process.ts';
import { Store } from './store.ts';
import { printFigures, randomOf, times, withinMs } from './tier.ts';

const seeds = times('MUSTER_CRASH_SEEDS', 16);
/** Half-open connections take the longest to be noticed. */
const silentSeeds = times('MUSTER_CRASH_SILENT_SEEDS', 4);
const firstSeed = times('MUSTER_CRASH_SEED', 1);
const atOnce = 4;

/** A node with a proxy before its database and before its HTTP server, whose connections can be cut. */
class Rig {
  readonly node: Node;
  readonly store: Store;
  readonly database: FaultProxy;
  readonly http: FaultProxy;
  readonly #cleanUps: (() => unknown)[];

  constructor(parts: Pick<Rig, 'node' | 'store' | 'database' | 'http'>, cleanUps: (() => unknown)[]) {
    this.node = parts.node;
    this.store = parts.store;
    this.database = parts.database;
    this.http = parts.http;
    this.#cleanUps = cleanUps;
  }

  static async open(): Promise<Rig> {
    const cleanUps: (() => unknown)[] = [];
    const real = await freshDatabase();
    cleanUps.unshift(real.drop);
    const folder = mkdtempSync(join(tmpdir(), 'muster-connection-'));
    cleanUps.unshift(() => rmSync(folder, { recursive: true, force: true }));
    // PostgreSQL's clients find it by the folder of its socket, so the proxy makes such a folder.
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
    return new Rig({ node, store, database, http }, cleanUps);
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

/** Each kind has its turn as the first; the second is on the other proxy, and left to chance. */
function faultsOf(seed: number, firsts: readonly Fault[]): Fault[] {
  const first = firsts[seed % firsts.length] as Fault;
  return [first, randomOf(seed).oneOf(kinds.filter(([where]) => where !== first[0]))];
}

interface Tally {
  acknowledged: number;
  touched: number;
  retries: number;
}

async function play(rig: Rig, seed: number, faults: readonly Fault[], tally: Tally): Promise<void> {
  const { node, store } = rig;
  const random = randomOf(seed);
  const client = new RetryingClient(node, { timeoutMs: 40_000, check: node.expectRunning });
  const load = new Load(client, `seed-${seed}`);
  load.open(2);
  await load.more(random.between(1, 10));
  for (const [where, what] of faults) {
    rig[where].set(what);
    tally.touched += await rig[where].faults(random.between(1, 12), 1_000);
    rig[where].set('through');
  }
  const findLost = load.snapshot();
  await load.close();

  const isReady = async () => {
    const seen = await attempt(node, { method: 'GET', path: '/readyz' });
    return typeof seen === 'object' && seen.status === 200;
  };
  await until('the service ready', isReady, (ready) => ready, 30_000);
  await until(
    'every agent at rest',
    () => store.agentsNotIdle(),
    (found) => found.length === 0,
    60_000,
  );
  expect(await findLost(store), 'acknowledged and lost').toEqual([]);
  await load.replay(store);
  await load.checkCounts(store);
  expect(await store.violations()).toEqual([]);
  expect(client.unexpected, 'nothing but 503, and no hang').toEqual([]);
  tally.acknowledged += load.acknowledged;
  tally.retries += client.retries;
}

/** Plays seeds whose first fault is one of these, several at once, each on a rig of its own. */
async function playAll(count: number, firsts: readonly Fault[]): Promise<Tally> {
  const tally: Tally = { acknowledged: 0, touched: 0, retries: 0 };
  const rigs = await Promise.all(Array.from({ length: Math.min(atOnce, count) }, () => Rig.open()));
  const free = [...rigs];
  try {
    await runConcurrently(count, rigs.length, async (index) => {
      const rig = free.pop() as Rig;
      const seed = firstSeed * 1_000_000 + index;
      const faults = faultsOf(seed, firsts);
      try {
        await play(rig, seed, faults, tally);
      } catch (error) {
        const words = `seed ${seed} (${faults.join('; ')}): ${String(error)}\n${rig.node.logTail()}`;
        throw new Error(words, { cause: error });
      }
      free.push(rig);
    });
  } finally {
    await Promise.all(rigs.map((rig) => rig.close()));
  }
  return tally;
}

test('the service recovers after connections were cut or slow', withinMs(seeds, 15_000), async () => {
  printFigures('connections cut or slow', { seeds, ...(await playAll(seeds, kinds)), lost: 0 });
});

test(
  'the service recovers after connections were half-open and stayed silent',
  withinMs(silentSeeds, 60_000),
  async () => {
    const tally = await playAll(silentSeeds, [
      ['database', 'half-open'],
      ['http', 'half-open'],
    ]);
    printFigures('connections half-open', { seeds: silentSeeds, ...tally, lost: 0 });
  },
);

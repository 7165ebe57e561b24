import { afterAll, beforeAll, expect, test } from 'vitest';
import { Node } from '../crash/node.ts';
import { RunnerProcess, runnerKey } from '../crash/runner-process.ts';
import { lookInto, type Store } from '../crash/store.ts';
import { printFigures, randomOf, times } from '../crash/tier.ts';
import { eventually, until } from '../support/async.ts';
import { startPgBouncer } from '../support/database-servers.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { DatabaseCluster } from './database-cluster.ts';
import { FollowedTenant } from './followed-tenant.ts';

const count = times('MUSTER_CLUSTER_FAULTS', 8);
const random = randomOf(times('MUSTER_CRASH_SEED', 1));

let cluster: DatabaseCluster;
let nodes: [Node, Node, Node];
const tenants: FollowedTenant[] = [];
const runners: { process: RunnerProcess; restart: () => Promise<RunnerProcess> }[] = [];
const cleanUps: (() => unknown)[] = [];
/** What each process of a node has logged. */
const outputs: string[][] = [];

beforeAll(async () => {
  cluster = await DatabaseCluster.start();
  cleanUps.push(() => cluster.close());
  const pooler = await startPgBouncer(cluster.url(), { server_login_retry: '1', default_pool_size: '8' });
  cleanUps.push(pooler.stop);
  const pooled = { MUSTER_POOLER: 'transaction' };
  const start = async (databaseUrl: string, more: Record<string, string> = {}): Promise<Node> => {
    const env = { MUSTER_LEASE_SECONDS: '20', ...more };
    const node = await Node.start({ databaseUrl, runner: false, env });
    cleanUps.push(() => node.close());
    outputs.push(node.server.output);
    return node;
  };
  const first = await start(cluster.url());
  nodes = [
    first,
    await start(pooler.url('muster'), { ...pooled, MUSTER_DIRECT_URL: cluster.url() }),
    await start(pooler.url('muster'), pooled),
  ];
  const [a, b, c] = nodes;
  const { url, key } = first;
  const operator = await operatorOf({ url, key, databaseUrl: cluster.url() });
  for (const [name, own] of [
    ['first', [a, b, c]],
    ['second', [b, c, a]],
  ] as const) {
    const { admin } = await newTenant(operator, 'admin');
    const runnersKey = await runnerKey(admin);
    const restart = () => RunnerProcess.start(own[2].url, runnersKey, `runner-${name}`);
    const runner = { process: await restart(), restart };
    runners.push(runner);
    cleanUps.push(() => runner.process.close());
    const tenant = new FollowedTenant(name, admin.key, own);
    tenants.push(tenant);
    cleanUps.push(() => tenant.close());
    await tenant.follow();
  }
});
afterAll(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
});

/** Each causes a fault. What it returns repairs what does not come back by itself, and is called after the recovery. */
const faults = {
  primary: async () => {
    const machine = await cluster.primary();
    if (random.chance(0.3)) {
      await machine.killPostgres();
      return { what: `PostgreSQL of the primary ${machine.name} killed`, repair: async () => {} };
    }
    await machine.killMachine();
    return { what: `primary ${machine.name} killed`, repair: () => machine.start() };
  },
  switchover: async () => {
    const { name } = await cluster.primary();
    const done = await cluster.switchOver();
    return { what: `primary ${name} made a replica`, repair: done };
  },
  replica: async () => {
    const primary = await cluster.primary();
    const machine = random.oneOf(cluster.machines.filter((other) => other !== primary));
    await machine.killMachine();
    return { what: `replica ${machine.name} killed`, repair: () => machine.start() };
  },
  etcd: async () => {
    const killed = random.chance(0.3) ? cluster.etcd.slice(0, 2) : [random.oneOf(cluster.etcd)];
    for (const member of killed) await member.kill();
    const start = async () => {
      for (const member of killed) await member.start();
    };
    const what = `${killed.map(({ name }) => name).join(' and ')} killed`;
    // etcd elects no primary without a majority of its members, so the killed member is restarted for the recovery.
    if (killed.length > 1) await start();
    return { what, repair: killed.length > 1 ? async () => {} : start };
  },
  node: async () => {
    const index = random.below(nodes.length);
    const node = nodes[index] as Node;
    await node.kill();
    await node.start();
    outputs.push(node.server.output);
    return { what: `node ${index + 1} killed`, repair: async () => {} };
  },
  runner: async () => {
    const runner = random.oneOf(runners);
    await runner.process.close();
    runner.process = await runner.restart();
    return { what: `${runner.process.name} killed`, repair: async () => {} };
  },
  connections: async () => {
    await cluster.cutConnections();
    return { what: 'connections of HAProxy closed', repair: async () => {} };
  },
};
type Kind = keyof typeof faults;

/** Each kind once, in random order, then random ones. */
function kindsInOrder(): Kind[] {
  const left = Object.keys(faults) as Kind[];
  const order: Kind[] = [];
  while (left.length > 0) order.push(...left.splice(random.below(left.length), 1));
  while (order.length < count) order.push(random.oneOf(Object.keys(faults) as Kind[]));
  return order.slice(0, count);
}

const everyTenant = <T>(act: (tenant: FollowedTenant) => Promise<T>): Promise<T[]> =>
  Promise.all(tenants.map(act));

/** How long it took until every tenant had some answers. */
async function recovery(): Promise<number> {
  const startedMs = Date.now();
  await everyTenant(({ load }) => load.more(8)).catch(async (error: Error) => {
    const logs = [cluster.logTails(), ...nodes.map((node) => node.logTail())];
    throw new Error(`${error.message}\n${JSON.stringify(await cluster.members())}\n${logs.join('\n')}`);
  });
  return Date.now() - startedMs;
}

/** The logged error of a reply with an incident. */
function causeOf(reply: string): string {
  const [, incident] = /incident ([\w-]+)/.exec(reply) ?? [];
  const lines = outputs.flatMap((output) => output.join('').split('\n'));
  return lines.find((line) => incident !== undefined && line.includes(incident)) ?? '';
}

/** Looks into the store of the primary, which may change meanwhile: an effect of a fault can be late. */
const look = <T>(at: (store: Store) => Promise<T>): Promise<T> =>
  eventually(() => lookInto(cluster.url(), at), 120_000);

const allIdle = () =>
  until(
    'every agent idle',
    () => look((store) => store.agentsNotIdle()),
    (found) => found.length === 0,
    120_000,
  );

test('a cluster whose parts are killed one after another loses nothing that it acknowledged', async () => {
  let slowestMs = 0;
  for (const [index, kind] of kindsInOrder().entries()) {
    await everyTenant((tenant) => tenant.beginFault(index));
    for (const { load } of tenants) load.open(2);
    await everyTenant(({ load }) => load.more(random.between(5, 20)));
    const { what, repair } = await faults[kind]();
    const findLost = tenants.map(({ load }) => load.snapshot());
    process.stdout.write(`  fault ${index + 1} of ${count}: ${what}`);
    const tookMs = await recovery();
    process.stdout.write(`, recovered in ${tookMs} ms\n`);
    slowestMs = Math.max(slowestMs, tookMs);
    for (const find of findLost) expect(await look(find), `acknowledged and lost after ${what}`).toEqual([]);
    await everyTenant(({ load }) => load.close());
    await repair();
    await cluster.healthy();
    await everyTenant((tenant) => tenant.endFault(index));
    // An agent that loses three runs in a row fails, so that each gets the time to end its run.
    await allIdle();
    for (const node of nodes) node.expectRunning();
  }
  await lookInto(cluster.url(), async (store) => {
    for (const tenant of tenants) await tenant.load.replay(store);
    for (const tenant of tenants) await tenant.check(store);
    expect(await store.violations()).toEqual([]);
  });
  const unexpected = tenants
    .flatMap(({ client }) => client.unexpected)
    .map((text) => `${text} ${causeOf(text)}`);
  expect(unexpected, 'nothing but 503, and no hang').toEqual([]);
  printFigures('cluster', {
    faults: count,
    acknowledged: tenants.reduce((sum, { load }) => sum + load.acknowledged, 0),
    lost: 0,
    retries: tenants.reduce((sum, { client }) => sum + client.retries, 0),
    'slowest recovery ms': slowestMs,
  });
});

import type { Claim, ReplyOf } from '@muster/sdk/contract';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Random } from '../simulation/random.ts';
import { Agents } from '../support/agents.ts';
import { type Api, apiOf } from '../support/api.ts';
import { runConcurrently, until } from '../support/async.ts';
import { writeResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { testGateway } from '../support/test-gateway.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { Node } from './node.ts';
import { RunnerProcess, runnerKey } from './runner-process.ts';
import { answerBy, CountingProvider, requestUsd, SpendingRun } from './spending-runs.ts';
import { Store } from './store.ts';
import { printFigures, randomOf, times, withinMs } from './tier.ts';

/** Runs on two nodes, and through kills, whose model requests go through real gateways. The provider counts what they spend. */
const races = times('MUSTER_CRASH_BUDGET_RACES', 20);
const kills = times('MUSTER_CRASH_BUDGET_KILLS', 2);
const firstSeed = times('MUSTER_CRASH_SEED', 1);
const leaseSeconds = 6;

const gateway = testGateway();
const providers = new Map<string, CountingProvider>();
beforeEach(() => {
  gateway.upstream.answer = answerBy(providers, gateway.upstream.seen);
});

let nodes: Node[] = [];
let store: Store;
beforeAll(async () => {
  const env = { MUSTER_LEASE_SECONDS: String(leaseSeconds) };
  const one = await Node.start({ runner: false, env });
  const other = await Node.start({ runner: false, databaseUrl: await one.databaseUrl(), env });
  nodes = [one, other];
  store = await Store.open(await one.databaseUrl());
});
afterAll(async () => {
  await store?.close();
  for (const node of nodes.reverse()) await node.close();
});

/** One workspace as both nodes see it, each with a runner that polls there. */
async function bothSides() {
  const [one, other] = nodes as [Node, Node];
  const { workspace, runner } = await newTestTenant(one.api);
  const apis = [one.api, apiOf({ url: other.url, key: one.key })];
  return {
    sides: apis.map((api) => ({
      agents: new Agents(api, workspace),
      runner: new FakeRunner(api.as(runner.key)),
    })),
  };
}
type Sides = Awaited<ReturnType<typeof bothSides>>['sides'];

/** What the budget over an agent has. */
async function budgetOf({ agents }: Sides[number], path: string) {
  const [budget] = (await agents.status(path)).budgets;
  if (!budget) throw new Error(`no budget over ${path}`);
  expect(budget.spentUsd).toBeGreaterThanOrEqual(0);
  expect(budget.reservedUsd).toBeGreaterThanOrEqual(0);
  return budget;
}

const usageOf = async (api: Api, workspace: string): Promise<number> => {
  const request = { interval: 'total', filter: { workspace } };
  return expectOk(await api.post<ReplyOf<'usage'>>('/v1/usage', request)).rows[0]?.costUsd ?? 0;
};

/** The budget, the usage, the agents and their runs all say what the provider has counted. */
async function expectSums(side: Sides[number], paths: readonly string[], spentUsd: number): Promise<void> {
  const budget = await budgetOf(side, paths[0] ?? '');
  expect(budget.reservedUsd).toBeCloseTo(0, 9);
  expect(budget.spentUsd).toBeCloseTo(spentUsd, 6);
  expect(await usageOf(side.agents.api, side.agents.workspace)).toBeCloseTo(spentUsd, 6);
  const statuses = await Promise.all(paths.map((path) => side.agents.status(path)));
  const runs = (await Promise.all(paths.map((path) => side.agents.runs(path)))).flat();
  for (const all of [statuses, runs])
    expect(all.reduce((sum, { cost }) => sum + cost, 0)).toBeCloseTo(spentUsd, 6);
}

const windows = ['total', 'month', '9999h'];

/** Sets a budget over all agents, in the catalog or of the root. */
async function limit(random: Random, { agents }: Sides[number], amountUsd: number): Promise<string> {
  const window = random.oneOf([...windows, 'tree']);
  if (window === 'tree') expectOk(await agents.send('agent/budget', 'root', { budgetUsd: amountUsd }));
  else
    await writeResource(agents.api, 'budget', agents.workspace, {
      amountUsd,
      window,
      workspace: agents.workspace,
    });
  return window;
}

async function claimAll(sides: Sides, paths: readonly string[]): Promise<[FakeRunner, Claim][]> {
  const claimed: [FakeRunner, Claim][] = [];
  // Each node gives its share.
  while (claimed.length < paths.length) {
    const { runner } = sides[claimed.length % sides.length] as Sides[number];
    claimed.push([runner, await runner.claim({ free: { real: 1, rehearsed: 1 } })]);
  }
  return claimed;
}

interface Counts {
  requests: number;
  refused: number;
  kinds: Record<string, number>;
  mostOverUsd: number;
}

/** Runs on both nodes spend as much as one budget gives them. Answers of some races cost more than was reserved. */
async function race(seed: number, counts: Counts): Promise<void> {
  const random = randomOf(seed);
  const { sides } = await bothSides();
  const [here, there] = sides as [Sides[number], Sides[number]];
  const prefix = `${here.agents.workspace}/`;
  const isHonest = random.chance(0.6);
  const provider = new CountingProvider(() => (isHonest ? random.next() : 0.5 + 2 * random.next()));
  providers.set(prefix, provider);
  const paths = ['root', ...Array.from({ length: random.between(3, 6) }, (_, i) => `root/child-${i}`)];
  for (const path of paths) await here.agents.spawn(path);
  const claimed = await claimAll(sides, paths);
  const amountUsd = random.below(4) === 0 ? random.below(4) * requestUsd : random.next() * 3 * requestUsd;
  const kind = await limit(random, random.oneOf(sides), amountUsd);
  const runs = await Promise.all(
    claimed.map(([runner, claim]) =>
      SpendingRun.open(gateway, runner, claim, `${prefix}${claim.agentId.agent.join('/')}`),
    ),
  );
  // An answer may cost more than its request had reserved, so a run with several at a time may exceed it by as many.
  const width = isHonest ? 2 : 1;
  const mostUsd = amountUsd + (isHonest ? 0 : paths.length * 2.5 * requestUsd);
  let isOver = false;
  const working = Promise.all(runs.map((run) => run.work(3, width))).finally(() => {
    isOver = true;
  });
  while (!isOver) {
    const { spentUsd, reservedUsd } = await budgetOf(random.oneOf(sides), 'root');
    if (isHonest) expect(spentUsd + reservedUsd, `seed ${seed}`).toBeLessThanOrEqual(mostUsd + 1e-6);
  }
  await working;
  await Promise.all(runs.map((run) => run.end()));
  const spentUsd = provider.totalOf(prefix);
  expect(spentUsd, `seed ${seed}: ${kind}`).toBeLessThanOrEqual(mostUsd + 1e-6);
  await expectSums(there, paths, spentUsd);
  counts.refused += runs.filter(({ isRefused }) => isRefused).length;
  counts.requests += runs.length;
  counts.kinds[kind] = (counts.kinds[kind] ?? 0) + 1;
  counts.mostOverUsd = Math.max(counts.mostOverUsd, spentUsd - amountUsd);
}

test(
  'runs on two nodes spend no more than their budget has, whatever it is over',
  withinMs(races, 2_000),
  async () => {
    const counts: Counts = { requests: 0, refused: 0, kinds: {}, mostOverUsd: 0 };
    await runConcurrently(races, 4, (index) => race(firstSeed * 1_000_000 + index, counts));
    expect(await store.violations()).toEqual([]);
    expect(counts.refused).toBeGreaterThan(0);
    printFigures('races for budgets', {
      ...{ races, runs: counts.requests, 'runs refused': counts.refused },
      ...counts.kinds,
      'most above a budget, by answers that cost more than was reserved': counts.mostOverUsd.toFixed(2),
    });
  },
);

describe('a kill -9', () => {
  test('of a service leaves what is reserved, and its runs go on', withinMs(kills, 20_000), async () => {
    const [one] = nodes as [Node, Node];
    const { sides } = await bothSides();
    const [here] = sides as [Sides[number]];
    const prefix = `${here.agents.workspace}/`;
    const random = randomOf(firstSeed);
    const provider = new CountingProvider(() => random.next());
    providers.set(prefix, provider);
    const paths = ['root', 'root/b', 'root/c', 'root/d'];
    for (const path of paths) await here.agents.spawn(path);
    const claimed = await claimAll([here, here], paths);
    await limit(random, here, 8 * requestUsd);
    const runs = await Promise.all(
      claimed.map(([runner, claim]) =>
        SpendingRun.open(gateway, runner, claim, `${prefix}${claim.agentId.agent.join('/')}`),
      ),
    );
    await Promise.all(runs.map((run) => run.work(1, 1)));
    await Promise.all(runs.map((run) => run.reported()));
    for (let kill = 1; kill <= kills; kill += 1) {
      const before = await budgetOf(here, 'root');
      expect(before.reservedUsd).toBeGreaterThan(0);
      await one.kill();
      await one.start();
      const after = await budgetOf(here, 'root');
      expect(after.reservedUsd).toBeCloseTo(before.reservedUsd, 9);
      expect(after.spentUsd).toBeCloseTo(before.spentUsd, 9);
      // Of these some have no reply when it is killed: they are repeated.
      const working = Promise.all(runs.map((run) => run.work(1, 1)));
      await one.kill();
      await one.start();
      await working;
      await Promise.all(runs.map((run) => run.reported()));
    }
    await Promise.all(runs.map((run) => run.work(4, 2)));
    expect(runs.some(({ isRefused }) => isRefused)).toBe(true);
    await Promise.all(runs.map((run) => run.end()));
    const spentUsd = provider.totalOf(prefix);
    expect(spentUsd).toBeLessThanOrEqual(8 * requestUsd + 1e-6);
    await expectSums(here, paths, spentUsd);
  });

  test('of a runner returns its credit when its run is lost', async () => {
    const [one] = nodes as [Node, Node];
    const { workspace } = await newTestTenant(one.api);
    const agents = new Agents(one.api, workspace);
    await writeResource(one.api, 'budget', workspace, { amountUsd: 5, workspace });
    const runner = await RunnerProcess.start(one.url, await runnerKey(one.api, workspace), workspace);
    try {
      await agents.spawn('a', { description: '!usage 1 0 1 0.5\n!sleep 600' });
      const side = { agents, runner: new FakeRunner(one.api) };
      await until(
        'its usage',
        () => budgetOf(side, 'a'),
        ({ spentUsd, reservedUsd }) => spentUsd > 0 && reservedUsd > 0,
      );
      await runner.kill();
      await until(
        'its credit back',
        () => budgetOf(side, 'a'),
        ({ reservedUsd }) => reservedUsd === 0,
      );
      expect((await agents.runs('a')).map(({ outcome }) => outcome)).toEqual(['LOST']);
      await expectSums(side, ['a'], 0.5);
    } finally {
      await runner.close();
    }
  });
});

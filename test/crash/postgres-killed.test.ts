import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { Load } from './load.ts';
import { Node } from './node.ts';
import { attempt, RetryingClient } from './retrying-client.ts';
import { lookInto } from './store.ts';
import { printFigures, randomOf, times, withinMs } from './tier.ts';

const kills = times('MUSTER_CRASH_POSTGRES_KILLS', 2);
const random = randomOf(times('MUSTER_CRASH_SEED', 1));

let node: Node;
beforeAll(async () => {
  node = await Node.start({ embedded: true });
});
afterAll(() => node?.close());

const isReady = async (): Promise<boolean> => {
  const seen = await attempt(node, { method: 'GET', path: '/readyz' });
  return typeof seen === 'object' && seen.status === 200;
};

/** Every agent becomes idle, every request had its one effect, and the rules hold. */
async function settle(load: Load): Promise<void> {
  await lookInto(await node.databaseUrl(), async (store) => {
    await until(
      'every agent idle',
      () => store.agentsNotIdle(),
      (found) => found.length === 0,
    );
    await load.replay(store);
    await load.checkCounts(store);
    expect(await store.violations()).toEqual([]);
  });
}

test(
  'the service recovers when its PostgreSQL is killed under load, and loses nothing it acknowledged',
  withinMs(kills, 20_000),
  async () => {
    const client = new RetryingClient(node, { check: node.expectRunning });
    const load = new Load(client, 'postgres');
    let longestGapMs = 0;
    for (let kill = 1; kill <= kills; kill += 1) {
      load.open();
      await load.more(random.between(5, 40));
      const killed = node.postmaster();
      process.kill(killed, 'SIGKILL');
      const killedMs = Date.now();
      const findLost = load.snapshot();

      await until('the service ready with another PostgreSQL', isReady, (ready) => {
        node.expectRunning();
        return ready && node.postmaster() !== killed;
      });
      longestGapMs = Math.max(longestGapMs, Date.now() - killedMs);
      expect(await lookInto(await node.databaseUrl(), findLost), 'acknowledged and lost').toEqual([]);
      await load.more(10);
      await load.close();
    }
    await settle(load);
    expect(client.unexpected, 'nothing but 503, and no hang').toEqual([]);
    printFigures('PostgreSQL killed', {
      kills,
      acknowledged: load.acknowledged,
      lost: 0,
      retries: client.retries,
      'longest gap ms': longestGapMs,
    });
  },
);

test('a killed node with an embedded PostgreSQL starts again on the same folder', async () => {
  const client = new RetryingClient(node);
  const load = new Load(client, 'both');
  load.open();
  await load.more(20);
  await node.kill();
  const findLost = load.snapshot();
  await node.start();
  expect(await lookInto(await node.databaseUrl(), findLost), 'acknowledged and lost').toEqual([]);
  await load.close();
  await settle(load);
  expect(client.unexpected).toEqual([]);
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { statusOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { Load } from './load.ts';
import { Node } from './node.ts';
import { RetryingClient } from './retrying-client.ts';
import { lookInto, type Store } from './store.ts';
import { printFigures, randomOf, times, withinMs } from './tier.ts';

const kills = times('MUSTER_CRASH_NODE_KILLS', 3);
const random = randomOf(times('MUSTER_CRASH_SEED', 1));

let node: Node;
beforeAll(async () => {
  node = await Node.start();
});
afterAll(() => node?.close());

const allIdle = (store: Store) =>
  until(
    'every agent idle',
    () => store.agentsNotIdle(),
    (found) => found.length === 0,
  );

test(
  'a node that is killed under load loses nothing it acknowledged, and continues its agents after a restart',
  withinMs(kills, 20_000),
  async () => {
    const client = new RetryingClient(node);
    const load = new Load(client, 'load');
    const databaseUrl = await node.databaseUrl();
    let slowestStartMs = 0;

    for (let kill = 1; kill <= kills; kill += 1) {
      const working = `working-${kill}`;
      await client.accepted({
        path: '/v1/agent/spawn',
        body: {
          agentId: { agent: [working] },
          description: '!sleep 2\n!say survived',
          model: 'rehearsal-a',
        },
        headers: { 'idempotency-key': working },
      });
      await until(
        `${working} working`,
        () => statusOf(node.api, working),
        ({ run }) => run?.state === 'RUNNING',
      );
      load.open();
      await load.more(random.between(5, 30));
      await node.kill();

      const findLost = load.snapshot();
      const startedMs = Date.now();
      await node.start();
      slowestStartMs = Math.max(slowestStartMs, Date.now() - startedMs);
      expect(await lookInto(databaseUrl, findLost), 'acknowledged and lost').toEqual([]);
      await load.close();
      // An agent that loses three runs in a row fails, so it gets the time to end its run after every second kill.
      if (kill % 2 === 0) await lookInto(databaseUrl, allIdle);
    }

    await lookInto(databaseUrl, async (store) => {
      await allIdle(store);
      for (let kill = 1; kill <= kills; kill += 1) {
        const { phase, response } = await statusOf(node.api, `working-${kill}`);
        expect([phase, response]).toEqual(['PHASE_WAITING_FOR_INPUT', 'survived']);
      }
      await load.replay(store);
      await load.checkCounts(store);
      expect(await store.violations()).toEqual([]);
    });
    expect(client.unexpected).toEqual([]);
    printFigures('node killed', {
      kills,
      acknowledged: load.acknowledged,
      lost: 0,
      retries: client.retries,
      'slowest start ms': slowestStartMs,
    });
  },
);

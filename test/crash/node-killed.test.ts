import type { AgentStatus } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { statusOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { Load } from './load.ts';
import { Node } from './node.ts';
import { RetryingClient } from './retrying-client.ts';
import { lookInto, type Store } from './store.ts';
import { printFigures, randomOf, times, withinMs } from './tier.ts';

const kills = times('MUSTER_CRASH_NODE_KILLS', 6);
const random = randomOf(times('MUSTER_CRASH_SEED', 1));

let node: Node;
beforeAll(async () => {
  node = await Node.start();
});
afterAll(() => node?.close());

const allAtRest = (store: Store) =>
  until(
    'every agent at rest',
    () => store.agentsNotIdle(),
    (found) => found.length === 0,
  );
const rests = ({ phase }: AgentStatus) => phase === 'PHASE_WAITING_FOR_INPUT';

test(
  'a node that is killed under load loses nothing it acknowledged, and continues its agents after a restart',
  withinMs(kills, 20_000),
  async () => {
    const client = new RetryingClient(node);
    const load = new Load(client, 'load');
    const databaseUrl = await node.databaseUrl();
    let slowestStartMs = 0;

    for (let kill = 1; kill <= kills; kill += 1) {
      load.open();
      const atWork = `at-work-${kill}`;
      await client.accepted({
        path: '/v1/agent/spawn',
        body: {
          agentId: { agent: [atWork] },
          description: '!sleep 0.4\n!say survived',
          model: 'rehearsal-a',
        },
        headers: { 'idempotency-key': atWork },
      });
      await until(
        `${atWork} at work`,
        () => statusOf(node.api, atWork),
        ({ run }) => run?.state === 'RUNNING',
      );
      await load.more(random.between(5, 30));
      await node.kill();

      const findLost = load.snapshot();
      const startedMs = Date.now();
      await node.start();
      slowestStartMs = Math.max(slowestStartMs, Date.now() - startedMs);
      expect(await lookInto(databaseUrl, findLost), 'acknowledged and lost').toEqual([]);
      await load.close();
      const survivor = await until(`${atWork} taken over`, () => statusOf(node.api, atWork), rests);
      expect(survivor.response).toBe('survived');
      // Whoever loses three runs in a row has failed, by the rules; so every second kill meets agents that had time.
      if (kill % 2 === 0) await lookInto(databaseUrl, allAtRest);
    }

    await lookInto(databaseUrl, async (store) => {
      await allAtRest(store);
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

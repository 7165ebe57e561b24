import { MusterClient, type TimelineEntry } from '@muster/sdk';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { writeResource } from '../support/catalog.ts';
import { workerPids } from '../support/workers.ts';
import { Load } from './load.ts';
import { Node } from './node.ts';
import { RetryingClient } from './retrying-client.ts';
import { lookInto } from './store.ts';
import { printFigures, randomOf, times, withinMs } from './tier.ts';

const kills = times('MUSTER_CRASH_WORKER_KILLS', 2);
const random = randomOf(times('MUSTER_CRASH_SEED', 1));

let node: Node;
beforeAll(async () => {
  node = await Node.start({ env: { MUSTER_WORKERS: '2' } });
});
afterAll(() => node?.close());

const metrics = (): Promise<string> =>
  fetch(`${node.url}/metrics`).then(
    (reply) => reply.text(),
    () => '',
  );

/** All requests that the workers have counted. */
const requestsIn = (text: string): number =>
  [...text.matchAll(/^muster_http_request_seconds_count\{.*\} (\d+)$/gm)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );

/** Resolves when another process has taken the place of this worker. */
const replaced = (pid: number) =>
  until(
    'two workers',
    async () => ({ pids: [...workerPids(node.server).values()], text: await metrics() }),
    ({ pids, text }) => pids.length === 2 && !pids.includes(pid) && /^muster_workers 2$/m.test(text),
  );

test(
  'a killed worker loses nothing it acknowledged; the other one serves requests, waits and streams until it is replaced',
  withinMs(kills, 20_000),
  async () => {
    const databaseUrl = await node.databaseUrl();
    const client = new RetryingClient(node, { check: node.expectRunning });
    const load = new Load(client, 'load');
    const sdk = new MusterClient({ url: node.url, apiKey: node.key });
    await writeResource(node.api, 'pool', 'without-runner', {});
    await writeResource(node.api, 'workspace', 'pending', { pool: 'without-runner' });
    const agentId = { workspace: 'pending', agent: ['watched'] };
    await sdk.spawn({ path: agentId, description: 'x' });
    // Their connections are spread over both workers.
    const waits = Array.from({ length: 4 }, () => sdk.wait(agentId));
    const closing = new AbortController();
    const seen = Array.from({ length: 4 }, (): TimelineEntry[] => []);
    const streams = seen.map(async (entries) => {
      for await (const entry of sdk.timelineStream(agentId, closing)) entries.push(entry);
    });

    load.open(1);
    for (let kill = 1; kill <= kills; kill += 1) {
      await load.more(random.between(5, 30));
      const before = await metrics();
      // By turns, because the first one has the runner.
      const pid = workerPids(node.server).get(1 + (kill % 2)) ?? 0;
      process.kill(pid, 'SIGKILL');
      await sdk.queue(agentId, `message ${kill}`);
      const { text } = await replaced(pid);
      expect(requestsIn(text), 'requests').toBeGreaterThanOrEqual(requestsIn(before));
    }
    await load.close();

    await sdk.kill(agentId);
    for (const wait of waits) expect((await wait).phase).toBe('PHASE_CANCELED');
    const all: TimelineEntry[] = [];
    for await (const entry of sdk.timelineAll(agentId)) all.push(entry);
    await until(
      'the last entry',
      async () => seen.map(({ length }) => length),
      (lengths) => lengths.every((length) => length >= all.length),
    );
    closing.abort();
    await Promise.all(streams);
    expect(seen).toEqual(seen.map(() => all));
    await lookInto(databaseUrl, async (store) => {
      await until(
        'every agent idle',
        () => store.agentsNotIdle(),
        (found) => found.length === 0,
      );
      expect(await load.snapshot()(store), 'acknowledged and lost').toEqual([]);
      await load.replay(store);
      await load.checkCounts(store);
      expect(await store.violations()).toEqual([]);
    });
    expect(client.unexpected).toEqual([]);
    printFigures('worker killed', {
      kills,
      acknowledged: load.acknowledged,
      lost: 0,
      retries: client.retries,
    });
  },
);

import { expect, test } from 'vitest';
import { Metrics, SummedMetrics } from './metrics.ts';

/** The metrics of a worker, as they arrive from its process. */
async function worker(requests: number, waits: number) {
  const metrics = new Metrics(() => requests);
  for (let i = 0; i < requests; i += 1)
    metrics.requests.observe({ method: 'GET', route: '/x', status: 200 }, 0.01);
  metrics.longReplies.set({ kind: 'wait' }, waits);
  return JSON.parse(JSON.stringify(await metrics.registry.getMetricsAsJSON()));
}

const valueIn = (text: string, name: string): number =>
  Number(
    text
      .split('\n')
      .find((line) => line.startsWith(name) && !line.startsWith('#'))
      ?.split(' ')
      .at(-1),
  );

const valuesIn = (text: string) => ({
  workers: valueIn(text, 'muster_workers'),
  requests: valueIn(text, 'muster_http_request_seconds_count{'),
  within5Ms: valueIn(text, 'muster_http_request_seconds_bucket{le="0.005"'),
  within25Ms: valueIn(text, 'muster_http_request_seconds_bucket{le="0.025"'),
  queries: valueIn(text, 'muster_store_queries_total'),
  waits: valueIn(text, 'muster_long_replies_open{kind="wait"}'),
});

test('the metrics of workers are added up', async () => {
  const summed = new SummedMetrics();
  const text = await summed.sum(
    new Map([
      [1, await worker(3, 2)],
      [2, await worker(4, 5)],
    ]),
  );
  expect(valuesIn(text)).toEqual({
    workers: 2,
    requests: 7,
    within5Ms: 0,
    within25Ms: 7,
    queries: 7,
    waits: 7,
  });
  expect(valueIn(text, 'process_resident_memory_bytes')).toBeGreaterThan(process.memoryUsage.rss());
});

test('what a worker that ended had counted stays in the sum, and what it had open does not', async () => {
  const summed = new SummedMetrics();
  await summed.sum(
    new Map([
      [1, await worker(3, 2)],
      [2, await worker(4, 5)],
    ]),
  );
  summed.left(1);
  const others = new Map([[2, await worker(4, 6)]]);
  expect(valuesIn(await summed.sum(others))).toMatchObject({ workers: 1, requests: 7, queries: 7, waits: 6 });
  const text = await summed.sum(new Map([[1, await worker(2, 1)], ...others]));
  expect(valuesIn(text)).toMatchObject({ workers: 2, requests: 9, within25Ms: 9, queries: 9, waits: 7 });
  for (const number of [1, 2]) summed.left(number);
  expect(valuesIn(await summed.sum(new Map()))).toMatchObject({ requests: 9, queries: 9 });
});

test('a worker that does not answer counts with what it said last', async () => {
  const summed = new SummedMetrics();
  await summed.sum(
    new Map([
      [1, await worker(3, 2)],
      [2, await worker(4, 5)],
    ]),
  );
  const text = await summed.sum(new Map([[2, await worker(5, 5)]]));
  expect(valuesIn(text)).toMatchObject({ workers: 2, requests: 8, waits: 7 });
});

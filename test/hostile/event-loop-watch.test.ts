import { afterAll, expect, test } from 'vitest';
import { apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { startServer } from '../support/server.ts';
import { probeOf } from './measured-server.ts';

const probe = probeOf(`event-loop-${process.pid}`);
const server = await startServer({ runner: false, env: probe.env });
afterAll(() => server.close());

interface Stall {
  readonly msg: string;
  readonly ms: number;
  readonly cpuMs: number;
  readonly routes: readonly string[];
}

const stalls = (): Stall[] =>
  server.output
    .join('')
    .split('\n')
    .filter((line) => line.includes('"event loop stalled"'))
    .map((line) => JSON.parse(line));

const bucket = async (most: string): Promise<number> => {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const line = text
    .split('\n')
    .find((one) => one.startsWith(`muster_event_loop_delay_seconds_bucket{le="${most}"}`));
  return Number(line?.split(' ')[1]);
};

test('a stall of the event loop is logged with the routes of that moment, and counted', async () => {
  const before = (await bucket('+Inf')) - (await bucket('0.2'));
  // The request may arrive before or after the stall.
  const stallOfRoute = async () => {
    await Promise.all([apiOf(server).post('/v1/agents'), probe.block(400)]);
    return stalls().find(({ routes }) => routes.includes('POST /v1/agents'));
  };
  const logged = await until('a stall of the route', stallOfRoute, (stall) => stall !== undefined);
  expect(logged?.ms).toBeGreaterThan(200);
  expect(logged?.cpuMs).toBeGreaterThan(0);
  expect((await bucket('+Inf')) - (await bucket('0.2'))).toBeGreaterThan(before);
});

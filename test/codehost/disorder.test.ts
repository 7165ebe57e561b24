import { afterAll, beforeAll, describe, it } from 'vitest';
import type { Server } from '../support/server.ts';
import { FakeGithub } from './github.ts';
import { longTestMs } from './patience.ts';
import { Scenario, startFor } from './scenario.ts';

let hosts: FakeGithub[];
let server: Server;
beforeAll(async () => {
  hosts = [await FakeGithub.start(), await FakeGithub.start()];
  server = await startFor(...hosts);
}, longTestMs);
afterAll(() => server.close());

const replies = [
  { status: 500 },
  { status: 502 },
  { status: 429, headers: { 'retry-after': '1' } },
  'cut',
] as const;

/** Deliveries that arrive twice, in reverse order or not at all, and a host that fails: the result is the same. */
describe('from an issue to a merged change', () => {
  it.concurrent(
    'with every delivery sent twice, and errors of the host',
    async ({ onTestFinished }) => {
      const host = hosts[0] as FakeGithub;
      const scenario = await Scenario.start(host, {}, server);
      onTestFinished(() => scenario.close());
      host.deliveries.copies = 2;
      for (const [i, [, run]] of scenario.steps.entries()) {
        const reply = replies[i % replies.length] ?? 'cut';
        host.faults.add({ method: 'POST', path: /comments|replies|graphql/, reply, isAfter: i % 2 === 0 });
        host.faults.add({ method: 'GET', path: /./, reply });
        await run();
        host.faults.clear();
      }
      await scenario.expectEnd();
    },
    longTestMs,
  );

  it.concurrent(
    'with the deliveries of each step in reverse order',
    async ({ onTestFinished }) => {
      const host = hosts[1] as FakeGithub;
      const scenario = await Scenario.start(host, {}, server);
      onTestFinished(() => scenario.close());
      for (const [, run] of scenario.steps) {
        host.deliveries.hold();
        const release = setInterval(() => {
          host.deliveries.release({ isReversed: true });
          host.deliveries.hold();
        }, 500);
        try {
          await run();
        } finally {
          clearInterval(release);
          host.deliveries.release({ isReversed: true });
        }
      }
      await scenario.expectEnd();
    },
    longTestMs,
  );
});

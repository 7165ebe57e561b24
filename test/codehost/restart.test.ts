import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { FakeGithub } from './github.ts';
import { longTestMs } from './patience.ts';
import { PlayedAgents } from './played-agents.ts';
import { Scenario } from './scenario.ts';
import { TriggeredAgent } from './triggered-agent.ts';

const mostMs = 30_000;

let host: FakeGithub;
let scenario: Scenario;
beforeAll(async () => {
  host = await FakeGithub.start();
  scenario = await Scenario.startWithoutRunner(host);
}, longTestMs);
afterAll(() => scenario.close());

/** As after an hour without changes: the host has said long ago whether there is a conflict. */
async function postponeComparisons(databaseUrl: string): Promise<void> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await client.query("UPDATE change_requests SET next_at = now() + interval '1 hour', is_claimed = false");
  await client.end();
}

it(
  'a review that came while the service was down is told within 30 seconds of its start, without a delivery',
  async () => {
    const played = await PlayedAgents.start(host, scenario.api);
    const agent = await TriggeredAgent.start(host, scenario, played);
    await agent.push('hello');
    const { number } = await agent.opened();
    await agent.atRest();
    await agent.compare();
    played.stop();
    await scenario.server.end('SIGKILL');
    await postponeComparisons(scenario.server.databaseUrl);
    host.deliveries.hold();
    const threads = [{ path: 'a.txt', line: 1, body: 'Written while nobody listened.' }];
    await host.review(number, { by: 'reviewer', verdict: 'CHANGES_REQUESTED', threads });
    host.deliveries.release({ drop: true });
    await scenario.restart();
    const startedMs = Date.now();
    await agent.untilTold(/Written while nobody listened/);
    expect(Date.now() - startedMs).toBeLessThan(mostMs);
  },
  longTestMs,
);

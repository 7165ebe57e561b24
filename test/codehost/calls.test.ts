import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { type Server, startServer } from '../support/server.ts';
import { FakeGithub } from './github.ts';
import { longTestMs } from './patience.ts';
import { PlayedAgents } from './played-agents.ts';
import { envFor, Scenario } from './scenario.ts';
import { TriggeredAgent } from './triggered-agent.ts';

/** Answers are posted about one per second. */
const comments = Number(process.env.MUSTER_CODEHOST_COMMENTS ?? 8);
/** Of all comparisons while the answers are posted, and of what is asked once. */
const perComment = 0.5;
const others = 60;

let host: FakeGithub;
let server: Server;
beforeAll(async () => {
  host = await FakeGithub.start();
  // The time within which deliveries are collected derives from this one.
  const env = { ...envFor(host), MUSTER_REVIEW_SETTLE_SECONDS: '30' };
  server = await startServer({ env, runner: false });
}, longTestMs);
afterAll(async () => {
  await server?.close();
  await host?.stop();
});

it(
  `a review with ${comments} comments takes two calls for each, and few more`,
  async ({ onTestFinished }) => {
    const scenario = await Scenario.start(host, {}, server);
    const played = await PlayedAgents.start(host, scenario.api);
    onTestFinished(async () => {
      played.stop();
      await scenario.close();
    });
    const agent = await TriggeredAgent.start(host, scenario, played);
    await agent.push('hello');
    const { number } = await agent.opened();
    await agent.atRest();
    const threads = Array.from({ length: comments }, (_, i) => ({
      ...{ path: 'a.txt', line: 1, body: `Thread ${i}.` },
    }));
    await host.review(number, { by: 'reviewer', verdict: 'COMMENTED', threads });
    const { requests } = host.server;
    const before = requests.length;
    await until(
      'an answer to each comment, and its resolution',
      async () => (await host.threads(number)).filter(({ isResolved }) => isResolved).length,
      (resolved) => resolved === comments,
      longTestMs,
      1000,
    );
    // A reply that has not changed does not count at the host.
    const counted = requests.slice(before).filter(({ status }) => status !== 304).length;
    process.stdout.write(`${comments} comments: ${counted} calls\n`);
    expect(counted).toBeLessThan((2 + perComment) * comments + others);
  },
  longTestMs,
);

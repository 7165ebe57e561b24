import { expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { LifeTests } from './life-tests.ts';
import { longTestMs } from './patience.ts';

/** Answers are posted about one per second. */
const comments = Number(process.env.MUSTER_CODEHOST_COMMENTS ?? 8);
/** Of all comparisons while the answers are posted, and of what is asked once. */
const perComment = 0.5;
const others = 60;
const jobs = 40;

// The time within which deliveries are collected derives from this one.
const tests = new LifeTests(2, { MUSTER_REVIEW_SETTLE_SECONDS: '30' });

it(
  `a review with ${comments} comments takes two calls for each, and few more`,
  async ({ onTestFinished }) => {
    const { agent, number } = await tests.openRequest(onTestFinished);
    const { host } = agent;
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

it(
  `${jobs} jobs of one push are few comparisons`,
  async ({ onTestFinished }) => {
    const { agent, number } = await tests.openRequest(onTestFinished);
    const { host } = agent;
    const { headSha } = await agent.compare();
    const { requests } = host.server;
    const [before, startedMs] = [requests.length, Date.now()];
    const names = Array.from({ length: jobs }, (_, i) => `job ${i}`);
    for (const state of ['PENDING', 'PASSED'] as const)
      for (const name of names) await host.setCheck(headSha, { name, state });
    await agent.scenario.untilRequest('passing checks', ({ checks }) => checks.state === 'PASSING');
    const seconds = (Date.now() - startedMs) / 1000;
    const asked = requests.slice(before);
    const compared = asked.filter(({ request }) => request.endsWith(`/pulls/${number}`)).length;
    const counted = asked.filter(({ status }) => status !== 304).length;
    process.stdout.write(
      `${jobs} jobs in ${Math.round(seconds)} s: ${compared} comparisons, ${counted} calls\n`,
    );
    expect(compared).toBeLessThanOrEqual(2 + seconds / 3);
    expect(counted).toBeLessThan(10 * compared);
  },
  longTestMs,
);

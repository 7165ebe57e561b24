import { InstantRunner, runnerKey } from './instant-runner.ts';
import { ceiling, say } from './report.ts';
import { median, percentile, pgbench, post, type Service, startService } from './tools.ts';

const everyMs = 10;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** How soon a message reaches a runner and a change its waits, with one process and with two workers. */
export async function latency(): Promise<void> {
  for (const workers of [1, 2]) {
    const service = await startService({ MUSTER_RUNNER: 'off' }, ['--workers', String(workers)]);
    const label = workers === 1 ? 'one worker' : `${workers} workers`;
    await sayBaseline(service);
    const claim = await followUpToClaim(service, 1_000);
    const wake = await waitToWake(service, 2_500);
    await service.close();
    say(
      `      ${label}: follow-up → claimed p50 ${claim.p50.toFixed(1)} ms (goal <= 10), wait → woken p50 ${wake.p50.toFixed(1)} ms`,
    );
    ceiling(`follow-up → claimed at 100/s, ${label}, p99 in ms`, claim.p99, 50);
    ceiling(`wait → woken at 100/s, 2,000 open, ${label}, p99 in ms`, wake.p99, 50);
  }
}

/** What an empty commit and a bare round trip take at the same time. */
async function sayBaseline(service: Service): Promise<void> {
  await service.database.query('CREATE TABLE bench_commits (n int)');
  const commits = await pgbench(service, 'empty-commit.pgbench.sql', 3, 1);
  const trips: number[] = [];
  for (let i = 0; i < 300; i += 1) {
    const from = performance.now();
    await (await fetch(`${service.url}/healthz`)).text();
    trips.push(performance.now() - from);
  }
  say(
    `      an empty commit takes ${(1000 / commits).toFixed(2)} ms, a bare round trip ${median(trips).toFixed(2)} ms`,
  );
}

/** Follow-ups to idle agents at 100 per second: from the request to the claim at the runner. */
async function followUpToClaim(service: Service, count: number) {
  const runner = new InstantRunner({ url: service.url, key: await runnerKey(service) });
  const running = runner.run();
  const names = Array.from({ length: count }, (_, i) => `latency-${i}`);
  for (const name of names)
    await post(service, '/v1/agent/spawn', { agentId: { agent: [name] }, description: 'rest' });
  for (const name of names) await post(service, '/v1/agent/wait', { agentId: { agent: [name] } });
  const sendToAll = async (): Promise<number[]> => {
    const delays: Promise<number>[] = [];
    for (const name of names) {
      const claimed = runner.nextClaim(name);
      const sentAt = performance.now();
      const sent = post(service, '/v1/agent/queue', { agentId: { agent: [name] }, description: 'go' });
      delays.push(Promise.all([claimed, sent]).then(([claimedAt]) => claimedAt - sentAt));
      await sleep(everyMs);
    }
    return Promise.all(delays);
  };
  // Two rounds do not count: Node compiles the code meanwhile, on the same processors.
  await sendToAll();
  await sendToAll();
  const delays = await sendToAll();
  runner.stop();
  await running;
  return { p50: percentile(delays, 0.5), p99: percentile(delays, 0.99) };
}

/** Open waits, woken one at a time at 100 per second: from the request that ends one to its reply. */
async function waitToWake(service: Service, count: number) {
  const names = Array.from({ length: count }, (_, i) => `wake-${i}`);
  const spawned: Promise<unknown>[] = [];
  for (const name of names) {
    spawned.push(post(service, '/v1/agent/spawn', { agentId: { agent: [name] }, description: 'x' }));
    if (spawned.length % 64 === 0) await Promise.all(spawned);
  }
  await Promise.all(spawned);
  const wokenAt = new Map<string, number>();
  const waits = names.map((name) =>
    post(service, '/v1/agent/wait', { agentId: { agent: [name] } }).then(() =>
      wokenAt.set(name, performance.now()),
    ),
  );
  await sleep(3_000);
  const killedAt = new Map<string, number>();
  for (const name of names.slice(0, 1_000)) {
    void post(service, '/v1/agent/kill', { agentId: { agent: [name] } });
    killedAt.set(name, performance.now());
    await sleep(everyMs);
  }
  // The first half does not count, as above.
  const woken = names.slice(500, 1_000);
  while (woken.some((name) => !wokenAt.has(name))) await sleep(10);
  const delays = woken.map((name) => (wokenAt.get(name) ?? 0) - (killedAt.get(name) ?? 0));
  for (const name of names.slice(1_000))
    void post(service, '/v1/agent/kill', { agentId: { agent: [name] } }).catch(() => {});
  await Promise.allSettled(waits);
  return { p50: percentile(delays, 0.5), p99: percentile(delays, 0.99) };
}

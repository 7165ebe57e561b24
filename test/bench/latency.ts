import { InstantRunner, runnerKey } from './instant-runner.ts';
import { say } from './report.ts';
import { percentile, pgbench, post, type Service, startService } from './tools.ts';

const everyMs = 10;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export async function latency(): Promise<void> {
  const service = await startService({ MUSTER_RUNNER: 'off' });
  await service.database.query('CREATE TABLE bench_commits (n int)');
  const commits = await pgbench(service, 'empty-commit.pgbench.sql', 3, 1);
  const trips: number[] = [];
  for (let i = 0; i < 300; i += 1) {
    const from = performance.now();
    await (await fetch(`${service.url}/healthz`)).text();
    trips.push(performance.now() - from);
  }
  trips.sort((a, b) => a - b);
  say(
    `      beside: an empty commit takes ${(1000 / commits).toFixed(2)} ms, a bare round trip ${(trips[150] ?? 0).toFixed(2)} ms`,
  );
  const claim = await followUpToClaim(service, 1_000);
  say(
    `goal  follow-up → claimed at 100/s: p50 ${claim.p50.toFixed(1)} ms (goal <= 10), p99 ${claim.p99.toFixed(1)} ms (goal <= 50)`,
  );
  await claim.running;
  const wake = await waitToWake(service, 2_000);
  say(
    `goal  wait → woken, 2,000 open, 100/s: p50 ${wake.p50.toFixed(1)} ms, p99 ${wake.p99.toFixed(1)} ms (goal p99 <= 50)`,
  );
  await service.close();
}

/** Follow-ups to idle agents at 100 per second: from the request to the claim at the runner. */
async function followUpToClaim(service: Service, count: number) {
  const runner = new InstantRunner({ url: service.url, key: await runnerKey(service) });
  const running = runner.run();
  const names = Array.from({ length: count }, (_, i) => `latency-${i}`);
  for (const name of names)
    await post(service, '/v1/agent/spawn', { agentId: { agent: [name] }, description: 'rest' });
  for (const name of names) await post(service, '/v1/agent/wait', { agentId: { agent: [name] } });
  const delays: number[] = [];
  const pending: Promise<void>[] = [];
  for (const [i, name] of names.entries()) {
    // The first second warms the process up and does not count.
    if (i === 100) delays.length = 0;
    runner.claimedAt.delete(name);
    const sentAt = performance.now();
    pending.push(
      post(service, '/v1/agent/queue', { agentId: { agent: [name] }, description: 'go' }).then(async () => {
        while (!runner.claimedAt.has(name)) await sleep(1);
        delays.push((runner.claimedAt.get(name) ?? 0) - sentAt);
      }),
    );
    await sleep(everyMs);
  }
  await Promise.all(pending);
  runner.stop();
  return { p50: percentile(delays, 0.5), p99: percentile(delays, 0.99), running };
}

/** 2,000 waits open, woken one at a time at 100 per second: from the commit's reply to the wait's. */
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
  for (const name of names.slice(0, 500)) {
    void post(service, '/v1/agent/kill', { agentId: { agent: [name] } });
    killedAt.set(name, performance.now());
    await sleep(everyMs);
  }
  const woken = names.slice(0, 500);
  while (woken.some((name) => !wokenAt.has(name))) await sleep(10);
  const delays = woken.map((name) => (wokenAt.get(name) ?? 0) - (killedAt.get(name) ?? 0));
  for (const name of names.slice(500))
    void post(service, '/v1/agent/kill', { agentId: { agent: [name] } }).catch(() => {});
  await Promise.allSettled(waits);
  return { p50: percentile(delays, 0.5), p99: percentile(delays, 0.99) };
}

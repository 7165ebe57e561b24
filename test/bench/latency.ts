import { randomUUID } from 'node:crypto';
import { percentile, post, type Service } from './tools.ts';

const everyMs = 10;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

interface Claim {
  agentKey: string;
  runId: number;
  agentId: { agent: string[] };
}

/** A runner that ends every run immediately and records when it was claimed. */
export class InstantRunner {
  readonly claimedAt = new Map<string, number>();
  readonly #service: Pick<Service, 'url' | 'key'>;
  readonly #runnerId = randomUUID();
  #isOn = true;

  constructor(service: Pick<Service, 'url' | 'key'>) {
    this.#service = service;
  }

  async run(): Promise<void> {
    let runs: { agentKey: string; runId: number }[] = [];
    for (let poll = 1; this.#isOn; poll += 1) {
      const { claims } = await post<{ claims: Claim[] }>(this.#service, '/v1/runner/poll', {
        runnerId: this.#runnerId,
        name: 'bench',
        poll,
        capabilities: ['deferral', 'sandbox'],
        backends: ['BACKEND_A', 'BACKEND_B'],
        rehearses: true,
        free: { real: 8, rehearsed: 256 },
        runs,
        waitMs: 1_000,
      });
      const now = performance.now();
      for (const claim of claims) this.claimedAt.set(claim.agentId.agent.join('/'), now);
      runs = claims.map(({ agentKey, runId }) => ({ agentKey, runId }));
      await Promise.all(runs.map((run) => this.#end(run)));
    }
  }

  stop(): void {
    this.#isOn = false;
  }

  #end(run: { agentKey: string; runId: number }): Promise<unknown> {
    const report = {
      runnerId: this.#runnerId,
      ...run,
      report: 1,
      started: true,
      end: { outcome: 'COMPLETED' },
    };
    return post(this.#service, '/v1/runner/report', report);
  }
}

export async function runnerKey(service: Service): Promise<string> {
  const payload = Buffer.from(JSON.stringify({ role: 'runner', pool: 'default' })).toString('base64');
  const reply = await post<{ payload: string }>(service, `/v1/catalog/token/bench-${randomUUID()}`, {
    payload,
  });
  return (JSON.parse(Buffer.from(reply.payload, 'base64').toString()) as { key: string }).key;
}

/** Follow-ups to idle agents at 100 per second: from the request to the claim at the runner. */
export async function followUpToClaim(service: Service, count: number) {
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
export async function waitToWake(service: Service, count: number) {
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

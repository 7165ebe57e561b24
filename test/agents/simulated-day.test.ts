import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { printFigures } from '../crash/tier.ts';
import { accepted } from '../support/agents.ts';
import { createKey, uniqueName, writeResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { MusterRunner, useTestService } from './test-service.ts';

/** Without provider keys, so that the runners rehearse every model. */
const noKeys = { ANTHROPIC_API_KEY: undefined, OPENAI_API_KEY: undefined, MUSTER_SANDBOX: 'auto' };
const service = useTestService({ runner: false, env: noKeys });

/** Agents that a team spawned in each hour of a day. */
const spawnsByHour = [0, 0, 0, 0, 0, 0, 1, 2, 3, 5, 2, 1, 1, 3, 2, 2, 1, 1, 0, 0, 1, 0, 0, 0];
const busiestHour = 9;
/** How often the autoscaler looks, which is once an hour. */
const pollMs = 700;
/** More than the demand ever needs. */
const mostRunners = 12;

const pool = uniqueName('day');

/** A `muster runner` process of the autoscaler. */
interface Started {
  readonly name: string;
  readonly startedMs: number;
  readonly ready: Promise<MusterRunner>;
  exitCode: number | null;
  isDraining: boolean;
}

/** What docs/operations.md shows with other tools: it starts as many runners as `wanted` says, and they end by themselves. */
class Autoscaler {
  readonly started: Started[] = [];
  longestStartMs = 0;
  longestPollMs = 0;
  most = 0;
  readonly #key: string;
  #polledMs = performance.now();

  constructor(key: string) {
    this.#key = key;
  }

  get live(): Started[] {
    return this.started.filter(({ exitCode }) => exitCode === null);
  }

  /** One look at the demand: how many runners are wanted. */
  async poll(): Promise<number> {
    const { wanted } = expectOk(
      await service().api.as(this.#key).get<{ wanted: number }>(`/v1/pools/${pool}/demand`),
    );
    this.longestPollMs = Math.max(this.longestPollMs, performance.now() - this.#polledMs);
    this.#polledMs = performance.now();
    for (let n = this.#serving; n < Math.min(wanted, mostRunners); n += 1) this.#start();
    this.most = Math.max(this.most, this.#serving);
    return wanted;
  }

  get #serving(): number {
    return this.live.filter(({ isDraining }) => !isDraining).length;
  }

  #start(): void {
    const name = `${pool}-${this.started.length + 1}`;
    const folder = join(service().folder, name);
    mkdirSync(folder, { recursive: true });
    const ready = MusterRunner.start({
      ...{ url: service().server.url, key: this.#key, pool, folder },
      env: { MUSTER_RUNNER_NAME: name, MUSTER_SANDBOX: 'auto' },
      args: ['--idle-exit', '2s', '--max-runs', '6'],
    });
    const one: Started = { name, startedMs: performance.now(), ready, exitCode: null, isDraining: false };
    this.started.push(one);
    void ready.then(async (runner) => {
      this.longestStartMs = Math.max(this.longestStartMs, performance.now() - one.startedMs);
      if (runner.process.exitCode === null) await once(runner.process, 'exit');
      one.exitCode = runner.process.exitCode ?? -1;
    });
  }
}

let autoscaler: Autoscaler | undefined;
afterAll(async () => {
  for (const { ready } of autoscaler?.live ?? []) await (await ready).kill();
});

/** Begins a file, is interrupted by a drain, and finds the file where it continues. */
const drained = '!run test -e half.txt && echo found $(cat half.txt) || { echo half > half.txt; sleep 600; }';

test('through a day of spawns runners come and go as the pool demands, and no agent is lost or waits for more than a new runner', async () => {
  await writeResource(service().api, 'pool', pool, { maxRuns: 1 });
  const { agents, remote } = await service().workspace({ 'README.md': '# Day\n' }, { pool });
  const { key } = await createKey(service().api, { role: 'runner', pool });
  autoscaler = new Autoscaler(key);
  const { live, started } = { live: () => autoscaler?.live ?? [], started: autoscaler.started };
  const names: string[] = [];
  const toDrain = ['drained-by-signal', 'drained-by-request'];
  for (const [hour, count] of spawnsByHour.entries()) {
    // On a slow machine the day is longer: nobody is to wait because there are no more runners.
    while ((await autoscaler.poll()) + count + toDrain.length > mostRunners) await delay(pollMs);
    for (let n = 0; n < count; n += 1) {
      const name = `at-${hour}-${n}`;
      names.push(name);
      await agents.spawn(name, {
        description: `!write ${name}.txt work\n!run sleep 1\n!push Work of ${name}`,
      });
    }
    if (hour === busiestHour)
      for (const name of toDrain) await agents.spawn(name, { description: `${drained}\n!push Both halves` });
    await autoscaler.poll();
    // The clock of the simulated day.
    await delay(pollMs);
  }
  // In the evening, both are drained: their runs never end by themselves.
  const runnerOf = async (name: string): Promise<Started> => {
    await agents.doing(name, 'half.txt');
    const [run] = await agents.runs(name);
    const found = started.find((one) => one.name === run?.runnerId && one.exitCode === null);
    if (!found) throw new Error(`${name} is on ${run?.runnerId}`);
    return found;
  };
  const [bySignal, byRequest] = await Promise.all(toDrain.map(runnerOf));
  if (!bySignal || !byRequest) throw new Error('no runner');
  for (const one of [bySignal, byRequest]) one.isDraining = true;
  (await bySignal.ready).process.kill('SIGTERM');
  accepted('drain', await service().api.post('/v1/runners/drain', { pool, runners: [byRequest.name] }));
  const isOver = async () =>
    (await Promise.all([...names, ...toDrain].map((name) => agents.phase(name)))).every(
      (phase) => phase === 'WAITING_FOR_INPUT/RESTING',
    );
  while (!(await isOver()) || live().length > 0) {
    await autoscaler.poll();
    await delay(pollMs);
  }

  for (const name of names) expect([name, await agents.outcomes(name)]).toEqual([name, ['COMPLETED']]);
  for (const name of toDrain) {
    expect([name, await agents.outcomes(name)]).toEqual([name, ['HANDED_BACK', 'COMPLETED']]);
    expect((await agents.texts(name, 'TOOL_RESULT')).join()).toContain('found half');
    const [first, second] = (await agents.runs(name)).map(({ runnerId }) => runnerId);
    expect(second).not.toBe(first);
  }
  expect(started.map(({ exitCode }) => exitCode)).toEqual(started.map(() => 0));
  const branches = remote.refs().filter((ref) => ref.startsWith('muster/'));
  expect(branches).toHaveLength(names.length + toDrain.length);

  const waits = await service().query<{ seconds: number }>(
    `SELECT extract(epoch FROM r.started_at - a.created_at)::float8 AS seconds
     FROM agents a JOIN runs r ON r.agent = a.id AND r.number = 1 WHERE a.workspace = $1`,
    [agents.workspace],
  );
  const longestWaitMs = Math.round(1000 * Math.max(...waits.map(({ seconds }) => seconds)));
  const { longestStartMs, longestPollMs, most } = autoscaler;
  printFigures('simulated day', {
    agents: waits.length,
    'runners started': started.length,
    'at once': most,
    'longest wait ms': longestWaitMs,
    'longest start ms': Math.round(longestStartMs),
    'longest poll ms': Math.round(longestPollMs),
  });
  expect(most).toBeGreaterThan(3);
  expect(longestWaitMs).toBeLessThan(longestStartMs + 2 * longestPollMs);
}, 240_000);

import { afterAll, beforeAll, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { runConcurrently, until } from '../support/async.ts';
import { writeResource } from '../support/catalog.ts';
import { expectRunFenced } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { Node } from './node.ts';
import { RunnerProcess, runnerKey } from './runner-process.ts';
import { Store } from './store.ts';
import { printFigures, times, withinMs } from './tier.ts';

const kills = times('MUSTER_CRASH_RUNNER_KILLS', 2);
const stops = times('MUSTER_CRASH_RUNNER_STOPS', 2);
const leaseSeconds = 6;

/** What a runner may report about a run that it has lost. */
const lateReports = [
  { items: [{ type: 'MESSAGE', text: 'too late' }] },
  { usage: { costUsd: 1 } },
  { started: true },
  { end: { outcome: 'COMPLETED', response: 'too late' } },
  { end: { outcome: 'FAILED', error: { code: 'LATE', message: 'too late' } } },
];

let node: Node;
let store: Store;
let pairs: RunnerPair[] = [];
beforeAll(async () => {
  node = await Node.start({ runner: false, env: { MUSTER_LEASE_SECONDS: String(leaseSeconds) } });
  store = await Store.open(await node.databaseUrl());
  // Most of a check is the wait for the end of a lease, so all checks of a test wait at the same time.
  const names = ['pair-1', 'pair-2', 'pair-3', 'pair-4', 'pair-5'];
  pairs = await Promise.all(names.map((name) => RunnerPair.create(name)));
});
afterAll(async () => {
  await Promise.all(pairs.map((pair) => pair.close()));
  await store?.close();
  await node?.close();
});

/** Two runners with their own pool. */
class RunnerPair {
  readonly name: string;
  readonly #key: string;
  #runners: RunnerProcess[] = [];
  #started = 0;

  constructor(name: string, key: string) {
    this.name = name;
    this.#key = key;
  }

  static async create(name: string): Promise<RunnerPair> {
    await writeResource(node.api, 'pool', name, {});
    await writeResource(node.api, 'workspace', name, { pool: name });
    return new RunnerPair(name, await runnerKey(node.api, name));
  }

  async #startRunner(): Promise<void> {
    this.#started += 1;
    this.#runners.push(await RunnerProcess.start(node.url, this.#key, `${this.name}-${this.#started}`));
  }

  /** Starts the runners that are missing: both at first, later those that were killed. */
  async complete(): Promise<void> {
    await Promise.all(Array.from({ length: 2 - this.#runners.length }, () => this.#startRunner()));
  }

  async remove(runner: RunnerProcess): Promise<void> {
    this.#runners = this.#runners.filter((other) => other !== runner);
    await runner.close();
  }

  /** The runner with this name, and the other one. */
  find(name: string | undefined): { runner: RunnerProcess; otherRunner: RunnerProcess } {
    const runner = this.#runners.find((one) => one.name === name);
    const otherRunner = this.#runners.find((one) => one.name !== name);
    if (!runner || !otherRunner) throw new Error(`${this.name} has no runner ${name}`);
    return { runner, otherRunner };
  }

  async close(): Promise<void> {
    await Promise.all(this.#runners.map((runner) => runner.close()));
  }
}

/** An agent during its run on one runner of a pair, with one more message in its queue. */
class RunningAgent extends Agents {
  readonly path: string;
  readonly runner: RunnerProcess;
  readonly otherRunner: RunnerProcess;
  readonly runId: number;
  readonly agentKey: string;

  constructor(
    pair: RunnerPair,
    fields: Pick<RunningAgent, 'path' | 'runner' | 'otherRunner' | 'runId' | 'agentKey'>,
  ) {
    super(node.api, pair.name);
    this.path = fields.path;
    this.runner = fields.runner;
    this.otherRunner = fields.otherRunner;
    this.runId = fields.runId;
    this.agentKey = fields.agentKey;
  }

  static async start(pair: RunnerPair, path: string): Promise<RunningAgent> {
    await pair.complete();
    const agents = new Agents(node.api, pair.name);
    await agents.spawn(path, { description: '!say begun\n!sleep 5\n!say done' });
    const { run } = await until(
      'the agent working',
      () => agents.status(path),
      (status) => status.run?.currentAction.startsWith('Sleeping') ?? false,
    );
    await agents.queue(path, { followUpId: 'next', description: '!say next' });
    const [row] = await store.rows<{ id: string }>('SELECT id FROM agents WHERE path = $1', [path]);
    const runners = pair.find(run?.runnerId);
    return new RunningAgent(pair, { path, ...runners, runId: Number(run?.runId), agentKey: row?.id ?? '' });
  }

  /**
   * The run was lost, and the other runner retried its batch in the next run; the queued message came after. (On a busy
   * machine a healthy runner may lose its lease too, even the first one before it is killed. That is one more attempt,
   * in the timeline.)
   */
  async expectRetriedByOtherRunner(): Promise<void> {
    const idle = await this.wait(this.path);
    expect(idle).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', response: 'next' });
    const started = await this.timeline(this.path, 'RUN_STARTED');
    const ended = await this.timeline(this.path, 'RUN_ENDED');
    expect(started.map(({ runId }) => runId)).toEqual(started.map((_, i) => String(i + 1)));
    expect(ended.map(({ runId }) => runId)).toEqual(started.map(({ runId }) => runId));
    expect(ended[this.runId - 1]?.text).toBe('LOST');
    const lastOfRunner = started.findLastIndex(({ data }) => data.runner === this.runner.name);
    expect(ended[lastOfRunner]?.text).toBe('LOST');
    expect(started[lastOfRunner + 1]?.data).toMatchObject({
      runner: this.otherRunner.name,
      batch: '1',
      attempt: lastOfRunner + 2,
    });

    const attempts = started.filter(({ data }) => data.batch === '1').length;
    expect(ended.slice(0, attempts).map(({ text }) => text)).toEqual([
      ...Array.from({ length: attempts - 1 }, () => 'LOST'),
      'COMPLETED',
    ]);
    const delivered = await this.timeline(this.path, 'FOLLOW_UP_DELIVERED');
    expect(delivered.map(({ followUpId, runId }) => [followUpId, runId])).toEqual([
      ['next', String(attempts + 1)],
    ]);
  }

  /** The timeline has nothing of the lost run after its end, beside what is marked as late. */
  async expectNothingAfterEnd(): Promise<void> {
    const timeline = await this.timeline(this.path);
    const ofRun = timeline
      .filter(({ runId, data }) => runId === String(this.runId) && !data.late)
      .map(({ type }) => type);
    expect(ofRun.at(-1)).toBe('RUN_ENDED');
    expect(ofRun.filter((type) => type === 'MESSAGE')).toHaveLength(1);
  }
}

/** Runs the check so often, each time with a new agent, concurrently on all pairs. */
async function repeat(
  count: number,
  name: string,
  check: (agent: RunningAgent, pair: RunnerPair) => Promise<void>,
) {
  const free = [...pairs];
  await runConcurrently(count, free.length, async (index) => {
    const pair = free.pop() as RunnerPair;
    await check(await RunningAgent.start(pair, `${name}-${index}`), pair);
    free.push(pair);
  });
  expect(await store.violations()).toEqual([]);
}

test(
  'a runner that is paused beyond its lease and continues is fenced',
  withinMs(stops, 20_000),
  async () => {
    let refused = 0;
    await repeat(stops, 'stopped', async (agent) => {
      agent.runner.signal('SIGSTOP');
      await agent.expectRetriedByOtherRunner();
      const before = await agent.timeline(agent.path);

      const polls = async () => {
        const [row] = await store.rows<{ polls: string }>('SELECT polls FROM runners WHERE id = $1', [
          agent.runner.runnerId,
        ]);
        return Number(row?.polls);
      };
      const polled = await polls();
      agent.runner.signal('SIGCONT');
      // After two polls it has reported whatever it still had to report.
      await until('the runner back', polls, (now) => now >= polled + 2);

      const { key, name, runnerId } = agent.runner;
      const runner = new FakeRunner(node.api.as(key), name, runnerId);
      for (const [i, report] of lateReports.entries()) {
        const lostRun = { agentKey: agent.agentKey, runId: agent.runId };
        expectRunFenced(await runner.report(lostRun, report, 1_000 + i));
        refused += 1;
      }
      // What it still had of the lost run is marked, and changes nothing else.
      const entries = await agent.timeline(agent.path);
      expect(entries.filter(({ data }) => !data.late)).toEqual(before);
      await agent.expectNothingAfterEnd();
    });
    printFigures('runner stopped', { stops, 'stale reports refused': refused });
  },
);

test(
  'the run of a killed runner is lost and retried by another runner',
  withinMs(kills, 15_000),
  async () => {
    let slowestMs = 0;
    await repeat(kills, 'killed', async (agent, pair) => {
      await agent.runner.kill();
      const killedMs = Date.now();
      await agent.expectRetriedByOtherRunner();
      slowestMs = Math.max(slowestMs, Date.now() - killedMs);
      await agent.expectNothingAfterEnd();
      await pair.remove(agent.runner);
    });
    printFigures('runner killed', { kills, 'slowest to be done ms': slowestMs });
  },
);

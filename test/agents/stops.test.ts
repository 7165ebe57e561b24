import { readFileSync } from 'node:fs';
import type { Run, TimelineEntry } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Step } from '../provider/script.ts';
import type { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { patienceMs, processesWith } from './crew.ts';
import { backends, type Fleet, startFleet } from './fleet.ts';
import { sessionOf, toldIn } from './requests.ts';

let fleet: Fleet;
const sleepers: Sleeper[] = [];
beforeAll(async () => {
  fleet = await startFleet();
});
afterAll(async () => {
  try {
    await fleet.close();
  } finally {
    for (const sleeper of sleepers) sleeper.end();
  }
});

/** A command that does not end by itself, and one that it leaves behind; both are known by how long they would sleep. */
class Sleeper {
  readonly #seconds = 100_000_000 + Math.floor(Math.random() * 100_000_000) * 2;

  constructor() {
    sleepers.push(this);
  }

  get step(): Step {
    const left = `setsid nohup sleep ${this.#seconds + 1} >/dev/null 2>&1 &`;
    return { shell: `${left} exec sleep ${this.#seconds}` };
  }

  processes(): string[] {
    return [0, 1].flatMap((more) => processesWith(`sleep\0${this.#seconds + more}\0`));
  }

  /** Resolves when both sleep, with the key of the agent whose processes they are. */
  async started(): Promise<string> {
    const [pid] = await until(
      'both commands at work',
      async () => this.processes(),
      (pids) => pids.length === 2,
      patienceMs,
    );
    const [, key] = /MUSTER_RUN=([\w-]+)\//.exec(readFileSync(`/proc/${pid}/environ`, 'utf8')) ?? [];
    if (key === undefined) throw new Error('the command does not say whose it is');
    expect(processesWith(key).length).toBeGreaterThan(2);
    return key;
  }

  end(): void {
    for (const pid of this.processes()) process.kill(Number(pid), 'SIGKILL');
  }
}

const untilEnded = (agents: Agents, path: string, runId: number): Promise<Run | undefined> =>
  until(
    `the end of run ${runId} of ${path}`,
    async () => (await agents.runs(path)).find((run) => Number(run.runId) === runId),
    (run) => run?.state === 'ENDED',
    patienceMs,
  );

const untilGone = (agents: Agents, path: string): Promise<TimelineEntry[]> =>
  until(
    `the processes of ${path} gone`,
    () => agents.timeline(path, 'PROCESS_GONE'),
    (entries) => entries.length > 0,
    patienceMs,
  );

describe.each(backends)('$title', ({ model }) => {
  /** An agent in the midst of a command. */
  async function busy() {
    const agents = await fleet.plain();
    const sleeper = new Sleeper();
    const marker = fleet.stub.script([sleeper.step, { say: 'Never said.' }]);
    await agents.spawn('a', { model, description: `Begin. ${marker}` });
    const key = await sleeper.started();
    await until(
      'the command in the status',
      () => agents.status('a'),
      ({ run }) => run?.currentAction.includes('exec sleep') === true,
      patienceMs,
    );
    return { agents, sleeper, marker, key };
  }

  /** The next message is answered, by one who remembers the first. */
  async function expectToGoOn(agents: Agents, before: string): Promise<void> {
    const marker = fleet.stub.script([{ shell: 'true' }, { say: 'Here I am.' }]);
    await agents.queue('a', `Go on. ${marker}`);
    expect(await untilEnded(agents, 'a', 2)).toMatchObject({ outcome: 'COMPLETED' });
    expect((await agents.status('a')).response).toBe('Here I am.');
    const [first] = fleet.stub.requestsOf(before);
    const [next] = fleet.stub.requestsOf(marker);
    expect(next && toldIn(next)).toContain('Begin.');
    expect(next && sessionOf(next)).toBe(first && sessionOf(first));
  }

  it('is interrupted in the midst of a command: it is dead, its cost is known, the session goes on', async () => {
    fleet.stub.tokens = { input: 1000, cached: 400, output: 50 };
    const { agents, sleeper, marker, key } = await busy();
    await agents.stop('a', 1, 'INTERRUPT');
    const run = await untilEnded(agents, 'a', 1);
    expect(sleeper.processes()).toEqual([]);
    expect(processesWith(key)).toEqual([]);
    expect(run).toMatchObject({
      outcome: 'INTERRUPTED',
      inputTokens: '1400',
      cachedInputTokens: '400',
      outputTokens: '50',
    });
    const status = await agents.status('a');
    expect(run?.cost).toBeGreaterThan(0);
    expect(status).toMatchObject({ phaseReason: 'INTERRUPTED', cost: run?.cost, inputTokens: '1400' });
    expect(fleet.stub.requestsOf(marker)).toHaveLength(1);
    const [call] = await agents.timeline('a', 'TOOL_CALL');
    expect(call?.text).toContain('exec sleep');
    await expectToGoOn(agents, marker);
  });

  it('is killed in the midst of a command: nothing is left of the run, and the agent goes on', async () => {
    const { agents, sleeper, marker, key } = await busy();
    await agents.stop('a', 1, 'KILL');
    const [gone, ...more] = await untilGone(agents, 'a');
    expect(sleeper.processes()).toEqual([]);
    expect(processesWith(key)).toEqual([]);
    expect(more).toEqual([]);
    expect(gone).toMatchObject({ runId: '1' });
    expect(await agents.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');
    expect((await agents.runs('a')).map(({ outcome }) => outcome)).toEqual(['KILLED']);
    await expectToGoOn(agents, marker);
  });

  it('ends for good: nothing is left of the agent', async () => {
    const { agents, sleeper, key } = await busy();
    await agents.kill('a');
    expect(await agents.phase('a')).toBe('CANCELED/KILLED');
    expect(await untilGone(agents, 'a')).toMatchObject([{ runId: '1' }]);
    expect(sleeper.processes()).toEqual([]);
    expect(processesWith(key)).toEqual([]);
    expect((await agents.runs('a')).map(({ outcome }) => outcome)).toEqual(['KILLED']);
  });

  it('takes its child on another runner along when it is killed', async () => {
    const pool = uniqueName('pool');
    await writeResource(fleet.api, 'pool', pool, { maxRuns: 1 });
    await Promise.all([fleet.runner(pool), fleet.runner(pool)]);
    const agents = await fleet.plain({ pool });
    const [parents, childs] = [new Sleeper(), new Sleeper()];
    const child = fleet.stub.script([childs.step]);
    const parent = fleet.stub.script([
      { tool: 'spawn_child', args: { name: 'kid', description: `Begin. ${child}`, model } },
      parents.step,
    ]);
    await agents.spawn('a', { model, description: `Delegate. ${parent}` });
    const keys = await Promise.all([parents.started(), childs.started()]);
    const runners = await Promise.all(
      ['a', 'a/kid'].map(async (path) => (await agents.status(path)).run?.runnerId),
    );
    expect(new Set(runners).size).toBe(2);

    await agents.kill('a');
    expect(await agents.phase('a')).toBe('CANCELED/KILLED');
    expect(await agents.phase('a/kid')).toBe('CANCELED/PARENT_KILLED');
    for (const path of ['a', 'a/kid']) await untilGone(agents, path);
    expect([...parents.processes(), ...childs.processes()]).toEqual([]);
    for (const key of keys) expect(processesWith(key)).toEqual([]);
  });
});

import { readFileSync } from 'node:fs';
import type { TimelineEntry } from '@muster/sdk/contract';
import { afterAll, describe, expect, it } from 'vitest';
import type { Step } from '../provider/script.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import {
  backends,
  claudeCode,
  codex,
  contentOf,
  patienceMs,
  processesWith,
  sessionOf,
  type TestAgents,
  useTestService,
} from './test-service.ts';

const service = useTestService();
const sleepers: Sleeper[] = [];
afterAll(() => {
  for (const sleeper of sleepers) sleeper.end();
});

/** A command that does not end, and a background process of it; both are identified by how long they would sleep. */
class Sleeper {
  readonly #seconds = 100_000_000 + Math.floor(Math.random() * 100_000_000) * 2;

  constructor() {
    sleepers.push(this);
  }

  get step(): Step {
    const background = `setsid nohup sleep ${this.#seconds + 1} >/dev/null 2>&1 &`;
    return { shell: `${background} exec sleep ${this.#seconds}` };
  }

  processes(): string[] {
    return [0, 1].flatMap((more) => processesWith(`sleep\0${this.#seconds + more}\0`, ['cmdline']));
  }

  /** When both processes run. Returns the key of their agent. */
  async started(): Promise<string> {
    const [pid] = await until(
      'both processes running',
      async () => this.processes(),
      (pids) => pids.length === 2,
      patienceMs,
    );
    const [, key] = /MUSTER_RUN=([\w-]+)\//.exec(readFileSync(`/proc/${pid}/environ`, 'utf8')) ?? [];
    if (key === undefined) throw new Error('the process has no MUSTER_RUN');
    expect(processesWith(key).length).toBeGreaterThan(2);
    return key;
  }

  end(): void {
    for (const pid of this.processes()) process.kill(Number(pid), 'SIGKILL');
  }
}

const processGone = (agents: TestAgents, path: string): Promise<TimelineEntry[]> =>
  until(
    `the processes of ${path} gone`,
    () => agents.timeline(path, 'PROCESS_GONE'),
    (entries) => entries.length > 0,
    patienceMs,
  );

describe.each(backends)('$title', ({ model }) => {
  it('is interrupted or killed during a command, which leaves no process, and its session continues', async () => {
    const { stub } = service();
    stub.tokens = { input: 1000, cached: 400, output: 50 };
    const agents = await service().emptyWorkspace();
    const [first, second] = [new Sleeper(), new Sleeper()];
    const begin = service().script(first.step, { say: 'Never said.' });
    await agents.spawn('a', { model, description: `Begin. ${begin}` });
    const key = await first.started();
    await agents.doing('a', 'exec sleep');
    await agents.stop('a', 1, 'INTERRUPT');
    const interrupted = await agents.runEnded('a', 1);
    expect(first.processes()).toEqual([]);
    expect(processesWith(key)).toEqual([]);
    const [run] = await agents.runs('a');
    expect(run).toMatchObject({
      outcome: 'INTERRUPTED',
      inputTokens: '1400',
      cachedInputTokens: '400',
      outputTokens: '50',
    });
    expect(run?.cost).toBeGreaterThan(0);
    expect(interrupted).toMatchObject({ phaseReason: 'INTERRUPTED', cost: run?.cost, inputTokens: '1400' });
    expect(stub.requestsOf(begin)).toHaveLength(1);
    const [call] = await agents.timeline('a', 'TOOL_CALL');
    expect(call?.text).toContain('exec sleep');

    const again = service().script(second.step, { say: 'Never said.' });
    await agents.queue('a', `Begin again. ${again}`);
    await second.started();
    await agents.doing('a', 'exec sleep');
    await agents.stop('a', 2, 'KILL');
    const gone = await processGone(agents, 'a');
    expect(second.processes()).toEqual([]);
    expect(processesWith(key)).toEqual([]);
    expect(gone).toMatchObject([{ runId: '2' }]);
    expect(await agents.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');

    const last = service().script({ shell: 'true' }, { say: 'Here I am.' });
    await agents.queue('a', `Continue. ${last}`);
    expect((await agents.runEnded('a', 3)).response).toBe('Here I am.');
    expect(await agents.outcomes('a')).toEqual(['INTERRUPTED', 'KILLED', 'COMPLETED']);
    for (const marker of [again, last]) {
      expect(contentOf(service().firstRequest(marker))).toContain('Begin.');
      expect(sessionOf(service().firstRequest(marker))).toBe(sessionOf(service().firstRequest(begin)));
    }
  });
});

it('Claude Code is killed together with its child, Codex, on another runner, and no process of either is left', async () => {
  const pool = uniqueName('pool');
  await writeResource(service().api, 'pool', pool, { maxRuns: 1 });
  await Promise.all([service().runner(pool), service().runner(pool)]);
  const agents = await service().emptyWorkspace({ pool });
  const [parents, childs] = [new Sleeper(), new Sleeper()];
  const child = service().script(childs.step);
  const parent = service().script(
    { tool: 'spawn_child', args: { name: 'kid', description: `Begin. ${child}`, model: codex.model } },
    parents.step,
  );
  await agents.spawn('a', { model: claudeCode.model, description: `Delegate. ${parent}` });
  const keys = await Promise.all([parents.started(), childs.started()]);
  const runners = await Promise.all(
    ['a', 'a/kid'].map(async (path) => (await agents.status(path)).run?.runnerId),
  );
  expect(new Set(runners).size).toBe(2);

  await agents.kill('a');
  expect(await agents.phase('a')).toBe('CANCELED/KILLED');
  expect(await agents.phase('a/kid')).toBe('CANCELED/PARENT_KILLED');
  for (const path of ['a', 'a/kid']) {
    expect(await processGone(agents, path)).toMatchObject([{ runId: '1' }]);
    expect(await agents.outcomes(path)).toEqual(['KILLED']);
  }
  expect([...parents.processes(), ...childs.processes()]).toEqual([]);
  for (const key of keys) expect(processesWith(key)).toEqual([]);
});

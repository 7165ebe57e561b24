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

const kills = times('MUSTER_CRASH_RUNNER_KILLS', 5);
const stops = times('MUSTER_CRASH_RUNNER_STOPS', 5);
const leaseSeconds = 6;
const atOnce = 3;

const outOfTurn = [
  { items: [{ type: 'MESSAGE', text: 'too late' }] },
  { usage: { costUsd: 1 } },
  { started: true },
  { end: { outcome: 'COMPLETED', response: 'too late' } },
  { end: { outcome: 'FAILED', error: { code: 'LATE', message: 'too late' } } },
];

let node: Node;
let store: Store;
let crews: Crew[] = [];
beforeAll(async () => {
  node = await Node.start({ runner: false, env: { MUSTER_LEASE_SECONDS: String(leaseSeconds) } });
  store = await Store.open(await node.databaseUrl());
  crews = await Promise.all(Array.from({ length: atOnce }, (_, i) => Crew.open(`crew-${i}`)));
});
afterAll(async () => {
  await Promise.all(crews.map((crew) => crew.close()));
  await store?.close();
  await node?.close();
});

/** Two runners of a pool of their own. */
class Crew {
  readonly name: string;
  readonly #key: string;
  #members: RunnerProcess[] = [];
  #hired = 0;

  constructor(name: string, key: string) {
    this.name = name;
    this.#key = key;
  }

  static async open(name: string): Promise<Crew> {
    await writeResource(node.api, 'pool', name, {});
    await writeResource(node.api, 'workspace', name, { pool: name });
    const crew = new Crew(name, await runnerKey(node.api, name));
    await Promise.all([crew.hire(), crew.hire()]);
    return crew;
  }

  async hire(): Promise<void> {
    this.#hired += 1;
    this.#members.push(await RunnerProcess.start(node.url, this.#key, `${this.name}-${this.#hired}`));
  }

  async dismiss(member: RunnerProcess): Promise<void> {
    this.#members = this.#members.filter((m) => m !== member);
    await member.close();
  }

  /** The one with this name, and the other one. */
  pair(name: string | undefined): { victim: RunnerProcess; heir: RunnerProcess } {
    const victim = this.#members.find((m) => m.name === name);
    const heir = this.#members.find((m) => m.name !== name);
    if (!victim || !heir) throw new Error(`${this.name} has no runner ${name}`);
    return { victim, heir };
  }

  async close(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.close()));
  }
}

/** An agent that one of a crew, the victim, is working on. */
class Scene extends Agents {
  readonly agent: string;
  readonly victim: RunnerProcess;
  readonly heir: RunnerProcess;
  /** The run that the victim is working on. */
  readonly run: number;
  readonly agentKey: string;

  constructor(crew: Crew, fields: Pick<Scene, 'agent' | 'victim' | 'heir' | 'run' | 'agentKey'>) {
    super(node.api, crew.name);
    this.agent = fields.agent;
    this.victim = fields.victim;
    this.heir = fields.heir;
    this.run = fields.run;
    this.agentKey = fields.agentKey;
  }

  static async open(crew: Crew, agent: string): Promise<Scene> {
    const agents = new Agents(node.api, crew.name);
    await agents.spawn(agent, { description: '!say begun\n!sleep 2\n!say done' });
    const { run } = await until(
      'the run at work',
      () => agents.status(agent),
      (status) => status.run?.currentAction.startsWith('Sleeping') ?? false,
    );
    await agents.queue(agent, { followUpId: 'behind', description: '!say behind' });
    const [row] = await store.rows<{ id: string }>('SELECT id FROM agents WHERE path = $1', [agent]);
    const pair = crew.pair(run?.runnerId);
    return new Scene(crew, { agent, ...pair, run: Number(run?.runId), agentKey: row?.id ?? '' });
  }

  /**
   * The victim's run was lost, and the heir tried its batch again under the next number; the message behind it came
   * after. (On a starved machine a healthy runner may lose its lease too, even the victim before it is ended. That is
   * one more try, in the timeline.)
   */
  async expectTakenOver(): Promise<void> {
    const rested = await until(
      'the agent taken over',
      () => this.status(this.agent),
      ({ phase }) => phase === 'PHASE_WAITING_FOR_INPUT' || phase === 'PHASE_FAILED',
    );
    expect(rested).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', response: 'behind' });
    const started = await this.timeline(this.agent, 'RUN_STARTED');
    const ended = await this.timeline(this.agent, 'RUN_ENDED');
    expect(started.map(({ runId }) => runId)).toEqual(started.map((_, i) => String(i + 1)));
    expect(ended.map(({ runId }) => runId)).toEqual(started.map(({ runId }) => runId));
    expect(ended[this.run - 1]?.text).toBe('LOST');
    const lastOfVictim = started.findLastIndex(({ data }) => data.runner === this.victim.name);
    expect(ended[lastOfVictim]?.text).toBe('LOST');
    expect(started[lastOfVictim + 1]?.data).toMatchObject({
      runner: this.heir.name,
      batch: '1',
      attempt: lastOfVictim + 2,
    });

    const tries = started.filter(({ data }) => data.batch === '1').length;
    expect(ended.slice(0, tries).map(({ text }) => text)).toEqual([
      ...Array.from({ length: tries - 1 }, () => 'LOST'),
      'COMPLETED',
    ]);
    const delivered = await this.timeline(this.agent, 'FOLLOW_UP_DELIVERED');
    expect(delivered.map(({ followUpId, runId }) => [followUpId, runId])).toEqual([
      ['behind', String(tries + 1)],
    ]);
  }

  /** Nothing of the victim's run is in the timeline after its end. */
  async expectSilence(): Promise<void> {
    const timeline = await this.timeline(this.agent);
    const of = timeline.filter(({ runId }) => runId === String(this.run)).map(({ type }) => type);
    expect(of.at(-1)).toBe('RUN_ENDED');
    expect(of.filter((type) => type === 'MESSAGE')).toHaveLength(1);
  }
}

/** Plays scenes with as many crews as there are, each with one at a time. */
async function playScenes(count: number, name: string, play: (scene: Scene, crew: Crew) => Promise<void>) {
  const free = [...crews];
  await runConcurrently(count, free.length, async (index) => {
    const crew = free.pop() as Crew;
    await play(await Scene.open(crew, `${name}-${index}`), crew);
    free.push(crew);
  });
  expect(await store.violations()).toEqual([]);
}

test(
  'the run of a killed runner is lost and retried by another runner',
  withinMs(kills, 15_000),
  async () => {
    let slowestMs = 0;
    await playScenes(kills, 'killed', async (scene, crew) => {
      await scene.victim.kill();
      const killedMs = Date.now();
      await scene.expectTakenOver();
      slowestMs = Math.max(slowestMs, Date.now() - killedMs);
      await scene.expectSilence();
      await crew.dismiss(scene.victim);
      await crew.hire();
    });
    printFigures('runner killed', { kills, 'slowest to be done ms': slowestMs });
  },
);

test(
  'a runner that is paused beyond its lease and continues is fenced',
  withinMs(stops, 20_000),
  async () => {
    let refused = 0;
    await playScenes(stops, 'stopped', async (scene) => {
      scene.victim.signal('SIGSTOP');
      await scene.expectTakenOver();
      const before = await scene.timeline(scene.agent);

      const polls = async () => {
        const [row] = await store.rows<{ polls: string }>('SELECT polls FROM runners WHERE id = $1', [
          scene.victim.runnerId,
        ]);
        return Number(row?.polls);
      };
      const polled = await polls();
      scene.victim.signal('SIGCONT');
      // Two polls later it has had every occasion to say what it still had to say.
      await until('the runner back', polls, (now) => now >= polled + 2);

      // And what such a runner would say, was it to speak out of turn.
      const { key, name, runnerId } = scene.victim;
      const impostor = new FakeRunner(node.api.as(key), name, runnerId);
      for (const [i, words] of outOfTurn.entries()) {
        const stale = { agentKey: scene.agentKey, runId: scene.run };
        expectRunFenced(await impostor.report(stale, words, 1_000 + i));
        refused += 1;
      }
      expect(await scene.timeline(scene.agent)).toEqual(before);
      await scene.expectSilence();
    });
    printFigures('runner stopped', { stops, 'stale reports refused': refused });
  },
);

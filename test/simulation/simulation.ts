import { isTerminal, needsAttention } from '@muster/sdk/contract';
import type { Agent } from '../../packages/service/src/domain/agent.ts';
import { type CommittedAgent, MemoryTables, unlimitedRuns } from './memory-tables.ts';
import { Network } from './network.ts';
import { Random } from './random.ts';
import { SchedulingAudit } from './scheduling-audit.ts';
import { SimClient } from './sim-client.ts';
import { leaseMs, SimNode } from './sim-node.ts';
import { type RunnerName, SimRunner, type Used } from './sim-runner.ts';
import { holds, Violation } from './timeline-audit.ts';
import { VirtualClock } from './virtual-clock.ts';

/** A wait for an agent on one node. */
export interface Waiter {
  readonly node: SimNode;
  readonly agent: string;
  isDone: boolean;
}

/** Windows of an hour end in the middle of a simulation. */
const startMs = Date.parse('2030-01-01T00:59:40.000Z');
/** Long enough for every lease to expire, every message to become due and every queue to be delivered. */
const recoveryMs = 60_000;
/** A command on a locked agent fails after 10 s. */
const answerMs = 15_000;

/**
 * One simulated system: two nodes, two runners and three clients on one store. First a phase with faults, then a phase
 * without faults and new requests, in which every agent must become idle.
 */
export class Simulation {
  readonly random: Random;
  readonly clock = new VirtualClock(startMs);
  readonly tables = new MemoryTables();
  readonly locks = new Map<string, object>();
  readonly network = new Network(this);
  readonly nodes: SimNode[] = [];
  readonly runners: SimRunner[] = [];
  readonly waiters = new Set<Waiter>();
  /** The stops and kills that clients have requested. */
  readonly requested = new Set<string>();
  readonly scheduling = new SchedulingAudit(this);
  hasFaults = true;
  readonly hasBudgets: boolean;
  isOver = false;
  readonly #used = new Map<RunnerName, Map<string, Used>>();
  notificationLoss = 0.3;
  failure: unknown = null;
  readonly #faultSteps: number;

  constructor(seed: number, faultSteps: number) {
    this.random = new Random(seed);
    this.hasBudgets = seed % 2 === 0;
    this.#faultSteps = faultSteps;
    this.tables.onChange = (committed) => this.#checkCommit(committed);
    this.tables.onBroken = (error) => this.fail(error);
    this.tables.onPoll = (runnerId, backends) => this.scheduling.look(runnerId, backends);
  }

  /** Only the first failure is kept: later ones may be its consequences. */
  fail(error: unknown): void {
    this.failure ??= error;
  }

  guard(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Starts a client, a runner or a fault injector; an error in it fails the simulation. */
  start(activity: Promise<void>): void {
    activity.catch((error) => this.fail(error));
  }

  async run(): Promise<void> {
    const restore = this.clock.install();
    const limit = (...counts: number[]) => this.random.pick(counts) ?? unlimitedRuns;
    // Tenant 1 has most of the agents. Without a limit its backlog would fill every slot.
    this.tables.poolLimits.set(1, {
      maxRuns: limit(1, 2, unlimitedRuns),
      maxRunsTotal: limit(2, 3, unlimitedRuns),
    });
    this.#limitSpending();
    this.tables.poolLimits.set(2, { maxRuns: unlimitedRuns, maxRunsTotal: limit(1, 2, unlimitedRuns) });
    try {
      for (let i = 0; i < 2; i += 1) {
        this.nodes.push(new SimNode(this));
        this.#startRunner(i === 0 ? 'home-0' : 'home-1', 1);
      }
      for (let i = 0; i < 3; i += 1) this.start(new SimClient(this, `client-${i}`).run());
      this.start(this.#injectCrashes());
      while (this.clock.steps < this.#faultSteps && !this.failure) {
        await this.clock.step(Number.POSITIVE_INFINITY);
      }
      if (!this.failure) await this.#recover();
    } finally {
      this.isOver = true;
      for (const node of this.nodes) node.crash();
      restore();
    }
    if (this.failure) throw this.failure;
  }

  /** In every other simulation: stops for a budget leave fewer turns to check. Tenant 1 has a budget in total, tenant 2 one per hour; tenant 3 has those of agents alone. */
  #limitSpending(): void {
    if (!this.hasBudgets) return;
    const createdAt = this.clock.now;
    const amount = () => this.random.pick([0, 1, 4, 1_000]) ?? 0;
    this.tables.budgets.catalog.set(1, { amountUsd: amount() * 10, createdAt });
    this.tables.budgets.catalog.set(2, { amountUsd: amount(), window: '1h', createdAt });
  }

  /** Every agent can continue. */
  raiseBudgets(amountUsd: number): void {
    for (const [tenant, document] of this.tables.budgets.catalog)
      this.tables.budgets.catalog.set(tenant, {
        ...document,
        amountUsd: Math.max(document.amountUsd ?? 0, amountUsd),
      });
  }

  async #recover(): Promise<void> {
    this.hasFaults = false;
    this.raiseBudgets(1_000_000);
    this.notificationLoss = this.random.chance(0.5) ? 1 : 0;
    const endMs = this.clock.nowMs + recoveryMs;
    this.start(this.#retryDelayed());
    while (!this.failure && (await this.clock.step(endMs)));
    if (!this.failure) this.guard(() => this.#checkSettled());
  }

  /** The delay after temporary errors is longer than the second phase, so retries are requested. */
  async #retryDelayed(): Promise<void> {
    while (!this.isOver) {
      await this.clock.delay(5_000);
      for (const { agent } of this.tables.agents.values()) {
        const node = this.nodes.find(({ isAlive }) => isAlive);
        const key = { tenant: agent.tenant, id: agent.id };
        if (agent.reason === 'RETRYING') node?.transact.command({ key }, { type: 'retry' }).catch(() => {});
        if (agent.reason === 'BUDGET') await this.#raiseOwn(agent);
      }
    }
  }

  /** From the root on: an agent gets no more than is left above it. */
  async #raiseOwn({ tenant, ancestors, id: own }: Agent): Promise<void> {
    for (const [depth, id] of [...ancestors, own].entries()) {
      const budgetUsd = this.tables.agents.get(id)?.agent.budgetUsd ?? null;
      const node = this.nodes.find(({ isAlive }) => isAlive);
      if (budgetUsd === null || budgetUsd > 100) continue;
      const command = { type: 'setBudget', budgetUsd: 1_000_000 / 4 ** depth } as const;
      await node?.transact.command({ key: { tenant, id } }, command).catch(() => {});
    }
  }

  /** The notes of a runner about what its runs used, which outlive its processes. */
  usedOn(name: RunnerName): Map<string, Used> {
    const used = this.#used.get(name) ?? new Map<string, Used>();
    this.#used.set(name, used);
    return used;
  }

  #startRunner(name: RunnerName, starts: number): void {
    const runner = new SimRunner(this, name, starts);
    const place = this.runners.findIndex((r) => r.name === name);
    if (place >= 0) this.runners[place] = runner;
    else this.runners.push(runner);
    this.start(runner.run());
  }

  /** Crashes and pauses. Crashed nodes and runners are started again, also after the faults end. */
  async #injectCrashes(): Promise<void> {
    const { random, clock } = this;
    while (this.hasFaults) {
      await clock.delay(random.between(200, 4_000));
      if (!this.hasFaults) return;
      const what = random.below(4);
      if (what === 0) this.#crashNode(random.below(this.nodes.length));
      if (what === 1) this.#crashRunner();
      if (what === 2) random.pick(this.runners)?.pause(random.between(100, 2 * leaseMs));
    }
  }

  #crashNode(place: number): void {
    const node = this.nodes[place];
    if (!node?.isAlive) return;
    node.crash();
    for (const waiter of this.waiters) if (waiter.node === node) this.waiters.delete(waiter);
    this.clock.after(this.random.between(50, 3_000), () => {
      this.nodes[place] = new SimNode(this);
    });
  }

  #crashRunner(): void {
    const runner = this.random.pick(this.runners);
    if (!runner?.isAlive) return;
    runner.crash();
    this.clock.after(this.random.between(50, 3 * leaseMs), () =>
      this.#startRunner(runner.name, runner.starts + 1),
    );
  }

  #checkCommit({ rows, before, change }: CommittedAgent): void {
    const { agent, run } = change.after;
    const was = before?.run ?? null;
    for (const { type, text, runId } of change.entries) {
      if (type === 'RUN_STARTED') {
        this.#checkOneProcess(agent.id);
        this.scheduling.checkClaim(change.after);
      }
      if (type !== 'MESSAGE') continue;
      const isOwn = text === `${run?.runnerId} ${run?.number}` && runId === run?.number;
      holds(isOwn, 'FencedWrites', () => `${text} wrote into run ${run?.number} of ${run?.runnerId}`);
    }
    if (!run || run === was) return;
    const name = `${agent.id}/${run.number}`;
    if (run.stop !== '' && was?.stop === '') {
      const isRequested =
        this.requested.has(`stop ${name}`) || this.requested.has(`preempt ${agent.path.join('/')}`);
      holds(
        isRequested,
        'StaleStopHarmless',
        () => `no client requested to stop run ${run.number} of ${agent.path}`,
      );
    }
    if (run.outcome === 'KILLED' && was?.outcome !== 'KILLED') {
      const isKilled = [agent.id, ...agent.ancestors].some((id) => this.requested.has(`kill ${id}`));
      const isRequested = this.requested.has(`stop ${name}`) || isKilled;
      holds(
        isRequested,
        'StaleStopHarmless',
        () => `no client requested to kill run ${run.number} of ${agent.path}`,
      );
    }
    holds(rows.runs.at(-1) === run, 'RunNumbersRise', () => `${agent.path} changed an old run`);
  }

  /** A run starts only where no other runner, as far as it trusts its lease, still works on the same agent. */
  #checkOneProcess(agent: string): void {
    const acting = this.runners.filter((runner) => runner.isActingOn(agent));
    holds(acting.length === 0, 'OneLease', () => `${acting.map((r) => r.id)} still work on ${agent}`);
  }

  #checkSettled(): void {
    const { clock, tables } = this;
    tables.checkAll(clock.now);
    for (const { agent, run } of tables.agents.values()) {
      const isSettled = needsAttention(agent.phase);
      const wrong = () => `${agent.path} is ${agent.phase}/${agent.reason}, run ${run?.number} ${run?.state}`;
      holds(isSettled, 'Quiesces', wrong);
      const isLate = agent.nextDeliverAt !== null && agent.nextDeliverAt < clock.now;
      holds(!isLate || isTerminal(agent.phase), 'NotBefore', () => `${agent.path} has a message that is due`);
    }
    for (const { isDone, agent, node } of this.waiters) {
      const phase = tables.agents.get(agent)?.agent.phase ?? 'PHASE_UNSPECIFIED';
      const sleeps = !isDone && node.isAlive && needsAttention(phase);
      holds(!sleeps, 'WaitWakes', () => `someone still waits for ${agent}, which is ${phase}`);
    }
    for (const node of this.nodes) {
      const oldest = node.oldestInFlight();
      const isStuck = oldest !== null && clock.nowMs - oldest.sentMs > answerMs;
      if (isStuck) throw new Violation('Answered', `${oldest.what} has waited since ${oldest.sentMs}`);
    }
  }
}

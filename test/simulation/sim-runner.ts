import {
  type Claim,
  isRehearsalModel,
  type PollReply,
  type ReportRequest,
  type Steer,
} from '@muster/sdk/contract';
import type { Principal } from '../../packages/service/src/control/access/principal.ts';
import { isRefusal, type Refusal } from '../../packages/service/src/domain/refusal.ts';
import type { AgentKey } from '../../packages/service/src/store/agent-store.ts';
import { leaseMs } from './sim-node.ts';
import type { Simulation } from './simulation.ts';
import { holds } from './timeline-audit.ts';

export const runnerPrincipal: Principal = {
  tenant: { id: 0, provider: 'PROVIDER_UNSPECIFIED', org: '' },
  ownerProvider: 'PROVIDER_UNSPECIFIED',
  account: '',
  keyId: 'runner',
  role: 'runner',
  expiresAt: null,
  pool: 'default',
  token: '',
  agent: null,
};

/** Runs that a runner may have at a time. One of the two rehearses every model. */
const slotsOf = {
  'home-0': { real: 2, rehearsed: 1, rehearses: false },
  'home-1': { real: 0, rehearsed: 3, rehearses: true },
} as const;
export type RunnerName = keyof typeof slotsOf;

/** By its own clock a runner stops acting this much before its lease ends. */
const marginMs = 500;

/** A run as its runner sees it. It is listed in polls until its end is acknowledged. */
interface Process {
  readonly agentKey: string;
  readonly runId: number;
  readonly slot: 'real' | 'rehearsed';
  reports: number;
  stop: '' | 'INTERRUPT' | 'KILL';
  /** False after the end of the run was sent. */
  isActing: boolean;
  /** What it has cost. */
  spentUsd: number;
  /** Of that, what no report has said yet. */
  unreportedUsd: number;
  /** A budget has refused a request. */
  isRefused: boolean;
  /** Messages for its turn, by their sequence, until the service knows what became of them. */
  readonly steers: Map<number, Steer>;
}

interface Part {
  readonly model: string;
  readonly inputTokens: number;
  readonly costUsd: number;
}

export interface Used {
  readonly agentKey: string;
  readonly runId: number;
  readonly inputTokens: number;
  readonly costUsd: number;
  /** What each model used of it. */
  readonly parts: Parts;
}

type Parts = ReadonlyMap<string, { readonly inputTokens: number; readonly costUsd: number }>;

/** Two models use the tokens of every other report; all cost is that of the first. */
const models = ['model-a', 'model-b'] as const;
const modelOf = (report: number) => models[report % 4 < 2 ? 0 : 1];

/** A runner that follows the protocol: it acts only under its lease, repeats what was not acknowledged, and crashes. */
export class SimRunner {
  readonly id: string;
  readonly name: RunnerName;
  readonly starts: number;
  isAlive = true;
  readonly #simulation: Simulation;
  readonly #processes = new Map<string, Process>();
  /** What runs of the runner with this name have used, also of earlier processes, until their end is acknowledged. */
  readonly #used: Map<string, Used>;
  #polls = 0;
  #trustedUntilMs = 0;
  #pausedUntilMs = 0;

  constructor(simulation: Simulation, name: RunnerName, starts: number) {
    this.#simulation = simulation;
    this.name = name;
    this.starts = starts;
    this.id = `${name}.${starts}`;
    this.#used = simulation.usedOn(name);
  }

  crash(): void {
    this.isAlive = false;
    this.#processes.clear();
  }

  pause(ms: number): void {
    this.#pausedUntilMs = this.#simulation.clock.nowMs + ms;
  }

  isActingOn(agentKey: string): boolean {
    const { nowMs } = this.#simulation.clock;
    if (!this.isAlive || nowMs < this.#pausedUntilMs || nowMs >= this.#trustedUntilMs) return false;
    return [...this.#processes.values()].some((p) => p.agentKey === agentKey && p.isActing);
  }

  async run(): Promise<void> {
    const { clock, random } = this.#simulation;
    while (this.#isRunning()) {
      await this.#waitWhilePaused();
      this.#dropWithoutLease();
      const sentMs = clock.nowMs;
      const reply = await this.#poll().catch(() => null);
      await this.#waitWhilePaused();
      if (!this.#isRunning()) return;
      if (!reply || isRefusal(reply)) {
        await clock.delay(random.between(10, 300));
        continue;
      }
      // Runs that ended with the old lease stay ended under the new one.
      this.#dropWithoutLease();
      this.#trustedUntilMs = sentMs + reply.leaseMs - marginMs;
      this.#dropWithoutLease();
      for (const { agentKey, runId, kind } of reply.stops) {
        const process = this.#processes.get(`${agentKey}/${runId}`);
        if (process && kind !== '') process.stop = kind;
      }
      this.#simulation.start(this.#reportLate());
      for (const claim of reply.claims) this.#startRun(claim);
      for (const steer of reply.steers)
        this.#processes.get(`${steer.agentKey}/${steer.runId}`)?.steers.set(steer.sequence, steer);
      // A real runner polls again immediately; a short pause limits the number of steps.
      await clock.delay(random.between(1, 20));
    }
  }

  /** What runs used that this runner no longer has. */
  async #reportLate(): Promise<void> {
    for (const [key, { agentKey, runId, inputTokens, costUsd, parts }] of this.#used) {
      if (this.#processes.has(key)) continue;
      const request = {
        runnerId: this.id,
        agentKey,
        runId,
        report: 1,
        late: { usage: { inputTokens, costUsd, parts: partsOf(parts) } },
      };
      const reply = await this.#simulation.network
        .call((node) => node.runners.report(runnerPrincipal, request), 2_000)
        .catch(() => null);
      if (!reply || isRefusal(reply)) continue;
      this.#used.delete(key);
      const counted = this.#simulation.tables.agents.get(agentKey)?.runs[runId - 1]?.usage.inputTokens;
      holds(counted === inputTokens, 'UsageCountsOnce', () => `${key}: ${counted} of ${inputTokens} tokens`);
      for (const row of this.#simulation.tables.usage.countedOf(agentKey, runId))
        holds(
          row.input_tokens === parts.get(row.model)?.inputTokens,
          'UsageCountsOnce',
          () => `${key}: ${row.input_tokens} tokens of ${row.model}, ${JSON.stringify([...parts])}`,
        );
    }
  }

  #isRunning(): boolean {
    return this.isAlive && !this.#simulation.isOver;
  }

  async #waitWhilePaused(): Promise<void> {
    const { clock } = this.#simulation;
    while (clock.nowMs < this.#pausedUntilMs) await clock.delay(this.#pausedUntilMs - clock.nowMs);
  }

  /** Without a lease no run may continue. */
  #dropWithoutLease(): void {
    if (this.#simulation.clock.nowMs >= this.#trustedUntilMs) this.#processes.clear();
  }

  #poll(): Promise<PollReply | Refusal> {
    const { network, random } = this.#simulation;
    this.#polls += 1;
    const { rehearses, ...slots } = slotsOf[this.name];
    const running = [...this.#processes.values()];
    const free = (slot: 'real' | 'rehearsed') =>
      Math.max(0, slots[slot] - running.filter((process) => process.slot === slot).length);
    const request = {
      runnerId: this.id,
      name: this.name,
      poll: this.#polls,
      capabilities: ['deferral', 'sandbox', 'steer'],
      backends: ['BACKEND_A' as const],
      rehearses,
      free: { real: free('real'), rehearsed: free('rehearsed') },
      runs: running.map(({ agentKey, runId, steers }) => ({ agentKey, runId, steers: [...steers.keys()] })),
      waitMs: leaseMs / 2,
    };
    // Sometimes it times out before the node does: then an older poll is still open while a newer one is answered.
    const timeoutMs = random.chance(0.3) ? random.between(100, 2_000) : leaseMs / 2 + 1_000;
    const { signal } = new AbortController();
    return network.call((node) => {
      const poll = () => node.runners.poll(runnerPrincipal, request, signal);
      return this.#simulation.scheduling.watchPoll(node, { ...request, slots }, poll);
    }, timeoutMs);
  }

  #startRun({ agentKey, runId, model }: Claim): void {
    const key = `${agentKey}/${runId}`;
    if (this.#processes.has(key)) return;
    const isRehearsed = slotsOf[this.name].rehearses || isRehearsalModel(model);
    const slot = isRehearsed ? 'rehearsed' : 'real';
    const steers: Process['steers'] = new Map();
    const process: Process = {
      ...{ agentKey, runId, slot, reports: 0, stop: '', isActing: true, steers },
      ...{ spentUsd: 0, unreportedUsd: 0, isRefused: false },
    };
    this.#processes.set(key, process);
    this.#simulation.start(this.#work(key, process));
  }

  #isCurrent(key: string, process: Process): boolean {
    return this.#isRunning() && this.#processes.get(key) === process;
  }

  async #work(key: string, process: Process): Promise<void> {
    const { clock, random, hasFaults } = this.#simulation;
    const text = `${this.id} ${process.runId}`;
    const isTaken = await this.#report(key, process, { started: true, items: [{ type: 'MESSAGE', text }] });
    const turns = hasFaults ? random.between(1, 4) : 1;
    for (let turn = 0; isTaken && turn < turns && process.stop === '' && !process.isRefused; turn += 1) {
      await clock.delay(hasFaults ? random.between(10, 2_500) : random.between(5, 60));
      await this.#waitWhilePaused();
      if (!this.#isCurrent(key, process)) return;
      if (random.chance(0.7)) await this.#spend(key, process);
      if (!this.#isCurrent(key, process)) return;
      if (random.chance(0.5)) await this.#report(key, process, { items: [{ type: 'MESSAGE', text }] });
      await this.#confirmSteers(key, process);
      if (!this.#isCurrent(key, process)) return;
      this.#acknowledgeChild(process);
      this.#declare(process);
    }
    if (!this.#isCurrent(key, process)) return;
    process.isActing = false;
    const last: Partial<ReportRequest> =
      process.stop === 'KILL' ? { gone: true } : { end: this.#ending(process) };
    await this.#report(key, process, last);
    // The end was refused because the run was killed meanwhile: then only the exit is reported.
    if (this.#isCurrent(key, process)) await this.#report(key, process, { gone: true });
    if (this.#isCurrent(key, process)) this.#processes.delete(key);
  }

  /** The harness has taken some of the messages for the turn. */
  async #confirmSteers(key: string, process: Process): Promise<void> {
    const { random } = this.#simulation;
    const settled = [...process.steers.values()].filter(() => random.chance(0.7));
    if (settled.length === 0) return;
    const steers = settled.map(({ followUpId, sequence }) => ({
      followUpId,
      sequence,
      taken: random.chance(0.7),
    }));
    await this.#report(key, process, { steers });
    for (const { sequence } of steers) process.steers.delete(sequence);
  }

  /** Reserves the most that a request can cost, repeats that until it is answered, and sends the request. */
  async #spend(key: string, process: Process): Promise<void> {
    const { network, clock, random } = this.#simulation;
    const { agentKey, runId } = process;
    const mostUsd = random.between(1, 100) / 100;
    const request = { runnerId: this.id, agentKey, runId, upToUsd: process.spentUsd + mostUsd };
    while (this.#isCurrent(key, process)) {
      const reply = await network
        .call((node) => node.credits.reserve(runnerPrincipal, request), 2_000)
        .catch(() => null);
      await this.#waitWhilePaused();
      if (!this.#isCurrent(key, process)) return;
      if (reply && isRefusal(reply) && reply.message.includes('has to be counted')) continue;
      if (reply && isRefusal(reply)) return;
      if (reply) {
        process.isRefused = reply.refusal !== '';
        if (process.isRefused) return;
        const usd = mostUsd * (random.pick([0, 0.3, 1]) ?? 0);
        process.spentUsd += usd;
        process.unreportedUsd += usd;
        this.#noteUse(key, process, { model: models[0], inputTokens: 0, costUsd: usd });
        return;
      }
      await clock.delay(random.between(10, 200));
    }
  }

  #noteUse(key: string, { agentKey, runId }: Process, more: Part): void {
    const noted = this.#used.get(key);
    this.#used.set(key, {
      ...{ agentKey, runId },
      inputTokens: (noted?.inputTokens ?? 0) + more.inputTokens,
      costUsd: (noted?.costUsd ?? 0) + more.costUsd,
      parts: withPart(noted?.parts ?? new Map(), more),
    });
  }

  /** Nothing is lost if the process ends before the report with it arrives. */
  #use(key: string, process: Process, inputTokens: number): NonNullable<ReportRequest['usage']> {
    const tokens = { model: modelOf(process.reports), inputTokens, costUsd: 0 };
    this.#noteUse(key, process, tokens);
    const { unreportedUsd: costUsd } = process;
    process.unreportedUsd = 0;
    const cost = withPart(new Map(), { model: models[0], inputTokens: 0, costUsd });
    return { inputTokens, costUsd, parts: partsOf(withPart(cost, tokens)) };
  }

  /** Repeats a report until it is acknowledged. False: the run no longer belongs to this runner. */
  async #report(key: string, process: Process, fields: Partial<ReportRequest>): Promise<boolean> {
    const { network, clock, random } = this.#simulation;
    process.reports += 1;
    const hasUsage =
      this.#isCurrent(key, process) && (process.reports % 2 === 0 || process.unreportedUsd > 0);
    const usage = hasUsage ? this.#use(key, process, process.reports) : undefined;
    const request: ReportRequest = {
      runnerId: this.id,
      agentKey: process.agentKey,
      runId: process.runId,
      report: process.reports,
      ...(usage && { usage }),
      // The number of the report, which `checkUnpushed` compares.
      ...(process.reports % 3 > 0 && {
        unpushed: { commits: process.runId, files: process.reports, isSaved: process.reports % 2 === 0 },
      }),
      ...fields,
    };
    while (this.#isCurrent(key, process)) {
      const reply = await network
        .call((node) => node.runners.report(runnerPrincipal, request), 2_000)
        .catch(() => null);
      await this.#waitWhilePaused();
      if (reply) return !isRefusal(reply);
      await clock.delay(random.between(10, 200));
    }
    return false;
  }

  #ending({ stop, isRefused }: Process): ReportRequest['end'] {
    const { random, clock, hasFaults } = this.#simulation;
    if (isRefused && random.chance(0.8)) return { outcome: 'PARKED', limitUntil: clock.now };
    if (stop === 'INTERRUPT' && random.chance(0.8)) return { outcome: 'INTERRUPTED' };
    if (!hasFaults) return { outcome: 'COMPLETED' };
    switch (random.below(14)) {
      case 0:
        return { outcome: 'COMPLETED', question: 'which?' };
      case 1:
        return { outcome: 'COMPLETED', finished: true };
      case 2:
        return { outcome: 'FAILED', error: { code: 'NO', message: 'no' } };
      case 3:
        return {
          outcome: 'PARKED',
          limitUntil: new Date(clock.nowMs + random.between(0, 8_000)).toISOString(),
        };
      case 4:
        return { outcome: 'HANDED_BACK' };
      case 5:
        return { outcome: 'FAILED', error: { code: 'REHEARSED_FAILURE', message: 'no' } };
      case 6:
        return { outcome: 'FAILED', error: { code: 'GIT_UNREACHABLE', message: 'no route' } };
      default:
        return { outcome: 'COMPLETED' };
    }
  }

  #keyOf(id: string): AgentKey {
    return { tenant: this.#simulation.tables.agents.get(id)?.agent.tenant ?? 0, id };
  }

  /** Sometimes an agent asks a question or finishes with its own tools. */
  #declare({ agentKey, runId }: Process): void {
    const { network, random, hasFaults } = this.#simulation;
    if (!hasFaults || !random.chance(0.08)) return;
    const target = { key: this.#keyOf(agentKey) };
    const command = random.chance(0.5)
      ? ({ type: 'ask', runId, question: 'which?' } as const)
      : ({ type: 'finish', runId, text: 'done' } as const);
    network.call((node) => node.transact.command(target, command), 1_000).catch(() => null);
  }

  /** Sometimes an agent reads a child's status with its own tools. */
  #acknowledgeChild({ agentKey }: Process): void {
    const { tables, network, random } = this.#simulation;
    const child = tables.agents.get(agentKey)?.agent.memory.unseenChildren[0];
    if (!child || !random.chance(0.3)) return;
    const target = { key: this.#keyOf(agentKey) };
    network
      .call((node) => node.transact.command(target, { type: 'acknowledgeChild', child }), 1_000)
      .catch(() => null);
  }
}

const withPart = (parts: Parts, { model, inputTokens, costUsd }: Part): Parts => {
  const part = parts.get(model) ?? { inputTokens: 0, costUsd: 0 };
  const sum = { inputTokens: part.inputTokens + inputTokens, costUsd: part.costUsd + costUsd };
  return new Map([...parts, [model, sum]]);
};

const partsOf = (parts: Parts) => [...parts].map(([model, used]) => ({ model, account: '', ...used }));

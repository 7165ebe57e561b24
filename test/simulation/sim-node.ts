import type { Keys } from '../../packages/service/src/control/access/keys.ts';
import type { Tenants } from '../../packages/service/src/control/access/tenants.ts';
import { BudgetCounts } from '../../packages/service/src/control/agents/budget-counts.ts';
import {
  AgentLockedError,
  type Transact,
  transact,
} from '../../packages/service/src/control/batches/transact.ts';
import type { Catalog } from '../../packages/service/src/control/catalog/catalog.ts';
import type { BlockOnStateError } from '../../packages/service/src/control/runners/block-on-state-error.ts';
import { RunCredits } from '../../packages/service/src/control/runners/run-credits.ts';
import { Runners } from '../../packages/service/src/control/runners/runners.ts';
import type { Quotas } from '../../packages/service/src/control/upkeep/quotas.ts';
import { Timers } from '../../packages/service/src/control/upkeep/timers.ts';
import {
  type CommittedChanges,
  changesOf,
  Wakes,
} from '../../packages/service/src/control/watching/wakes.ts';
import type { Effect } from '../../packages/service/src/domain/decision.ts';
import { isRefusal } from '../../packages/service/src/domain/refusal.ts';
import { openLog } from '../../packages/service/src/lib/log.ts';
import { Metrics } from '../../packages/service/src/lib/metrics.ts';
import { CommitUnknownError, type Wanted } from '../../packages/service/src/store/agent-store.ts';
import { memoryDatabase } from './memory-database.ts';
import { type ConnectionFaults, MemoryStore, type TransactionFault } from './memory-store.ts';
import type { Simulation } from './simulation.ts';
import { holds } from './timeline-audit.ts';

const log = openLog('silent');
const metrics = new Metrics();

/** Leases in the simulation are short, so that many of them end. */
export const leaseMs = 5_000;

/** A command that was sent and not answered. */
interface InFlight {
  readonly what: string;
  readonly sentMs: number;
}

/** A violated invariant must fail the simulation, not block an agent. */
const unguarded: BlockOnStateError = (_subject, work) => work();

/** One process of a node: the real group commit, runner protocol, timers and wake-ups on the simulated store. */
export class SimNode {
  readonly transact: Transact;
  readonly wakes = new Wakes();
  readonly runners: Runners;
  readonly credits: RunCredits;
  isAlive = true;
  readonly #inFlight = new Set<InFlight>();
  readonly #store: MemoryStore;
  readonly #timers: Timers;
  readonly #simulation: Simulation;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    const { tables, clock } = simulation;
    const faults: ConnectionFaults = {
      isAlive: () => this.isAlive,
      latencyMs: () => this.#latencyMs(),
      fault: () => this.#fault(),
    };
    this.#store = new MemoryStore(tables, clock, simulation.locks, faults);
    const real = transact({ store: this.#store, perform: (effects) => this.#perform(effects), maxBatch: 8 });
    this.transact = this.#watched(real);
    const database = memoryDatabase({ tables, clock, locks: simulation.locks }, faults);
    const tenants = {
      first: async () => 1,
      name: async () => ({ provider: 'PROVIDER_CODEHOST_APP', org: 'local' }),
      agentKey: async (_: number, id: string) => {
        const tenant = tables.agents.get(id)?.agent.tenant;
        return tenant === undefined ? undefined : { tenant, id };
      },
    } as unknown as Tenants;
    this.credits = new RunCredits({
      ...{ database, tenants, transact: this.transact },
      counts: new BudgetCounts(database),
    });
    this.runners = new Runners({
      database,
      transact: this.transact,
      blockOnStateError: unguarded,
      models: {},
      wakes: this.wakes,
      catalog: { document: async () => undefined, current: async () => undefined } as unknown as Catalog,
      keys: { runToken: () => '' } as unknown as Keys,
      tenants,
      leaseMs,
      workers: null,
      quotas: { stored: () => {} } as unknown as Quotas,
      log,
      metrics,
    });
    this.#timers = new Timers({
      database,
      transact: this.transact,
      blockOnStateError: unguarded,
      wakes: this.wakes,
      log,
      metrics,
    });
    this.wakes.onEffects = (effects) => this.#notifyOthers(changesOf(effects));
    this.#timers.start();
  }

  oldestInFlight(): InFlight | null {
    return [...this.#inFlight][0] ?? null;
  }

  crash(): void {
    this.isAlive = false;
    this.#timers.close();
    this.#store.endSessions();
  }

  /** Most statements are fast; with faults a few are so slow that clients retry meanwhile. */
  #latencyMs(): number {
    const { hasFaults, random } = this.#simulation;
    if (hasFaults && random.chance(0.01)) return random.between(50, 600);
    return random.chance(0.3) ? random.between(1, hasFaults ? 20 : 3) : 0;
  }

  #fault(): TransactionFault {
    const { hasFaults, random } = this.#simulation;
    if (!hasFaults || !random.chance(0.06)) return 'none';
    return (
      random.pick<TransactionFault>(['refused', 'aborted', 'unknown, committed', 'unknown, lost']) ?? 'none'
    );
  }

  /** Effects are performed only for changes that are stored. */
  #perform(effects: readonly Effect[]): void {
    const { tables } = this.#simulation;
    for (const effect of effects) {
      if (effect.type !== 'changed') continue;
      const stored = tables.agents.get(effect.id)?.agent.sequence ?? 0;
      this.#simulation.guard(() =>
        holds(
          effect.sequence <= stored,
          'EffectsAfterCommit',
          () => `the effect has sequence ${effect.sequence}, stored is ${stored}`,
        ),
      );
    }
    this.wakes.perform(effects);
  }

  /** A notification between nodes, which may be late or lost. */
  #notifyOthers(changes: CommittedChanges): void {
    const { nodes, random, clock, tables } = this.#simulation;
    for (const other of nodes) {
      if (other === this || random.chance(this.#simulation.notificationLoss)) continue;
      clock.after(random.between(1, 50), () => {
        if (!other.isAlive) return;
        for (const { tenant, pool } of changes.pools) other.wakes.work(tenant, pool);
        for (const runner of changes.runners) other.wakes.runner(runner);
        for (const key of changes.agents) {
          const agent = tables.agents.get(key.id)?.agent;
          if (agent && other.wakes.isWatching(key.id)) other.wakes.changed(key, agent);
        }
      });
    }
  }

  /** An agent that exists is found, even if it is locked. */
  #checkFound(target: Wanted, reply: unknown): void {
    if (!isRefusal(reply) || !('key' in target) || reply.message !== 'the agent does not exist') return;
    const isThere = this.#simulation.tables.agents.has(target.key.id);
    holds(!isThere, 'AckedIsDurable', () => `${target.key.id} was said not to exist`);
  }

  /** Counts what is in flight; an error that no fault explains fails the simulation. */
  #watched(real: Transact): Transact {
    const watch = async <T>(what: string, send: () => Promise<T>): Promise<T> => {
      const sent: InFlight = { what, sentMs: this.#simulation.clock.nowMs };
      this.#inFlight.add(sent);
      try {
        return await send();
      } catch (error) {
        const isFault =
          error instanceof CommitUnknownError ||
          error instanceof AgentLockedError ||
          /connection broke|refuses connections/.test(String(error));
        if (!isFault)
          this.#simulation.fail(new Error(`${what} was answered with ${error}`, { cause: error }));
        throw error;
      } finally {
        this.#inFlight.delete(sent);
      }
    };
    return {
      command: async (target, command, options) => {
        const reply = await watch(command.type, () => real.command(target, command, options));
        this.#simulation.guard(() => this.#checkFound(target, reply));
        return reply as never;
      },
      idle: () => real.idle(),
    };
  }
}

import { hash } from 'node:crypto';
import type pg from 'pg';
import { poolId } from '../../domain/loaded-agents.ts';
import {
  type AvailableRunner,
  type PoolLimits,
  type PoolWork,
  runnersWanted,
  type Slot,
} from '../../domain/scheduling.ts';
import type { OtherWorkers } from '../../lib/worker-channel.ts';
import { type PoolWorkRow, readAllPoolWork, readPoolLimits } from '../../store/statements/claims.ts';
import { readRunnerCapacity } from '../../store/statements/runners.ts';

export interface RunnerCapacity {
  readonly runners: readonly AvailableRunner[];
  readonly limits: (tenant: number, pool: string) => PoolLimits;
}

const unlimited: PoolLimits = { maxRuns: null, freeRuns: null };

export const noRunners: RunnerCapacity = { runners: [], limits: () => unlimited };

/** The runners that are live now, and the limits of these pools. */
export async function loadRunnerCapacity(
  database: pg.Pool,
  isAbsent: (runner: RunnerPolls) => boolean,
  wanted: readonly { tenant: number; pool: string }[],
): Promise<RunnerCapacity> {
  const pools = [...new Map(wanted.map((w) => [poolId(w), w])).values()];
  const [rows, limits] = await Promise.all([readRunnerCapacity(database), loadPoolLimits(database, pools)]);
  return {
    runners: rows
      .filter((row) => !isAbsent(row))
      .map((row) => ({
        tenant: row.tenant,
        name: row.name,
        pool: row.pool,
        backends: row.backends,
        rehearses: row.rehearses,
        freeReal: row.free_real,
        freeRehearsed: row.free_rehearsed,
        heldBy: (tenant) => row.held?.[tenant] ?? 0,
      })),
    limits,
  };
}

interface NamedPool {
  readonly tenant: number;
  readonly pool: string;
}

async function loadPoolLimits(
  database: pg.Pool,
  pools: readonly NamedPool[],
): Promise<RunnerCapacity['limits']> {
  const rows = await readPoolLimits(
    database,
    pools.map(({ tenant }) => tenant),
    pools.map(({ pool }) => pool),
  );
  const limits = new Map(
    rows.map(({ tenant, name, max_runs, free_runs }) => [
      poolId({ tenant, pool: name }),
      { maxRuns: max_runs, freeRuns: free_runs },
    ]),
  );
  return (tenant, pool) => limits.get(poolId({ tenant, pool })) ?? unlimited;
}

export const poolWorkOf = (row: PoolWorkRow): PoolWork => ({
  waiting: { real: row.waiting - row.waiting_rehearsed, rehearsed: row.waiting_rehearsed },
  running: { real: row.running - row.running_rehearsed, rehearsed: row.running_rehearsed },
});

/** How many runners each tenant needs in each pool. */
export async function loadWanted(database: pg.Pool): Promise<(NamedPool & { readonly wanted: number })[]> {
  const rows = await readAllPoolWork(database);
  const limits = await loadPoolLimits(database, rows);
  return rows.map((row) => ({
    tenant: row.tenant,
    pool: row.pool,
    wanted: runnersWanted(poolWorkOf(row), limits(row.tenant, row.pool)),
  }));
}

/** A runner that gives up a poll sends the next one within this time. */
const absentMs = 1000;

export interface RunnerPolls {
  readonly id: string;
  readonly polls: number;
}

interface NewestPoll {
  readonly poll: number;
  /** When its connection was cut; null while it is open. */
  readonly cutAtMs: number | null;
}

/**
 * Runners whose poll was cut and that have not polled since: they are probably dead. Their leases still count, so no
 * other runner takes over their runs; but an agent that waits for one is not about to start. A node knows only of the
 * polls that it, or another worker of its service, received.
 */
export class CutPolls {
  readonly #newest = new Map<string, NewestPoll>();
  readonly #leaseMs: number;
  readonly #workers: OtherWorkers | null;

  constructor(leaseMs: number, workers: OtherWorkers | null) {
    this.#leaseMs = leaseMs;
    this.#workers = workers;
    workers?.on('pollCut', ({ runnerId, poll }) => {
      this.began(runnerId, poll);
      this.#cut(runnerId, poll);
    });
  }

  began(runnerId: string, poll: number): void {
    const newest = this.#newest.get(runnerId);
    if (!newest || newest.poll < poll) this.#newest.set(runnerId, { poll, cutAtMs: null });
  }

  ended(runnerId: string, poll: number, isCut: boolean): void {
    if (this.#newest.get(runnerId)?.poll !== poll) return;
    if (!isCut) {
      this.#newest.delete(runnerId);
      return;
    }
    this.#cut(runnerId, poll);
    this.#workers?.tell('pollCut', { runnerId, poll });
  }

  #cut(runnerId: string, poll: number): void {
    if (this.#newest.get(runnerId)?.poll !== poll) return;
    const now = Date.now();
    this.#newest.set(runnerId, { poll, cutAtMs: now });
    for (const [id, { cutAtMs }] of this.#newest)
      if (cutAtMs !== null && cutAtMs < now - this.#leaseMs) this.#newest.delete(id);
  }

  /** `polls` is the number of its newest poll at any node. */
  isAbsent({ id, polls }: RunnerPolls): boolean {
    const newest = this.#newest.get(id);
    if (newest?.poll !== polls || newest.cutAtMs === null) return false;
    return newest.cutAtMs < Date.now() - absentMs;
  }
}

/** As many runners as a node remembers. */
const maxRemembered = 10_000;

/**
 * The tenant of a runner's last claim, by kind of slot: the next claim begins with the tenant after it. Turns are
 * counted for each runner and kind of slot. With one count for all, a tenant could miss its turn at this runner again
 * and again. A node knows only of the claims that it made.
 */
export class ClaimTurns {
  readonly #last = new Map<string, number>();

  /** A tenant, or for a runner without a claim any number, so that not every new runner begins with the same tenant. */
  last(runnerId: string, slot: Slot): number {
    return this.#last.get(`${runnerId}/${slot}`) ?? hash('sha256', runnerId, 'buffer').readUInt32BE() >>> 1;
  }

  took(runnerId: string, slot: Slot, tenant: number): void {
    const key = `${runnerId}/${slot}`;
    // The runner that has claimed nothing for the longest time comes first.
    this.#last.delete(key);
    this.#last.set(key, tenant);
    const [oldest] = this.#last.keys();
    if (this.#last.size > maxRemembered && oldest !== undefined) this.#last.delete(oldest);
  }
}

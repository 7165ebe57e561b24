import type pg from 'pg';
import type { AvailableRunner } from '../domain/scheduling.ts';
import type { OtherWorkers } from '../lib/worker-channel.ts';
import { readPoolLimits, readRunnerCapacity } from '../store/statements/runners.ts';

export interface RunnerCapacity {
  readonly runners: readonly AvailableRunner[];
  readonly maxRuns: (tenant: number, pool: string) => number | null;
}

/** The runners that are live now, and the limits of these pools. */
export async function loadRunnerCapacity(
  database: pg.Pool,
  isAbsent: (runner: RunnerPolls) => boolean,
  wanted: readonly { tenant: number; pool: string }[],
): Promise<RunnerCapacity> {
  const pools = [...new Map(wanted.map((w) => [`${w.tenant}/${w.pool}`, w])).values()];
  const [rows, limits] = await Promise.all([
    readRunnerCapacity(database),
    readPoolLimits(
      database,
      pools.map((p) => p.tenant),
      pools.map((p) => p.pool),
    ),
  ]);
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
    maxRuns: (tenant, name) => limits.find((l) => l.tenant === tenant && l.name === name)?.max_runs ?? null,
  };
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

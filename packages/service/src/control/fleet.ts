import type pg from 'pg';
import type { FleetRunner } from '../domain/fleet.ts';
import { readFleet, readPoolLimits } from '../store/statements/runners.ts';
import type { RunnerPolls } from './cut-polls.ts';

export interface Fleet {
  readonly runners: readonly FleetRunner[];
  readonly maxRuns: (tenant: number, pool: string) => number | null;
}

/** The runners that are there right now and the limits of these pools. */
export async function loadFleet(
  pool: pg.Pool,
  isAbsent: (runner: RunnerPolls) => boolean,
  wanted: readonly { tenant: number; pool: string }[],
): Promise<Fleet> {
  const pools = [...new Map(wanted.map((w) => [`${w.tenant}/${w.pool}`, w])).values()];
  const [rows, limits] = await Promise.all([
    readFleet(pool),
    readPoolLimits(
      pool,
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

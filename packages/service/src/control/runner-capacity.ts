import type pg from 'pg';
import type { AvailableRunner } from '../domain/scheduling.ts';
import { readPoolLimits, readRunnerCapacity } from '../store/statements/runners.ts';
import type { RunnerPolls } from './cut-polls.ts';

export interface RunnerCapacity {
  readonly runners: readonly AvailableRunner[];
  readonly maxRuns: (tenant: number, pool: string) => number | null;
}

/** The runners that are there right now and the limits of these pools. */
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

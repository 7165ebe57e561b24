import type pg from 'pg';
import type { Log } from '../../lib/log.ts';
import type { Metrics } from '../../lib/metrics.ts';
import { countedMetrics } from '../../lib/metrics-table.ts';
import { countRows, type RowCount } from '../../store/statements/row-counts.ts';
import { loadWanted } from '../runners/runner-capacity.ts';

const intervalMs = 15_000;
/** A count of many rows is repeated less often, so that it takes at most a hundredth of the time. */
const pauseFactor = 100;
/** Members name pools. Those beyond the first ones count as `other`. */
const mostPools = 50;

/**
 * Counts rows for the metrics, when they are read. Each worker counts: the result is the same everywhere, and the others
 * may end at any time.
 */
export class RowCounts {
  readonly #database: pg.Pool;
  readonly #metrics: Metrics;
  readonly #log: Log;
  #dueMs = 0;
  #counting: Promise<void> | null = null;

  constructor(database: pg.Pool, metrics: Metrics, log: Log) {
    this.#database = database;
    this.#metrics = metrics;
    this.#log = log;
  }

  /** Resolves when the metrics are as new as they may be. */
  async refresh(): Promise<void> {
    if (performance.now() < this.#dueMs) return;
    this.#counting ??= this.#count().finally(() => {
      this.#counting = null;
    });
    await this.#counting;
  }

  async #count(): Promise<void> {
    const startMs = performance.now();
    try {
      const [rows, wanted] = await Promise.all([countRows(this.#database), loadWanted(this.#database)]);
      const ofPools = wanted.map(({ pool, wanted }) => ({
        ...({ what: 'wanted', first: pool, second: '', count: wanted, oldest: null } as const),
      }));
      this.#show([...rows, ...ofPools]);
    } catch (error) {
      this.#log.warn({ err: error }, 'counting rows failed');
      // Nothing is better than numbers that no longer hold.
      for (const name of countedMetrics) this.#metrics.set(name, []);
    }
    const endMs = performance.now();
    this.#dueMs = endMs + Math.max(intervalMs, pauseFactor * (endMs - startMs));
  }

  #show(rows: readonly RowCount[]): void {
    const metrics = this.#metrics;
    const of = (what: RowCount['what']) => rows.filter((row) => row.what === what);
    const ofPools = poolRows(rows);
    const inPool = (what: RowCount['what']) => ofPools.filter((row) => row.what === what);
    /** Of none, the number is 0. */
    const byState = (what: RowCount['what'], states: readonly string[]) =>
      states.map(
        (state) => [{ state }, of(what).find(({ second }) => second === state)?.count ?? 0] as const,
      );
    const poolStates = (what: RowCount['what']) =>
      inPool(what).map((row) => [{ pool: row.first, state: row.second }, row.count] as const);
    const oldest = (what: RowCount['what']) =>
      [[{}, Math.max(0, ...of(what).map((row) => row.oldest ?? 0))]] as const;
    metrics.set(
      'muster_agents',
      of('agents').map((row) => [{ phase: row.first, reason: row.second }, row.count]),
    );
    const waiting = inPool('claimable');
    const pools = new Set(ofPools.map(({ first }) => first));
    const claimable = [...pools].map(
      (first) => waiting.find((row) => row.first === first) ?? { first, count: 0, oldest: 0 },
    );
    metrics.set(
      'muster_agents_claimable',
      claimable.map((row) => [{ pool: row.first }, row.count]),
    );
    metrics.set(
      'muster_agents_claimable_oldest_seconds',
      claimable.map((row) => [{ pool: row.first }, row.oldest ?? 0]),
    );
    metrics.set('muster_messages', byState('messages', ['QUEUED', 'DEFERRED']));
    metrics.set(
      'muster_messages_oldest_seconds',
      ['QUEUED', 'DEFERRED'].map((state) => [
        { state },
        of('messages').find(({ second }) => second === state)?.oldest ?? 0,
      ]),
    );
    metrics.set(
      'muster_runners_wanted',
      [...pools].map((pool) => [{ pool }, inPool('wanted').find(({ first }) => first === pool)?.count ?? 0]),
    );
    metrics.set('muster_runners', poolStates('runners'));
    metrics.set('muster_runner_slots', poolStates('slots'));
    metrics.set('muster_deliveries_waiting', byState('deliveries', ['new', 'retrying']));
    metrics.set('muster_deliveries_oldest_seconds', oldest('deliveries'));
    metrics.set('muster_outbox_waiting', byState('outbox', ['new', 'retrying']));
    metrics.set('muster_outbox_oldest_seconds', oldest('outbox'));
  }
}

/**
 * The rows about pools. Only a few pools are named, the others are added up as `other`. Those with runners come first,
 * because a pool that agents only wait for may be no more than a name in the catalog.
 */
export function poolRows(rows: readonly RowCount[]): RowCount[] {
  const ofPools = rows.filter(({ what }) => ['claimable', 'runners', 'slots', 'wanted'].includes(what));
  const named = ofPools.toSorted(
    (a, b) => Number(b.what === 'runners') - Number(a.what === 'runners') || compare(a.first, b.first),
  );
  const kept = new Set([...new Set(named.map(({ first }) => first))].slice(0, mostPools));
  const folded = new Map<string, RowCount>();
  for (const row of ofPools) {
    const first = kept.has(row.first) ? row.first : 'other';
    const key = JSON.stringify([row.what, first, row.second]);
    const { count = 0, oldest = 0 } = folded.get(key) ?? {};
    folded.set(key, {
      ...row,
      first,
      count: count + row.count,
      oldest: Math.max(oldest ?? 0, row.oldest ?? 0),
    });
  }
  return [...folded.values()];
}

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b));

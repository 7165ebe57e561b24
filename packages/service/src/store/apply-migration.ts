import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';
import { type DatabaseConfig, openClient } from './connection.ts';
import { type Migration, type NewIndex, newIndexOf } from './migration-plan.ts';

/** Arbitrary, but the same on every node. */
const migrationLock = 7_301_984;

/**
 * How long a transactional migration waits for a lock. Statements of the nodes wait behind it, so this is shorter than
 * their timeout. It is longer than the second (`deadlock_timeout`) after which PostgreSQL cancels an autovacuum that is
 * in the way.
 */
const lockTimeoutMs = 1_500;
/** Between two attempts, so that statements which had to wait are served. */
const firstPauseMs = 500;
const longestPauseMs = 10_000;
/** Between two looks whether another node has finished its migration. */
const otherNodeMs = 200;
/** How often to look for the holder of a lock, and when to report it. */
const lookMs = 500;
const firstReportMs = 3_000;
const reportMs = 30_000;

/** The schema can't be used or migrated. The message says why and what to do. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
}

export interface MigrationOptions {
  /** How long a migration may wait for locks of sessions that are no migrations. */
  readonly withinMs?: number;
  /** Called after some seconds, and then from time to time, with what the migration waits for. */
  readonly onWait?: (waitsFor: string) => void;
}

interface LockHolder {
  /** What is waited for. */
  lock: string;
  pid: number;
  /** Who holds it. */
  session: string;
}

const session = `format('pid %s (application "%s", %s for %s s)', h.pid, h.application_name, h.state,
  extract(epoch FROM now() - coalesce(h.xact_start, h.state_change))::int)`;

/** What a session waits for, and which sessions are in its way. */
const blockersOf = `
  SELECT format('%s of %s', l.mode, coalesce('table ' || l.relation::regclass, l.locktype)) AS lock,
    h.pid, ${session} AS session
  FROM pg_locks l CROSS JOIN unnest(pg_blocking_pids(l.pid)) b (pid) JOIN pg_stat_activity h ON h.pid = b.pid
  WHERE l.pid = $1 AND NOT l.granted`;

const holdersOfMigrationLock = `
  SELECT 'another migration' AS lock, h.pid, ${session} AS session
  FROM pg_locks l JOIN pg_stat_activity h ON h.pid = l.pid AND h.datid = l.database
  WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = $1 AND l.granted
    AND h.datname = current_database()`;

/** The partitions of a table that have no part of an index yet. */
const partitionsWithout = `
  SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = to_regclass($1) AND NOT EXISTS (
    SELECT FROM pg_inherits p JOIN pg_index x ON x.indexrelid = p.inhrelid
    WHERE p.inhparent = to_regclass($2) AND x.indrelid = c.oid)
  ORDER BY 1`;

const describeHolder = ([first]: readonly LockHolder[]): string =>
  first ? `${first.lock}, held by ${first.session}` : 'a lock of a session that has ended';

/** PostgreSQL gave up on a lock: `lock_not_available`, `deadlock_detected`. */
const isAboutLocks = (error: unknown): boolean =>
  ['55P03', '40P01'].includes((error as { code?: string }).code ?? '');

/** The index of an empty table, or of one that nobody uses, needs no CONCURRENTLY. */
const inTransaction = ({ kind, sql }: Migration): string =>
  kind === 'concurrent' ? sql.replace('CONCURRENTLY ', '') : sql;

type Outcome = 'applied' | 'applied by another node' | 'another node is migrating' | 'no lock';

/** Applies migrations on one connection, and waits politely for locks that others hold. */
export class MigrationSession {
  readonly #client: pg.Client;
  readonly #connection: DatabaseConfig;
  readonly #withinMs: number;
  readonly #onWait: (waitsFor: string) => void;
  #waitingSinceMs = 0;
  #reportAtMs = 0;
  #pid = 0;
  #holders: readonly LockHolder[] = [];

  constructor(client: pg.Client, connection: DatabaseConfig, options: MigrationOptions) {
    this.#client = client;
    this.#connection = connection;
    this.#withinMs = options.withinMs ?? 600_000;
    this.#onWait = options.onWait ?? (() => {});
  }

  /**
   * Returns whether this session applied it; if not, another node did. On an empty database, `others` follow in the same
   * transaction.
   */
  async apply(migration: Migration, others: readonly Migration[] = []): Promise<boolean> {
    this.#holders = [];
    this.#waitingSinceMs = performance.now();
    this.#reportAtMs = this.#waitingSinceMs + firstReportMs;
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      const outcome = await this.#attempt(migration, others);
      if (outcome === 'applied') return true;
      if (outcome === 'applied by another node') return false;
      if (outcome === 'another node is migrating') {
        this.#holders = await this.#find(this.#client, holdersOfMigrationLock, migrationLock);
        pauseMs = otherNodeMs;
      } else if (performance.now() - this.#waitingSinceMs > this.#withinMs) {
        throw this.#gaveUp(migration);
      }
      this.#report(migration);
      await pause(pauseMs * (0.5 + Math.random()));
    }
  }

  async #attempt(migration: Migration, others: readonly Migration[]): Promise<Outcome> {
    let looking = Promise.resolve();
    const timer = setInterval(() => {
      looking = looking.then(() => this.#look(migration)).catch(() => {});
    }, lookMs);
    try {
      return migration.kind === 'concurrent'
        ? await this.#applyConcurrently(migration)
        : await this.#applyInTransaction(migration, others);
    } catch (error) {
      if (!isAboutLocks(error)) throw error;
      return 'no lock';
    } finally {
      clearInterval(timer);
      await looking;
    }
  }

  async #applyInTransaction(migration: Migration, others: readonly Migration[]): Promise<Outcome> {
    await this.#client.query(
      `BEGIN; SET LOCAL lock_timeout = ${lockTimeoutMs}; SET LOCAL statement_timeout = 0`,
    );
    try {
      const outcome = await this.#applyLocked([migration, ...others]);
      await this.#client.query(outcome === 'applied' ? 'COMMIT' : 'ROLLBACK');
      return outcome;
    } catch (error) {
      await this.#client.query('ROLLBACK').catch(() => {});
      throw error;
    }
  }

  async #applyLocked(migrations: readonly [Migration, ...Migration[]]): Promise<Outcome> {
    const client = this.#client;
    const [first] = migrations;
    if (!(await this.#tryLock('pg_try_advisory_xact_lock'))) return 'another node is migrating';
    if (first.number === 1)
      await client.query(
        `CREATE TABLE IF NOT EXISTS migrations (number int PRIMARY KEY, name text NOT NULL,
           applied_at timestamptz NOT NULL DEFAULT now(), compatible_since int NOT NULL)`,
      );
    if (await this.#isApplied(first)) return 'applied by another node';
    for (const migration of migrations) {
      await client.query(inTransaction(migration));
      await this.#record(migration);
    }
    return 'applied';
  }

  /** Can be repeated after a kill or an error at any point. */
  async #applyConcurrently(migration: Migration): Promise<Outcome> {
    const client = this.#client;
    const index = newIndexOf(migration);
    if (this.#connection.isPooled && index && (await this.#isEmpty(index.table)))
      return this.#applyInTransaction(migration, []);
    if (this.#connection.isPooled)
      throw new SchemaError(
        `Migration ${migration.name} needs a session, which a pooler in transaction mode does not give: set MUSTER_DIRECT_URL to the server itself, and run muster migrate.`,
      );
    // Other statements do not wait behind this one, so it may take as long as it needs.
    await client.query('SET lock_timeout = 0; SET statement_timeout = 0');
    if (!(await this.#tryLock('pg_try_advisory_lock'))) return 'another node is migrating';
    try {
      if (await this.#isApplied(migration)) return 'applied by another node';
      if (index) await this.#buildEverywhere(index);
      else await client.query(migration.sql);
      await this.#record(migration);
      return 'applied';
    } finally {
      await client.query('SELECT pg_advisory_unlock($1)', [migrationLock]).catch(() => {});
    }
  }

  /** PostgreSQL builds no index of a partitioned table concurrently, so each partition gets its own. */
  async #buildEverywhere(index: NewIndex): Promise<void> {
    const partitioned = "SELECT FROM pg_class WHERE oid = to_regclass($1) AND relkind = 'p'";
    if (!(await this.#client.query(partitioned, [index.table])).rowCount)
      return this.#build(index, index.name, index.table);
    await this.#change(index.declaration);
    const { rows } = await this.#client.query<{ name: string }>(partitionsWithout, [index.table, index.name]);
    for (const { name } of rows) {
      const part = `${index.name}_${name}`;
      await this.#build(index, part, name);
      await this.#change(`ALTER INDEX ${index.name} ATTACH PARTITION ${part}`);
    }
  }

  /** An attempt that failed leaves an invalid index; one that was killed at its end leaves a valid one. */
  async #build(index: NewIndex, name: string, table: string): Promise<void> {
    const { rows } = await this.#client.query<{ indisvalid: boolean }>(
      'SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)',
      [name],
    );
    if (rows[0]?.indisvalid) return;
    if (rows[0]) await this.#client.query(`DROP INDEX CONCURRENTLY ${name}`);
    await this.#client.query(index.sql(name, table));
    // Building is not waiting, however long it took.
    this.#waitingSinceMs = performance.now();
  }

  /** A quick change, with the locks of a transactional migration. */
  async #change(sql: string): Promise<void> {
    await this.#client.query(`SET lock_timeout = ${lockTimeoutMs}`);
    await this.#client.query(sql);
    await this.#client.query('SET lock_timeout = 0');
  }

  /** Never waits in the database: a statement that waits there would keep an index from being built concurrently. */
  async #tryLock(lock: 'pg_try_advisory_lock' | 'pg_try_advisory_xact_lock'): Promise<boolean> {
    const { rows } = await this.#client.query<{ locked: boolean; pid: number }>(
      `SELECT ${lock}($1) AS locked, pg_backend_pid() AS pid`,
      [migrationLock],
    );
    this.#pid = rows[0]?.pid ?? 0;
    return rows[0]?.locked ?? false;
  }

  /** The index of an empty table needs no session: building it blocks nobody. */
  async #isEmpty(table: string): Promise<boolean> {
    const { rowCount } = await this.#client.query(`SELECT FROM ${table} LIMIT 1`);
    return rowCount === 0;
  }

  async #isApplied({ number }: Migration): Promise<boolean> {
    const { rowCount } = await this.#client.query('SELECT FROM migrations WHERE number = $1', [number]);
    return rowCount === 1;
  }

  async #record({ number, name, compatibleSince }: Migration): Promise<void> {
    await this.#client.query('INSERT INTO migrations (number, name, compatible_since) VALUES ($1, $2, $3)', [
      number,
      name,
      compatibleSince,
    ]);
  }

  /** Finds what the migration is waiting for right now, on a second connection. */
  async #look(migration: Migration): Promise<void> {
    const client = await openClient(this.#connection, 'muster-migrate-watch');
    try {
      const holders = await this.#find(client, blockersOf, this.#pid);
      if (holders.length === 0) return;
      this.#holders = holders;
      this.#report(migration);
    } finally {
      await client.end();
    }
  }

  async #find(client: pg.Client, query: string, parameter: number): Promise<LockHolder[]> {
    return (await client.query<LockHolder>(query, [parameter])).rows;
  }

  #report({ name }: Migration): void {
    if (performance.now() < this.#reportAtMs) return;
    this.#reportAtMs = performance.now() + reportMs;
    this.#onWait(`${name}: ${describeHolder(this.#holders)}`);
  }

  #gaveUp({ name }: Migration): SchemaError {
    const seconds = Math.round(this.#withinMs / 1_000);
    const [first] = this.#holders;
    const end = first
      ? `End that session, for example with SELECT pg_terminate_backend(${first.pid}), and start again.`
      : 'Start again.';
    return new SchemaError(
      `Migration ${name} did not get its lock within ${seconds} s: ${describeHolder(this.#holders)}. Nothing was changed. ${end}`,
    );
  }
}

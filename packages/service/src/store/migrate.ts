import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type pg from 'pg';
import { packageFile } from '../lib/package-file.ts';
import { type MigrationOptions, MigrationSession, SchemaError } from './apply-migration.ts';
import { type DatabaseConfig, openClient } from './connection.ts';
import {
  type AppliedMigration,
  type Migration,
  migrationIn,
  planMigrations,
  tooOld,
} from './migration-plan.ts';
import { createPartitions } from './timeline-partitions.ts';

const folder = fileURLToPath(packageFile('migrations/'));

/**
 * Brings the schema up to date, and returns the names of the migrations that it applied. Nodes may call it at the same
 * time: an advisory lock lets one work while the others wait. A kill half-way leaves nothing half-done.
 */
export async function migrate(
  connection: DatabaseConfig,
  { upTo = Number.POSITIVE_INFINITY, ...options }: MigrationOptions & { readonly upTo?: number } = {},
): Promise<string[]> {
  const known = await knownMigrations();
  const applied: string[] = [];
  await withClient(connection, async (client) => {
    const session = new MigrationSession(client, connection, options);
    let pending = await pendingIn(client, known);
    for (let next = pending[0]; next && next.number <= upTo; next = pending[0]) {
      // On an empty database, the others follow in the same transaction.
      const others = next.number === 1 ? pending.slice(1).filter(({ number }) => number <= upTo) : [];
      const isOurs = await session.apply(next, others);
      if (isOurs) applied.push(...[next, ...others].map(({ name }) => name));
      // Another node may have applied more, also migrations that this build does not know.
      pending = isOurs ? pending.slice(1 + others.length) : await pendingIn(client, known);
    }
    if (upTo > 0) await createPartitions(client);
  });
  return applied;
}

/** Throws unless every migration of this build is applied and it can use the schema. */
export async function expectMigrated(connection: pg.ClientConfig): Promise<void> {
  const known = await knownMigrations();
  const pending = await withClient(connection, (client) => pendingIn(client, known));
  if (pending.length > 0) throw new SchemaError(tooOld(pending));
}

/** Finds out whether another node has migrated the schema beyond what this build can use, and says what to do. */
export async function schemaWatch(): Promise<(database: pg.Pool) => Promise<string | null>> {
  const known = await knownMigrations();
  return async (database) => {
    const plan = planMigrations(known, await readApplied(database));
    return 'refusal' in plan ? plan.refusal : null;
  };
}

/** The last migration that this build knows. */
export async function newestMigration(): Promise<number> {
  return Math.max(...(await knownMigrations()).map(({ number }) => number));
}

async function knownMigrations(): Promise<Migration[]> {
  const files = (await readdir(folder)).filter((name) => /^\d{4}-.+\.sql$/.test(name)).sort();
  return Promise.all(
    files.map(async (name) => migrationIn(name, await readFile(`${folder}${name}`, 'utf8'))),
  );
}

async function pendingIn(client: pg.Client, known: readonly Migration[]): Promise<readonly Migration[]> {
  const plan = planMigrations(known, await appliedIn(client));
  if ('refusal' in plan) throw new SchemaError(plan.refusal);
  return plan.pending;
}

async function appliedIn(client: pg.Client): Promise<AppliedMigration[]> {
  const found = await client.query("SELECT FROM pg_class WHERE oid = to_regclass('migrations')");
  return found.rowCount ? readApplied(client) : [];
}

async function readApplied(database: pg.Client | pg.Pool): Promise<AppliedMigration[]> {
  const { rows } = await database.query<AppliedMigration>(
    `SELECT number, name, (to_jsonb(m) ->> 'compatible_since')::int AS "compatibleSince" FROM migrations m`,
  );
  return rows;
}

async function withClient<T>(
  connection: pg.ClientConfig,
  use: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = await openClient(connection, 'muster-migrate');
  try {
    return await use(client);
  } finally {
    // Ending the session also gives back its locks and rolls back what a failure left open.
    await client.end();
  }
}

import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { packageFile } from '../lib/package-file.ts';

const folder = fileURLToPath(packageFile('migrations/'));

/** Arbitrary, but the same on every node. */
const migrationLock = 7_301_984;

/**
 * Brings the schema up to date. Nodes may call it at the same time: an advisory lock lets one work while the others wait,
 * and each migration commits together with the row that records it, so a kill half-way leaves nothing half-done.
 */
export async function migrate(
  connection: pg.ClientConfig,
  upTo = Number.POSITIVE_INFINITY,
): Promise<string[]> {
  const client = new pg.Client({ application_name: 'muster-migrate', ...connection });
  await client.connect();
  const applied: string[] = [];
  try {
    await client.query('SELECT pg_advisory_lock($1)', [migrationLock]);
    await client.query(`CREATE TABLE IF NOT EXISTS migrations (
      number int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`);
    const { rows } = await client.query<{ number: number }>('SELECT number FROM migrations');
    const done = new Set(rows.map((row) => row.number));
    for (const migration of await migrations()) {
      if (done.has(migration.number) || migration.number > upTo) continue;
      await client.query('BEGIN');
      await client.query(migration.sql);
      await client.query('INSERT INTO migrations (number, name) VALUES ($1, $2)', [
        migration.number,
        migration.name,
      ]);
      await client.query('COMMIT');
      applied.push(migration.name);
    }
    return applied;
  } finally {
    // Ending the session also gives back the lock and rolls back what a failure left open.
    await client.end();
  }
}

/** The last migration that this build knows. */
export async function newestMigration(): Promise<number> {
  return Math.max(...(await migrations()).map(({ number }) => number));
}

async function migrations(): Promise<{ number: number; name: string; sql: string }[]> {
  const files = (await readdir(folder)).filter((name) => /^\d{4}-.+\.sql$/.test(name)).sort();
  return Promise.all(
    files.map(async (name) => ({
      number: Number(name.slice(0, 4)),
      name,
      sql: await readFile(`${folder}${name}`, 'utf8'),
    })),
  );
}

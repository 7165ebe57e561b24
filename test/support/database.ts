import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../packages/service/src/store/embedded/embedded-postgres.ts';
import { migrate } from '../../packages/service/src/store/migrate.ts';

/** One PostgreSQL for the whole test run; each server under test gets a database of its own in it. */
const urlVariable = 'MUSTER_TEST_DATABASE_URL';

/** To copy this database, in which there is nothing but the schema, takes half the work of migrating a new one. */
const template = 'migrated';

export async function startSharedPostgres(): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'muster-test-'));
  const postgres = await startEmbeddedPostgres({
    folder,
    // It lives as long as the test run: what a crash of the machine would lose is lost anyway.
    settings: { max_connections: '300', shared_buffers: '256MB', fsync: 'off', full_page_writes: 'off' },
  });
  const url = databaseUrl(postgres, postgres.connection.database);
  process.env[urlVariable] = url;
  await administer(url, `CREATE DATABASE ${template}`);
  await migrate({ connectionString: databaseUrl(postgres, template) });
  return async () => {
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  };
}

export function databaseUrl(postgres: EmbeddedPostgres, database: string): string {
  const { host, port, user, password } = postgres.connection;
  const credentials = password === undefined ? user : `${user}:${encodeURIComponent(password)}`;
  return `postgres://${credentials}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`;
}

let databases = 0;

/** A database on the shared server. */
export interface Database {
  readonly url: string;
  drop(): Promise<void>;
}

/** A new one with the schema of this build. */
export const freshDatabase = (): Promise<Database> => create(`TEMPLATE ${template} STRATEGY file_copy`);

/** A new one without a schema. */
export const emptyDatabase = (): Promise<Database> => create('');

async function create(options: string): Promise<Database> {
  const shared = process.env[urlVariable];
  if (!shared) throw new Error('the shared PostgreSQL is not running: run the tests through vitest');
  databases += 1;
  const name = `test_${process.pid}_${Date.now().toString(36)}_${databases}`;
  await administer(shared, `CREATE DATABASE ${name} ${options}`);
  const url = new URL(shared);
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => administer(shared, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) };
}

async function administer(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

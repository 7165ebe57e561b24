import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../packages/service/src/store/embedded/embedded-postgres.ts';

/** One PostgreSQL for the whole test run; each server under test gets a database of its own in it. */
const urlVariable = 'MUSTER_TEST_DATABASE_URL';

export async function startSharedPostgres(): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'muster-test-'));
  const postgres = await startEmbeddedPostgres({
    folder,
    // It lives as long as the test run: what a crash of the machine would lose is lost anyway.
    settings: { max_connections: '300', shared_buffers: '256MB', fsync: 'off', full_page_writes: 'off' },
  });
  process.env[urlVariable] = databaseUrl(postgres, postgres.connection.database);
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

/** The URL of a new, empty database on the shared server, and how to drop it. */
export async function freshDatabase(): Promise<{ url: string; drop(): Promise<void> }> {
  const shared = process.env[urlVariable];
  if (!shared) throw new Error('the shared PostgreSQL is not running: run the tests through vitest');
  databases += 1;
  const name = `test_${process.pid}_${Date.now().toString(36)}_${databases}`;
  await administer(shared, `CREATE DATABASE ${name}`);
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

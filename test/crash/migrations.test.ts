import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { migrate } from '../../packages/service/src/store/migrate.ts';
import { until } from '../support/async.ts';
import { emptyDatabase, execute } from '../support/database.ts';
import { Node } from './node.ts';
import { dumpSchema } from './schema.ts';
import { lookInto, type Store } from './store.ts';
import { printFigures, randomOf, times, withinMs } from './tier.ts';

const script = fileURLToPath(new URL('migrate-process.mjs', import.meta.url));
const folder = fileURLToPath(new URL('../../packages/service/migrations/', import.meta.url));
const files = readdirSync(folder).sort();
const kills = times('MUSTER_CRASH_MIGRATION_KILLS', 3);
const random = randomOf(times('MUSTER_CRASH_SEED', 1));

const drops: (() => Promise<void>)[] = [];
async function newDatabase(): Promise<string> {
  const database = await emptyDatabase();
  drops.push(database.drop);
  return database.url;
}

const schemaOf = (url: string): Promise<string> => lookInto(url, dumpSchema);
const tablesOf = (url: string): Promise<string[]> =>
  lookInto(url, async (store) =>
    (
      await store.rows<{ name: string }>(
        "SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND NOT relispartition ORDER BY 1",
      )
    ).map(({ name }) => name),
  );

let fresh = '';
/** The tables of the first migration. Each later one is a separate transaction. */
let tables: string[] = [];
beforeAll(async () => {
  const url = await newDatabase();
  expect(await migrate({ connectionString: url })).toEqual(files);
  fresh = await schemaOf(url);
  const begun = await newDatabase();
  await migrate({ connectionString: begun }, { upTo: 1 });
  tables = (await tablesOf(begun)).filter((name) => name !== 'migrations');
  expect(fresh).toContain('agents.tenant integer not null');
});
afterAll(async () => {
  for (const drop of drops) await drop();
});

const startMigrating = (url: string): ChildProcess =>
  spawn(process.execPath, [script], {
    env: { PATH: process.env.PATH, DATABASE_URL: url },
    stdio: ['ignore', 'pipe', 'inherit'],
  });

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

/** What the connections of migrations wait for; empty if there are none. */
async function waitsOfMigrations(store: Store): Promise<string[]> {
  const rows = await store.rows<{ event: string }>(
    `SELECT coalesce(wait_event_type, '') AS event FROM pg_stat_activity
     WHERE application_name = 'muster-migrate' AND datname = current_database()`,
  );
  return rows.map(({ event }) => event);
}

/** Starts a migration that waits for a lock of this test, and kills it there. */
async function killAt(
  url: string,
  lock: string,
  waitsIn: 'database' | 'process' = 'database',
): Promise<void> {
  const blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
  try {
    await blocker.query('BEGIN');
    await blocker.query(lock);
    const child = startMigrating(url);
    await lookInto(url, async (store) => {
      await until(
        'the migration at the lock',
        () => waitsOfMigrations(store),
        ([event]) => event === (waitsIn === 'database' ? 'Lock' : 'Client'),
      );
      await kill(child);
      await blocker.query('ROLLBACK');
      await until(
        'no connection of the migration',
        () => waitsOfMigrations(store),
        (found) => found.length === 0,
      );
    });
  } finally {
    await blocker.end();
  }
}

test(
  'a migration that is killed leaves no partial schema, and the next one completes it',
  withinMs(kills, 5_000),
  async () => {
    const url = await newDatabase();
    // So that the last kill can be at the last statement.
    await execute(
      url,
      `CREATE TABLE migrations (number int PRIMARY KEY, name text NOT NULL,
         applied_at timestamptz NOT NULL DEFAULT now(), compatible_since int NOT NULL)`,
    );
    for (let i = 0; i < kills; i += 1) {
      const table = tables[Math.floor((i * tables.length) / kills) + random.below(2)] ?? tables[0];
      const lock =
        i === kills - 1 ? 'LOCK TABLE migrations IN SHARE MODE' : `CREATE TABLE ${table} (blocking int)`;
      await killAt(url, lock);
      expect(await tablesOf(url), lock).toEqual(['migrations']);
    }
    const again = startMigrating(url);
    expect(JSON.parse(await text(again.stdout!))).toEqual(files);
    expect(await schemaOf(url)).toBe(fresh);
    printFigures('migrations', { kills });
  },
);

test('a migration that is killed while it waits for the lock does not affect the others', async () => {
  const url = await newDatabase();
  await killAt(url, 'SELECT pg_advisory_xact_lock(7301984)', 'process');
  expect(await tablesOf(url)).toEqual([]);
  await migrate({ connectionString: url });
  expect(await schemaOf(url)).toBe(fresh);
});

test('a schema that is migrated step by step, from every version to the next, equals a fresh one', async () => {
  const url = await newDatabase();
  expect(await migrate({ connectionString: url }, { upTo: 0 })).toEqual([]);
  for (const file of files)
    expect(await migrate({ connectionString: url }, { upTo: Number(file.slice(0, 4)) })).toEqual([file]);
  expect(await schemaOf(url)).toBe(fresh);
  expect(await migrate({ connectionString: url }), 'a second time').toEqual([]);
});

test('migrations that start at the same time are applied once', async () => {
  const url = await newDatabase();
  const applied = await Promise.all(Array.from({ length: 6 }, () => migrate({ connectionString: url })));
  // Each may apply some of them.
  expect(applied.flat().sort()).toEqual(files);
  expect(await schemaOf(url)).toBe(fresh);
});

test('two nodes that start at the same time on an empty database create one schema and one first key', async () => {
  const url = await newDatabase();
  const nodes = await Promise.all([1, 2].map(() => Node.start({ runner: false, databaseUrl: url })));
  try {
    expect(await schemaOf(url)).toBe(fresh);
    const statuses = await Promise.all(
      nodes.flatMap((node) =>
        nodes.map(async ({ key }) => (await node.api.as(key).get('/v1/whoami')).status),
      ),
    );
    // The first node created its key, which works on both.
    expect(statuses.sort()).toEqual([200, 200, 401, 401]);
  } finally {
    for (const node of nodes) await node.close();
  }
});

test('a running node ends when another one has migrated the schema beyond what it can use', async () => {
  const url = await newDatabase();
  const node = await Node.start({ databaseUrl: url });
  try {
    const ended = once(node.server.process, 'exit');
    const newest = files.length;
    const insert = 'INSERT INTO migrations (number, name, compatible_since) VALUES';
    await execute(
      url,
      `${insert} (${newest + 1}, 'newer.sql', ${newest}), (${newest + 2}, 'breaking.sql', ${newest + 1})`,
    );
    expect(await ended).toEqual([1, null]);
    const log = node.server.output.join('');
    expect(log).toContain('"msg":"schema too new; shutting down"');
    expect(log).toContain(`it is at migration ${newest + 2} (breaking.sql)`);
  } finally {
    await node.close();
  }
});

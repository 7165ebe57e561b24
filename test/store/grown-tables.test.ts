import { expect, test } from 'vitest';
import { findGrownTables } from '../../packages/service/src/store/statements/maintenance.ts';
import { freshDatabase, useDatabase } from '../support/database.ts';

const database = await freshDatabase();
const client = await useDatabase(database.url);

/** Counts of a session are shown some time after its statements, unless it asks for them. */
async function isGrown(): Promise<boolean> {
  await client.query('SELECT pg_stat_force_next_flush()');
  const grown = await findGrownTables(client);
  return grown.some(({ name }) => name === 'numbers');
}

test('a table is analyzed when it has doubled, not when its rows have changed', async () => {
  // Autovacuum would analyze it too.
  await client.query('CREATE TABLE numbers (n int) WITH (autovacuum_enabled = off)');
  const insert = (count: number) => client.query(`INSERT INTO numbers SELECT generate_series(1, ${count})`);
  await insert(40);
  expect(await isGrown(), 'with 40 rows').toBe(false);
  await insert(20);
  expect(await isGrown(), 'with 60 rows').toBe(true);
  await client.query('ANALYZE numbers');
  expect(await isGrown(), 'analyzed').toBe(false);
  for (let i = 0; i < 30; i += 1) await client.query('UPDATE numbers SET n = n + 1');
  expect(await isGrown(), 'after 1,800 changes').toBe(false);
  await insert(50);
  expect(await isGrown(), 'with 110 rows').toBe(false);
  await insert(20);
  expect(await isGrown(), 'with 130 rows').toBe(true);
});

test('a table of another program in the same database is not analyzed', async () => {
  await client.query('CREATE SCHEMA other');
  await client.query('CREATE TABLE other.jobs AS SELECT generate_series(1, 100) AS n');
  await client.query('SELECT pg_stat_force_next_flush()');
  expect((await findGrownTables(client)).map(({ name }) => name)).not.toContain('jobs');
});

import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import {
  clearResource,
  lockResource,
  readResource,
  reserveResource,
  writeResource,
} from '../../packages/service/src/store/statements/resources.ts';
import { freshDatabase } from '../support/database.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;

beforeAll(async () => {
  database = await freshDatabase();
  pool = openDatabase({ connectionString: database.url }, () => {});
  await pool.query("INSERT INTO tenants (id, provider, org) VALUES (1, 'PROVIDER_CODEHOST_APP', 'acme')");
});
afterAll(async () => {
  await pool?.end();
  await database.drop();
});

const key = [1, 'pool', 'big'] as const;
const textNow = async () => (await readResource(pool, ...key))[0]?.text;
const lockedNow = async () => (await lockResource(pool, ...key))[0];

test('a text counts only with the generation that it was written with', async () => {
  await reserveResource(pool, ...key);
  await writeResource(pool, ...key, 1, '{"maxRuns": 1}', null, null, null, '# one\nmaxRuns: 1\n');
  expect(await textNow()).toBe('# one\nmaxRuns: 1\n');
  expect(await lockedNow()).toMatchObject({ has_text: true, text_bytes: 17 });
  // As a node of the previous version writes.
  await pool.query(`UPDATE resources SET generation = 2, document = '{"maxRuns": 2}' WHERE name = 'big'`);
  expect(await textNow()).toBeNull();
  expect(await lockedNow()).toMatchObject({ has_text: false, text_bytes: 0 });
  await writeResource(pool, ...key, 3, '{"maxRuns": 3}', null, null, null, 'maxRuns: 3\n');
  expect(await textNow()).toBe('maxRuns: 3\n');
  await clearResource(pool, ...key, 4);
  expect(await textNow()).toBeNull();
});

import { randomBytes } from 'node:crypto';
import { limits } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { archivedTables } from '../../packages/service/src/store/archive/archive-format.ts';
import { agentRowId as id, insertAgentRow } from '../support/database.ts';
import { dump, exportDatabase, Places } from './archives.ts';

/** Values that callers can't write today, inserted by SQL: an export must keep them too. */
const places = new Places();
let url: string;
let client: pg.Client;

beforeAll(async () => {
  url = await places.migratedDatabase();
  client = await connected(url);
  await insertOddValues();
});
afterAll(() => client.end());

async function connected(to: string): Promise<pg.Client> {
  const made = new pg.Client({ connectionString: to });
  await made.connect();
  return made;
}

test('every table is exported, sorted by its key, with its identity column', async () => {
  const { rows } = await client.query<{ name: string; key: string; identity: string | null }>(`
    SELECT c.relname AS name,
      (SELECT string_agg(a.attname, ', ' ORDER BY array_position(i.indkey::int[], a.attnum::int))
       FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
       WHERE i.indrelid = c.oid AND i.indisprimary) AS key,
      (SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attidentity <> '') AS identity
    FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND c.relname NOT IN ('migrations', 'maintenance', 'watches', 'storage_use')`);
  const listed = archivedTables.map(({ name, order, identity = null }) => ({ name, order, identity }));
  const byName = (a: { name: string }, b: { name: string }) => a.name.localeCompare(b.name);
  expect(listed.sort(byName)).toEqual(
    rows
      .map(({ name, key, identity }) => ({
        name,
        order: name === 'agents' ? `cardinality(ancestors), ${key}` : key,
        identity,
      }))
      .sort(byName),
  );
});

test('a table comes after the tables that it references', async () => {
  const { rows } = await client.query<{ from: string; to: string }>(
    `SELECT conrelid::regclass::text AS "from", confrelid::regclass::text AS "to" FROM pg_constraint
     WHERE contype = 'f' AND conrelid <> confrelid`,
  );
  const place = (name: string): number => archivedTables.findIndex((table) => table.name === name);
  expect(rows.length).toBeGreaterThan(0);
  expect(rows.filter(({ from, to }) => place(from) < place(to))).toEqual([]);
});

const insertAgent = (number: number, ancestors: readonly number[]): Promise<string> =>
  insertAgentRow(client, number, {
    tenant: 7,
    root: id(ancestors[0] ?? number),
    parent: ancestors.length > 0 ? id(ancestors.at(-1) ?? 0) : null,
    ancestors: ancestors.map(id),
    owner_provider: '',
  });

const odd =
  'quote " backslash \\ braces {},[] tab \t return \r line \n separators \u2028\u2029 \u0001 🙂 \\x41 \\u0041';

async function insertOddValues(): Promise<void> {
  await client.query(`INSERT INTO tenants (id, provider, org) VALUES (7, 'PROVIDER_CODEHOST_APP', 'seven')`);
  // The ids of parents are larger than those of their children, and there are more than fit into one page.
  await insertAgent(900, []);
  await insertAgent(800, [900]);
  await insertAgent(700, [900, 800]);
  for (let number = 1; number <= 250; number += 1) await insertAgent(number, [900, 800, 700]);
  await client.query(
    `UPDATE agent_briefs SET description = $2, repos = ARRAY[$2, '', 'NULL', NULL, '{a,"b"}'] WHERE agent = $1`,
    [id(900), odd],
  );
  await client.query(
    `UPDATE agents SET created_at = '2026-01-31 09:00:00.123456+00', since = 'infinity', progress_at = '0044-03-15 12:00:00+00 BC',
       sequence = 9007199254740993, input_tokens = 9223372036854775807, cached_tokens = -9223372036854775808,
       cost = 0.1::float8 + 0.2::float8, deferral = false
     WHERE id = $1`,
    [id(900)],
  );
  await client.query(
    `UPDATE agent_states SET memory = $2, result = '"a\\u0041\\/"', settings = 'null' WHERE agent = $1`,
    [id(900), '{ "b" : 1.0,\n\t"a":1e2, "b": 12345678901234567890.5 }'],
  );
  await client.query('UPDATE agents SET cost = 5e-324 WHERE id = $1', [id(800)]);
  await client.query("UPDATE agent_states SET settings = '[]', memory = '0' WHERE agent = $1", [id(800)]);
  await client.query("UPDATE agents SET cost = 'NaN' WHERE id = $1", [id(700)]);
  await client.query("UPDATE agents SET cost = '-Infinity' WHERE id = $1", [id(1)]);
  await client.query(
    `INSERT INTO resources (tenant, kind, name, generation, document)
     VALUES (7, 'persona', 'json-null', 1, 'null'), (7, 'persona', 'sql-null', 1, NULL)`,
  );
  await insertCheckpoint(id(800), Buffer.alloc(0), 1);
  await insertCheckpoint(id(700), Buffer.from([0, 255, 10, 13]), 1);
  await client.query('INSERT INTO diffs VALUES (7, $1, $2, false, $3)', [id(900), odd, odd.repeat(4_000)]);
}

async function insertCheckpoint(agent: string, content: Buffer, parts: number): Promise<void> {
  await client.query('INSERT INTO checkpoints VALUES (7, $1, $1, 1, true, $2, 9007199254740993, NULL)', [
    agent,
    parts,
  ]);
  await client.query(
    'INSERT INTO checkpoint_parts SELECT 7, $1, $1, n, $2 FROM generate_series(0, $3::int - 1) n',
    [agent, content, parts],
  );
}

test('every value is the same after an import, including the spaces in JSON', {
  timeout: 180_000,
}, async () => {
  const large = Buffer.alloc(limits.checkpointPartBytes, randomBytes(4096));
  await insertCheckpoint(id(900), large, 4);

  const other = await places.importedDatabase(await exportDatabase(url, places.path('odd.gz')));
  expect(await dump(other)).toEqual(await dump(url));
  await client.query('DELETE FROM checkpoints WHERE agent = $1', [id(900)]);

  const there = await connected(other);
  const made = await there.query("INSERT INTO tenants (provider, org) VALUES ('', 'new') RETURNING id");
  await there.end();
  expect(made.rows).toEqual([{ id: 8 }]);
});

test('a server with other settings writes the same archive', async () => {
  const strange = await places.importedDatabase(await exportDatabase(url, places.path('odd.gz')));
  const name = new URL(strange).pathname.slice(1);
  for (const habit of [
    "DateStyle = 'German, DMY'",
    "TimeZone = 'Asia/Kathmandu'",
    "bytea_output = 'escape'",
    'extra_float_digits = -5',
    "idle_in_transaction_session_timeout = '1ms'",
  ]) {
    await client.query(`ALTER DATABASE ${name} SET ${habit}`);
  }
  const third = await places.importedDatabase(await exportDatabase(strange, places.path('again.gz')));
  expect(await dump(third)).toEqual(await dump(url));
});

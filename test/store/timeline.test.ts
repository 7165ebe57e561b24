import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { deleteOldHistory, readTimeline } from '../../packages/service/src/store/statements/timeline.ts';
import { agentRowId, freshDatabase, insertAgentRow, rowsRead, sqlLiteral } from '../support/database.ts';

/** How many rows of a long timeline a look at its milestones costs, by plans made while the table was empty. */
const entries = 10_000;
const everyMilestone = 500;
const agent = agentRowId(1);

let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;
let client: pg.PoolClient;

/** Sends the statement of the milestones in another form than the service does. */
const send = (form: (text: string, values: string) => string) =>
  new Promise<pg.QueryResult>((resolve, reject) => {
    const query = async ({ text, values }: { text: string; values: unknown[] }) => {
      client.query(form(text, values.map(sqlLiteral).join(', '))).then(resolve, reject);
      return { rows: [] };
    };
    const types = ['PUSH', 'RUN_STARTED'] as const;
    const connection = { query } as unknown as pg.PoolClient;
    readTimeline(connection, 'before', 1, agent, entries + 1, 1000, types, limits.pageBytes).catch(reject);
  });
const found = async (): Promise<number> => {
  const { rows } = await send((_, values) => `EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE milestones (${values})`);
  return rowsRead(rows[0]['QUERY PLAN'][0].Plan).found;
};

beforeAll(async () => {
  database = await freshDatabase();
  pool = openDatabase({ connectionString: database.url, max: 1 }, () => {});
  client = await pool.connect();
  await client.query('ALTER TABLE timeline SET (autovacuum_enabled = false)');
  await send((text) => `PREPARE milestones AS ${text}`);
  await send((_, values) => `EXECUTE milestones (${values})`);
  await client.query(
    `INSERT INTO timeline
     SELECT 1, $1, n, now(), 1, CASE WHEN n % $3 = 0 THEN 'PUSH' ELSE 'MESSAGE' END, '', 'words', '{}'
     FROM generate_series(1, $2::int) n`,
    [agent, entries, everyMilestone],
  );
});
afterAll(async () => {
  client?.release();
  await pool?.end();
  await database.drop();
});

test('pushes are read without a scan of all messages', async () => {
  expect(await found(), 'as planned for an empty table').toBe(entries / everyMilestone);
  await client.query('ANALYZE timeline');
  expect(await found(), 'as planned for the full table').toBe(entries / everyMilestone);
});

test('old history is deleted in bounded steps, oldest first, until none is left', async () => {
  await client.query('INSERT INTO tenants (id, provider, org) VALUES (1, $1, $2)', [
    'PROVIDER_CODEHOST_APP',
    'acme',
  ]);
  await insertAgentRow(client as unknown as pg.Client, 1, {
    tenant: 1,
    owner_provider: 'PROVIDER_CODEHOST_OAUTH',
    phase: 'PHASE_COMPLETED',
    reason: 'FINISHED',
    ended_at: '2001-01-01T00:00:00Z',
    sequence: entries,
  });
  const left = async () => {
    const { rows } = await client.query(
      `SELECT first_sequence::int AS first, swept, (SELECT count(*)::int FROM timeline) AS entries
       FROM agents WHERE id = $1`,
      [agent],
    );
    return rows[0];
  };
  const step = () => deleteOldHistory(client, 30, 20, 4_000, 0);
  expect(await step()).toEqual([{ id: agent, swept: false }]);
  expect(await left()).toEqual({ first: 4_001, swept: false, entries: 6_000 });
  await step();
  expect(await step()).toEqual([{ id: agent, swept: true }]);
  expect(await left()).toEqual({ first: entries + 1, swept: true, entries: 0 });
  expect(await step()).toEqual([]);
});

test('the checkpoints of old agents are deleted in bounded steps', async () => {
  const mebibyte = 1024 * 1024;
  const ids: string[] = [];
  for (const number of [2, 3, 4, 5]) {
    const id = await insertAgentRow(client as unknown as pg.Client, number, {
      tenant: 1,
      owner_provider: 'PROVIDER_CODEHOST_OAUTH',
      phase: 'PHASE_COMPLETED',
      reason: 'FINISHED',
      ended_at: `2001-01-0${number}T00:00:00Z`,
      checkpoint_at: '2001-01-01T00:00:00Z',
    });
    ids.push(id);
    await client.query('INSERT INTO checkpoints VALUES (1, $1, $1, 1, true, 1, $2, now())', [id, mebibyte]);
    await client.query("INSERT INTO checkpoint_parts VALUES (1, $1, $1, 0, 'work')", [id]);
  }
  const swept = async () => {
    const rows = await deleteOldHistory(client, 30, 20, 4_000, mebibyte);
    return rows.map(({ id, swept }) => swept && ids.indexOf(id)).sort();
  };
  expect(await swept()).toEqual([0, 1, false, false]);
  const kept = 'SELECT id FROM agents a WHERE checkpoint_at IS NOT NULL ORDER BY id';
  expect((await client.query(kept)).rows.map(({ id }) => id)).toEqual(ids.slice(2));
  expect((await client.query('SELECT FROM checkpoint_parts')).rowCount).toBe(2);
  expect(await swept()).toEqual([2, 3]);
  expect((await client.query('SELECT FROM checkpoint_parts')).rowCount).toBe(0);
  expect(await swept()).toEqual([]);
});

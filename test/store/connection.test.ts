import { afterAll, beforeAll, expect, test } from 'vitest';
import { begin, openDatabase, rollBack, statement } from '../../packages/service/src/store/connection.ts';
import { type Database, execute, freshDatabase } from '../support/database.ts';

let database: Database;
let pool: ReturnType<typeof openDatabase>;

beforeAll(async () => {
  database = await freshDatabase();
  pool = openDatabase({ connectionString: database.url, max: 1 }, () => {});
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

test('statements that are sent together fail with the error of the first', async () => {
  const divide = statement<[by: number], never>('divide', 'SELECT 1 / $1::int');
  const client = await pool.connect();
  await begin(client);
  const errors = await Promise.all([0, 1].map((by) => divide(client, by).catch((error: unknown) => error)));
  expect(errors).toMatchObject([{ code: '22012' }, { code: '22012' }]);
  expect(await rollBack(client, errors[0])).toBe(true);
});

test('a connection with an outdated plan is not used again', async () => {
  const readReplies = statement<[], { key: string }>('read-replies', 'SELECT key FROM replies');
  const readSession = async () => (await pool.query('SELECT pg_backend_pid() AS pid')).rows[0];
  expect(await readReplies(pool)).toEqual([]);
  const before = await readSession();
  await execute(database.url, 'ALTER TABLE replies ALTER key TYPE varchar(100)');
  const client = await pool.connect();
  await begin(client);
  const error = await readReplies(client).catch((e: unknown) => e);
  expect(error).toMatchObject({ code: '0A000' });
  await rollBack(client, error);
  expect(await readSession()).not.toEqual(before);
  expect(await readReplies(pool)).toEqual([]);
});

import { createHash, randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { migrate } from '../../packages/service/src/store/migrate.ts';
import { emptyDatabase, insertAgentRow } from '../support/database.ts';

/** What a migration makes of the rows that were there before it. */
let database: Awaited<ReturnType<typeof emptyDatabase>>;
let client: pg.Client;

beforeAll(async () => {
  database = await emptyDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client?.end();
  await database?.drop();
});

test('0011: a session becomes a complete checkpoint of the same bytes, in parts of at most 1 MiB', async () => {
  const connection = { connectionString: database.url };
  await migrate(connection, { upTo: 10 });
  await client.query("INSERT INTO tenants (id, provider, org) VALUES (7, 'PROVIDER_CODEHOST_APP', 'acme')");
  const mebibyte = 1024 * 1024;
  const archives = [1, mebibyte, mebibyte + 1, 3 * mebibyte, 0].map((length) => randomBytes(length));
  const ids: string[] = [];
  for (const [at, archive] of archives.entries()) {
    const id = await insertAgentRow(client, at + 1, { tenant: 7, owner_provider: 'PROVIDER_CODEHOST_OAUTH' });
    ids.push(id);
    await client.query("INSERT INTO sessions VALUES (7, $1, $2, $3, '2026-01-31 09:00:00+00')", [
      id,
      at + 1,
      archive,
    ]);
  }
  const without = await insertAgentRow(client, 9, { tenant: 7, owner_provider: 'PROVIDER_CODEHOST_OAUTH' });
  await client.query("INSERT INTO diffs (tenant, agent, repo, text) VALUES (7, $1, 'r', 'pushed')", [
    without,
  ]);

  await migrate(connection);
  const { rows } = await client.query(
    `SELECT a.id, c.run, c.final, c.parts, c.bytes::int, c.completed_at = a.checkpoint_at AS "isDated",
       array_agg(p.part ORDER BY p.part) AS numbers, max(length(p.content)) AS largest,
       sha256(string_agg(p.content, '' ORDER BY p.part)) AS digest
     FROM agents a JOIN checkpoints c ON c.tenant = a.tenant AND c.agent = a.id
     JOIN checkpoint_parts p ON p.tenant = c.tenant AND p.agent = c.agent AND p.checkpoint = c.id
     GROUP BY a.tenant, a.id, c.tenant, c.agent, c.id ORDER BY a.id`,
  );
  const expected = archives.slice(0, 4).map((archive, at) => ({
    id: ids[at],
    run: at + 1,
    final: true,
    parts: [1, 1, 2, 3][at],
    bytes: archive.length,
    isDated: true,
    numbers: [0, 1, 2].slice(0, [1, 1, 2, 3][at]),
    largest: Math.min(archive.length, mebibyte),
    digest: createHash('sha256').update(archive).digest(),
  }));
  expect(rows).toEqual(expected);
  const { rows: others } = await client.query(
    'SELECT id FROM agents WHERE checkpoint_at IS NULL ORDER BY id',
  );
  expect(others.map(({ id }) => id)).toEqual([ids[4], without]);
  expect((await client.query('SELECT text, working_tree FROM diffs')).rows).toEqual([
    { text: 'pushed', working_tree: false },
  ]);
});

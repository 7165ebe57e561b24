import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Maintenance, type QuotaUse } from '../../packages/service/src/control/upkeep/maintenance.ts';
import { type Log, openLog } from '../../packages/service/src/lib/log.ts';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { readKindUse } from '../../packages/service/src/store/statements/resource-index.ts';
import { addStorageUse } from '../../packages/service/src/store/statements/storage-use.ts';
import { freshDatabase, insertAgentRow } from '../support/database.ts';

/** What tenants store: counted by maintenance, and the documents of a kind. */
const quota = 1_000_000;
const provider = 'PROVIDER_CODEHOST_OAUTH';
let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;
let client: pg.Client;

beforeAll(async () => {
  database = await freshDatabase();
  pool = openDatabase({ connectionString: database.url }, () => {});
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query("INSERT INTO tenants (id, provider, org) VALUES (1, 'PROVIDER_CODEHOST_APP', 'acme')");
});
afterAll(async () => {
  await client?.end();
  await pool?.end();
  await database.drop();
});

/** What fails is expected not to be logged. */
const log = { ...openLog('silent'), warn: (fields: unknown) => expect(fields).toBeUndefined() } as Log;

async function maintain(): Promise<readonly QuotaUse[]> {
  let measured: readonly QuotaUse[] = [];
  const maintenance = new Maintenance({
    ...{ database: pool, log, timelineDays: 365, timelineEntries: 1e9 },
    quotas: { storage: quota, checkpoints: quota, attachments: quota },
    onQuotaUse: (uses) => {
      measured = uses;
    },
  });
  await maintenance.pass();
  await maintenance.close();
  return measured;
}

const usedBy = async (account: string): Promise<number> => {
  const { rows } = await client.query('SELECT bytes FROM storage_use WHERE account = $1', [account]);
  return Number(rows[0]?.bytes ?? 0);
};

const texts = (agent: string, bytes: number) =>
  client.query(
    `INSERT INTO timeline (tenant, agent, sequence, at, run, type, follow_up_id, text, data)
     SELECT 1, $1, n, now(), 1, 'MESSAGE', '', string_agg(md5(n || '/' || m), ''), '{}'
     FROM generate_series(1, 10) n, generate_series(1, $2::int / 320) m GROUP BY n`,
    [agent, bytes],
  );

test('what was stored before is counted once, and again when it is nearly full: what is deleted does not count', async () => {
  const ada = await insertAgentRow(client, 1, { tenant: 1, owner_provider: provider, account: 'ada' });
  await insertAgentRow(client, 2, { tenant: 1, owner_provider: provider, account: 'bob' });
  await texts(ada, 300_000);
  await client.query(
    `INSERT INTO resources (tenant, kind, name, generation) VALUES (1, 'profile', 'p', 1);
     INSERT INTO resource_history SELECT 1, 'profile', 'p', n, now(), 'codehost_oauth/eve', 'key', 'WRITE', '', '', NULL
     FROM generate_series(1, 1500) n`,
  );
  await maintain();
  expect(await usedBy('ada')).toBeGreaterThan(300_000);
  expect(await usedBy('ada')).toBeLessThan(320_000);
  expect(await usedBy('bob')).toBeLessThan(5_000);
  expect(await usedBy('eve')).toBeGreaterThan(1_500 * 300 - 1);

  await addStorageUse(pool, [1], [provider], ['bob'], [600_000], [1], [ada], [200_000]);
  expect(await usedBy('ada')).toBeGreaterThan(500_000);
  await client.query('DELETE FROM timeline WHERE agent = $1', [ada]);
  const [before] = await maintain();
  expect(before).toMatchObject({ quota: 'storage', nearlyFull: 1 });
  expect(before?.largestRatio).toBeGreaterThan(1);
  // Not more than once an hour.
  await client.query("UPDATE storage_use SET counted_at = counted_at - interval '2 hours'");
  await maintain();
  expect(await usedBy('ada')).toBeLessThan(5_000);
  expect(await usedBy('bob')).toBeLessThan(5_000);
  const [after] = await maintain();
  expect(after).toMatchObject({ quota: 'storage', nearlyFull: 0 });
});

test('the documents of a kind are added up without reading them, or those that were deleted', async () => {
  await client.query(
    `INSERT INTO resources (tenant, kind, name, generation, document, bytes, created_by, indexed)
     SELECT 1, 'workspace', 'w' || n, 2, CASE WHEN n % 10 = 0 THEN '{}'::json END, 10, 'test/ada', 2
     FROM generate_series(1, 20000) n`,
  );
  await client.query('VACUUM ANALYZE resources');
  const [use] = await readKindUse(pool, 1, 'workspace', 'test/ada');
  expect(use).toEqual({ documents: 2_000, bytes: 20_000, own_documents: 2_000, own_bytes: 20_000 });
  const { rows } = await client.query(
    `EXPLAIN (FORMAT JSON) SELECT count(*), sum(bytes) FROM resources
     WHERE document IS NOT NULL AND generation - coalesce(indexed, 0) = 0 AND tenant = 1 AND kind = 'workspace'`,
  );
  const plan = JSON.stringify(rows);
  expect(plan).toContain('"Index Only Scan"');
  expect(plan).toContain('"resources_use"');
});

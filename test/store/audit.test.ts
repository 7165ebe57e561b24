import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import {
  type AuditFilter,
  type AuditPlace,
  deleteOldAudit,
  placeAfter,
  placeBefore,
  readAuditPage,
  recordRepeatable,
} from '../../packages/service/src/store/statements/audit.ts';
import { freshDatabase, type PlanNode, rowsRead, sqlLiteral } from '../support/database.ts';

/** Of each of two tenants: that many catalog writes, and as many other records at the same times. */
const records = 12_000;
/** What the service may look at for a filtered page, in each of the two tables. */
const looked = 10_000;

let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;
let client: pg.PoolClient;

beforeAll(async () => {
  database = await freshDatabase();
  pool = openDatabase({ connectionString: database.url, max: 1 }, () => {});
  client = await pool.connect();
  const seeding = new pg.Client({ connectionString: database.url });
  await seeding.connect();
  await seeding.query(
    "INSERT INTO tenants (id, provider, org) VALUES (1, 'PROVIDER_CODEHOST_APP', 'one'), (2, 'PROVIDER_CODEHOST_APP', 'two')",
  );
  await seeding.query(
    "INSERT INTO resources (tenant, kind, name, generation) SELECT t, 'persona', 'p', 1 FROM generate_series(1, 2) t",
  );
  const all = `generate_series(1, 2) t CROSS JOIN generate_series(1, ${records}) n`;
  await seeding.query(
    `INSERT INTO resource_history (tenant, kind, name, generation, at, by, key_id, action, update_mask, justification)
     SELECT t, 'persona', 'p', n, timestamptz '2026-01-01' + n / 3 * interval '1 second', 'a', '', 'WRITE', '', '' FROM ${all}`,
  );
  await seeding.query(
    `INSERT INTO audit (tenant, at, id, actor, key_id, kind, action, name, justification, details)
     SELECT t, timestamptz '2026-01-01' + n / 3 * interval '1 second', gen_random_uuid(), CASE n WHEN 5 THEN 'rare' ELSE 'a' END,
       '', 'session', 'SIGN_IN', n::text, '', '{}' FROM ${all}`,
  );
  await seeding.query('ANALYZE');
  await seeding.end();
});
afterAll(async () => {
  client?.release();
  await pool?.end();
  await database.drop();
});

const none: AuditFilter = { actor: null, kind: null, name: null, action: null, text: null };
const both = { writes: true, others: true };
const from = '2025-01-01T00:00:00Z';

const read = (on: pg.PoolClient, place: AuditPlace, filter = none) =>
  readAuditPage(on, 1, from, place, filter, both, 100);

/** The plan of a page, with what it read. */
async function planOf(place: AuditPlace, filter: AuditFilter): Promise<PlanNode> {
  let plan: PlanNode | undefined;
  const query = async ({ text, values }: { text: string; values: unknown[] }) => {
    await client.query(`PREPARE one AS ${text}`);
    const literals = values.map((value) => (value === null ? 'NULL' : sqlLiteral(value))).join(', ');
    const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE one (${literals})`);
    await client.query('DEALLOCATE one');
    plan = rows[0]['QUERY PLAN'][0].Plan;
    return { rows: [] };
  };
  await read({ query } as unknown as pg.PoolClient, place, filter);
  return plan as PlanNode;
}

const half = placeBefore('2026-01-01T01:00:00.000Z');

test.each([
  ['the newest page', placeBefore('infinity'), none, 101],
  ['a page in the middle', half, none, 101],
  ['a filtered page', placeBefore('infinity'), { ...none, actor: 'rare' }, looked],
  ['a searched page', half, { ...none, text: 'nothing has this' }, looked],
])('%s reads a limited number of rows of each table', async (_, place, filter, most) => {
  const { found, beside } = rowsRead(await planOf(place, filter), /^(audit|resource_history)$/);
  expect(found + beside).toBeGreaterThan(most);
  expect(found + beside).toBeLessThanOrEqual(2 * most);
});

test('pages have every record of the tenant once, newest first, also of one time in both tables', async () => {
  let place: AuditPlace | null = placeBefore('2026-01-01T00:01:00.000Z');
  const seen: string[] = [];
  const times: string[] = [];
  while (place) {
    const { entries, last } = await readAuditPage(client, 1, from, place, none, both, 7);
    for (const { at, kind, name, generation } of entries) {
      seen.push(`${kind} ${generation || name}`);
      times.push(at);
    }
    place = last && placeAfter(last);
  }
  const numbers = Array.from({ length: 179 }, (_, i) => i + 1);
  expect(seen.sort()).toEqual(numbers.flatMap((n) => [`persona ${n}`, `session ${n}`]).sort());
  expect(times).toEqual(times.toSorted().reverse());
});

test('a filtered page that finds nothing in what it looked at is followed by others, until all was looked at', async () => {
  let place: AuditPlace | null = placeBefore('infinity');
  const pages: number[] = [];
  while (place) {
    const { entries, last } = await read(client, place, { ...none, actor: 'rare' });
    pages.push(entries.length);
    place = last && placeAfter(last);
  }
  expect(pages).toEqual([0, 0, 1]);
});

test('sign-ins of one account beyond a number in an hour are not recorded', async () => {
  const record = {
    ...{ tenant: 2, actor: 'busy', keyId: '', name: 'busy' },
    kind: 'session',
    action: 'SIGN_IN',
  } as const;
  await client.query(
    `INSERT INTO audit SELECT 2, now(), gen_random_uuid(), 'busy', '', kind, action, name, '', '{}' FROM audit LIMIT 498`,
  );
  for (let i = 0; i < 4; i++) await recordRepeatable(client, record);
  const { rows } = await client.query("SELECT count(*)::int AS count FROM audit WHERE actor = 'busy'");
  expect(rows).toEqual([{ count: 500 }]);
});

test('records older than 400 days are deleted, and the history of the catalog stays', async () => {
  const old = `INSERT INTO audit SELECT tenant, now() - interval '400 days 1 minute', gen_random_uuid(), actor, key_id, kind, action,
    name, justification, details FROM audit WHERE actor = 'rare'`;
  await client.query(old);
  expect(await deleteOldAudit(client, 400, 1)).toEqual([{ deleted: 1 }]);
  expect(await deleteOldAudit(client, 400, 10)).toEqual([{ deleted: 1 }]);
  expect(await deleteOldAudit(client, 400, 10)).toEqual([{ deleted: 0 }]);
});

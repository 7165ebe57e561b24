import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { readKeys, rolesOfAccount } from '../../packages/service/src/store/statements/keys.ts';
import {
  listMembers,
  readMember,
  readMemberPowers,
} from '../../packages/service/src/store/statements/members.ts';
import { listRunners } from '../../packages/service/src/store/statements/runners.ts';
import { readSetup } from '../../packages/service/src/store/statements/setup.ts';
import {
  copyAgents,
  freshDatabase,
  insertAgentRow,
  type PlanNode,
  rowsRead,
  sqlLiteral,
} from '../support/database.ts';

/** How many rows the statements about members read in a tenant with 2,000 of them and much usage, beside another one. */
const accounts = 2_000;
const hours = 30;
const page = 51;
const provider = 'PROVIDER_CODEHOST_OAUTH';
const first = '' as typeof provider;
const name = (n: number): string => `account-${String(n).padStart(5, '0')}`;

type Send = (connection: pg.PoolClient) => unknown;

/**
 * A page reads the rows of its own accounts, a few times: a key, a session, an agent, the usage of the month. How often
 * depends on the plan, which depends on the sample that the statistics were made of.
 */
const ofPage = page * (hours + 50);

const statements: readonly [name: string, most: number, send: Send][] = [
  ['list-members, first page', ofPage, (c) => listMembers(c, 1, first, '', '', page)],
  ['list-members, later page', ofPage, (c) => listMembers(c, 1, provider, name(1_500), '', page)],
  // Each account is looked at once per index, and the usage of those that match.
  ['list-members, searched', 12 * accounts, (c) => listMembers(c, 1, first, '', '-00777', page)],
  ['read-member', hours + 25, (c) => readMember(c, 1, provider, name(5))],
  ['read-member-powers', 3 * accounts, (c) => readMemberPowers(c, 1, provider, name(5))],
  ['read-keys', 5, (c) => readKeys(c, ['key-1-5'])],
  ['roles-of-account', 10, (c) => rolesOfAccount(c, 1, provider, name(5))],
  ['list-runners', 1_500, (c) => listRunners(c, 1, null, 20, '', '', '', noId, page)],
  ['read-setup', 1_500, (c) => readSetup(c, 1, 'repository-check')],
];
const noId = '00000000-0000-0000-0000-000000000000';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;
let client: pg.PoolClient;

beforeAll(async () => {
  database = await freshDatabase();
  await seed();
  pool = openDatabase({ connectionString: database.url, max: 1 }, () => {});
  client = await pool.connect();
});
afterAll(async () => {
  client?.release();
  await pool?.end();
  await database.drop();
});

async function seed(): Promise<void> {
  const admin = new pg.Client({ connectionString: database.url });
  await admin.connect();
  const all = `(VALUES (1), (2)) t (tenant) CROSS JOIN LATERAL (
    SELECT n, 'account-' || lpad(n::text, 5, '0') AS account FROM generate_series(1, ${accounts}) n) a`;
  await admin.query(
    "INSERT INTO tenants (id, provider, org) VALUES (1, 'PROVIDER_CODEHOST_APP', 'one'), (2, 'PROVIDER_CODEHOST_APP', 'two')",
  );
  await admin.query(
    `INSERT INTO members (tenant, owner_provider, account, display_name, sign_in, role, signed_in_at, created_at)
     SELECT tenant, '${provider}', account, account || ' Lovelace', 'acme', 'member', now(), now() FROM ${all} WHERE n % 2 = 0`,
  );
  await admin.query(
    `INSERT INTO keys (tenant, key_id, hash, role, owner_provider, account, kind, name, created)
     SELECT tenant, 'key-' || tenant || '-' || n, '', 'member', '${provider}', account, 'token', account, 1 FROM ${all}`,
  );
  await admin.query(
    `INSERT INTO browser_sessions (tenant, id, key_id, hash, user_agent, created_at, seen_at, expires_at)
     SELECT tenant, gen_random_uuid(), 'key-' || tenant || '-' || n, decode(md5(tenant || '-' || n), 'hex'), '', now(), now(),
       now() + interval '1 day' FROM ${all}`,
  );
  await insertAgentRow(admin, 0, { tenant: 1, owner_provider: provider, path: 'template' });
  await copyAgents(
    admin,
    {
      from: `agents a CROSS JOIN (SELECT *, md5(tenant || '-' || n)::uuid AS id FROM ${all}) i`,
      where: "a.path = 'template'",
      fields: `json_build_object('tenant', i.tenant, 'id', i.id, 'root', i.id, 'path', 'agent-' || i.n, 'account', i.account)`,
    },
    [],
  );
  await admin.query(
    `INSERT INTO usage_hours (tenant, hour, agent, run, model, provider_account, root, owner_provider, account, workspace,
       backend, cost, input_tokens, cached_tokens, output_tokens, unpriced_tokens, is_estimated)
     SELECT tenant, date_trunc('month', now(), 'UTC') + h * interval '1 hour', md5(tenant || '-' || n)::uuid, 1, 'm', '',
       md5(tenant || '-' || n)::uuid, '${provider}', account, 'default', 'BACKEND_A', 1, 0, 0, 0, 0, false
     FROM generate_series(0, ${hours - 1}) h CROSS JOIN ${all}`,
  );
  await admin.query(
    `INSERT INTO runners (tenant, id, name, pool, build, capabilities, backends, rehearses, free_real, free_rehearsed, polls,
       leaving, accounts, machine, token, lease_until, polled_at)
     SELECT tenant, gen_random_uuid(), 'runner-' || n, 'default', '', '{}', '{}', false, 1, 1, 1, false, '[]', '{}', '', now() +
       interval '1 hour', now() FROM ${all} WHERE n <= 500`,
  );
  await admin.query('ANALYZE');
  await admin.end();
}

/** The plan of what is sent, with what it read. */
async function planOf(send: Send): Promise<PlanNode> {
  let plan: PlanNode | undefined;
  const query = async ({ text, values }: { text: string; values: unknown[] }) => {
    await client.query('BEGIN');
    await client.query('SET LOCAL plan_cache_mode = force_generic_plan');
    await client.query(`PREPARE one AS ${text}`);
    const literals = values.map((value) => (value === null ? 'NULL' : sqlLiteral(value))).join(', ');
    const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE one (${literals})`);
    await client.query('DEALLOCATE one');
    await client.query('ROLLBACK');
    plan = rows[0]['QUERY PLAN'][0].Plan;
    return { rows: [] };
  };
  await send({ query } as unknown as pg.PoolClient);
  return plan as PlanNode;
}

test.each(statements)('%s reads at most %i rows', async (_, most, send) => {
  const { found, beside } = rowsRead(
    await planOf(send),
    /^(members|keys|browser_sessions|agents|usage_hours|runners)$/,
  );
  expect(found + beside).toBeLessThanOrEqual(most);
});

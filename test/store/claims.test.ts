import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Connection, openDatabase } from '../../packages/service/src/store/connection.ts';
import { findCandidates } from '../../packages/service/src/store/statements/claims.ts';
import {
  agentRowId,
  copyAgents,
  freshDatabase,
  insertAgentRow,
  type PlanNode,
  rowsRead,
  sqlLiteral,
} from '../support/database.ts';

/** What a runner is offered, and how many rows that reads, while some tenants have backlogs and most have nothing. */
const backlog = 3_000;
const tenants = 10_000;
const runnerId = agentRowId(1);

/** Who waits in the pool, oldest first: `count` agents of the tenant. */
interface Waiting {
  readonly tenant: number;
  readonly count: number;
  readonly fields: Readonly<Record<string, unknown>>;
}
const real = { backend: 'BACKEND_A', model: 'claude' };
const waiting: readonly Waiting[] = [
  { tenant: 10, count: backlog, fields: real },
  // For another runner that is live.
  { tenant: 20, count: backlog, fields: { ...real, home: 'elsewhere' } },
  { tenant: 30, count: backlog, fields: { ...real, backend: 'BACKEND_B' } },
  // Its pool allows no more runs on this runner, that of the next no more runs at all.
  { tenant: 40, count: 100, fields: real },
  { tenant: 50, count: 100, fields: real },
  // Not yet.
  { tenant: 60, count: backlog, fields: { ...real, claimable_at: '2100-01-01' } },
  { tenant: 20, count: 1, fields: { ...real, home: 'here' } },
  { tenant: 20, count: 1, fields: { ...real, home: 'gone' } },
  { tenant: 30, count: 1, fields: real },
  { tenant: 70, count: 2, fields: real },
  { tenant: 70, count: 1, fields: { ...real, model: 'rehearsal-a' } },
  { tenant: 70, count: 1, fields: { ...real, pool: 'other' } },
];

let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;
let client: pg.PoolClient;

interface Poll {
  readonly lastTenant?: number;
  readonly tenant?: number;
  readonly limit?: number;
  readonly backends?: string[];
}

const find = (
  connection: Connection,
  { lastTenant = 0, tenant = 0, limit = 8, backends = ['BACKEND_A'] }: Poll,
) => findCandidates(connection, tenant, 'default', backends, 'here', runnerId, lastTenant, limit);

/** As `tenant: how many`, in the order in which they are offered. */
async function offered(poll: Poll = {}): Promise<string[]> {
  const counts = new Map<number, number>();
  for (const { tenant } of await find(client, poll)) counts.set(tenant, (counts.get(tenant) ?? 0) + 1);
  return [...counts].map(([tenant, count]) => `${tenant}: ${count}`);
}

/** How many rows of all tables the statement reads. */
async function rowsReadBy(poll: Poll): Promise<number> {
  let plan: PlanNode | undefined;
  const query = async ({ text, values }: { text: string; values: unknown[] }) => {
    await client.query(`PREPARE candidates AS ${text}`);
    const literals = values.map(sqlLiteral).join(', ');
    const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE candidates (${literals})`);
    await client.query('DEALLOCATE candidates');
    plan = rows[0]['QUERY PLAN'][0].Plan;
    return { rows: [] };
  };
  await find({ query } as unknown as pg.PoolClient, poll);
  const { found, beside } = rowsRead(plan as PlanNode, /^\w/);
  return found + beside;
}

async function seed(): Promise<void> {
  const admin = new pg.Client({ connectionString: database.url });
  await admin.connect();
  await admin.query(
    `INSERT INTO tenants (id, provider, org) SELECT n, 'PROVIDER_CODEHOST_APP', n FROM generate_series(1, ${tenants}) n`,
  );
  await insertAgentRow(admin, 0, { tenant: 1, owner_provider: 'PROVIDER_CODEHOST_OAUTH', path: 'template' });
  let first = 1;
  for (const { tenant, count, fields } of waiting) {
    await copyAgents(
      admin,
      {
        from: `agents a CROSS JOIN generate_series($1::int, $1 + $2::int - 1) n
          CROSS JOIN LATERAL (SELECT '00000000-0000-7000-8000-' || lpad(n::text, 12, '0') AS id) i`,
        where: "a.path = 'template'",
        fields: `(jsonb_build_object(
          'tenant', $3::int, 'id', i.id, 'root', i.id, 'path', 'agent-' || n, 'phase', 'PHASE_PENDING',
          'claimable_at', now() - interval '1 hour' + n * interval '1 millisecond') || $4::jsonb)::json`,
      },
      [first, count, tenant, JSON.stringify(fields)],
    );
    first += count;
  }
  await admin.query(
    `INSERT INTO resources (tenant, kind, name, generation, document)
     VALUES (40, 'pool', 'default', 1, '{"maxRuns": 0}'), (50, 'pool', 'default', 1, '{"maxRunsTotal": 0}')`,
  );
  await admin.query(
    `INSERT INTO runners (tenant, id, name, pool, build, capabilities, backends, rehearses, free_real, free_rehearsed,
       polls, lease_until, leaving, token)
     VALUES (0, $1, 'elsewhere', 'default', '', '{}', '{BACKEND_A}', false, 0, 0, 1, now() + interval '1 hour', false, '')`,
    [agentRowId(2)],
  );
  await admin.end();
}

beforeAll(async () => {
  database = await freshDatabase();
  pool = openDatabase({ connectionString: database.url, max: 1 }, () => {});
  client = await pool.connect();
  await seed();
});
afterAll(async () => {
  client?.release();
  await pool?.end();
  await database.drop();
});

test('tenants come in turns, each with its oldest agents that this runner can take', async () => {
  expect(await offered()).toEqual(['10: 8', '20: 2', '30: 1', '70: 2']);
  expect(await offered({ lastTenant: 20 })).toEqual(['30: 1', '70: 2', '10: 8', '20: 2']);
  expect(await offered({ lastTenant: 70, limit: 1 })).toEqual(['10: 1', '20: 1']);
  expect(await offered({ lastTenant: 10, limit: 1 })).toEqual(['20: 1', '30: 1']);
  const [oldest, next] = await find(client, { tenant: 10 });
  expect([oldest?.id, next?.id]).toEqual([agentRowId(1), agentRowId(2)]);
});

test('turns begin at any tenant if the last one does not exist', async () => {
  expect((await offered({ lastTenant: 2 ** 31 - 1 })).sort()).toEqual(['10: 8', '20: 2', '30: 1', '70: 2']);
});

test('a runner of one tenant is offered its agents, a slot for rehearsals those that need no provider', async () => {
  expect(await offered({ tenant: 20 })).toEqual(['20: 2']);
  expect(await offered({ tenant: 21 })).toEqual([]);
  expect(await offered({ backends: [''] })).toEqual(['70: 1']);
  expect(await offered({ backends: ['BACKEND_B'], tenant: 30, limit: 1 })).toEqual(['30: 1']);
});

test('what is read does not grow with the backlog, nor with tenants that wait for nothing', async () => {
  await client.query('ANALYZE');
  const read = { one: await rowsReadBy({ limit: 1 }), many: await rowsReadBy({}) };
  expect(read.one, 'for one slot').toBeLessThan(50);
  expect(read.many, 'for eight slots').toBeLessThan(100);
});

import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AgentChange } from '../../packages/service/src/domain/loaded-agents.ts';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { saveCredit } from '../../packages/service/src/store/save-credit.ts';
import {
  addLedgers,
  countLedgers,
  findFunded,
  forgetLedger,
  readBudgets,
  readBudgetsOver,
  readReserved,
  type Uncounted,
} from '../../packages/service/src/store/statements/budgets.ts';
import {
  agentRowId,
  copyAgents,
  freshDatabase,
  insertAgentRow,
  type PlanNode,
  rowsRead,
  sqlLiteral,
} from '../support/database.ts';

/** How many rows the statements of budgets read while the tables are full of those of another tenant. */
const others = 10_000;
/** Of the tenant: its agents, every tenth with its own budget and a live run; its budgets in the catalog. */
const own = 200;
const withOwn = own / 10;
const catalog = 5;
const hours = 24;
const today = '2026-03-01T00:00:00.000Z';

const counted = (key: string, agent: string | null): Uncounted => ({
  ...{ tenant: 1, key, starts_at: '2026-03-02T00:00:00.000Z', agent, workspace: '', account: '' },
});
const ofCatalog = counted('budget/b1', null);
const ofAgent = counted(`agent/${agentRowId(10)}`, agentRowId(10));
const taken = ['budget/b1', 'budget/b2', 'budget/gone'].map((key) => ({
  ...{ type: 'taken', key, usd: -0.1, mostUsd: null, at: today },
}));
const changes = [{ events: taken, after: { agent: { tenant: 1 } } }] as unknown as AgentChange[];

type Send = (connection: pg.PoolClient) => unknown;

/** The most rows of all tables that each may read. */
const statements: readonly [name: string, most: number, send: Send][] = [
  ['read-budgets-over', 20, (c) => readBudgetsOver(c, [1, 1], [10, 11].map(agentRowId), [true, false])],
  // All live agents of the tenant: no index says which have a budget.
  ['read-budgets', 4 * own, (c) => readBudgets(c, 1, 500)],
  ['read-reserved', 2 * withOwn, (c) => readReserved(c, 1)],
  ['add-ledgers', 0, (c) => addLedgers(c, JSON.stringify([ofCatalog]))],
  [
    'count-ledgers of the catalog',
    hours + 2 * withOwn + 10,
    (c) => countLedgers(c, JSON.stringify([ofCatalog])),
  ],
  ['count-ledgers of an agent', own + 2 * withOwn, (c) => countLedgers(c, JSON.stringify([ofAgent]))],
  ['forget-ledger', 1, (c) => forgetLedger(c, 1, 'budget/b1')],
  ['change-ledgers', 10, (c) => Promise.all(saveCredit(c, changes))],
];

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
  await admin.query(
    "INSERT INTO tenants (id, provider, org) VALUES (1, 'PROVIDER_CODEHOST_APP', 'one'), (2, 'PROVIDER_CODEHOST_APP', 'two')",
  );
  await insertAgentRow(admin, 0, { tenant: 1, owner_provider: 'PROVIDER_CODEHOST_OAUTH', path: 'template' });
  await copyAgents(
    admin,
    {
      from: `agents a CROSS JOIN generate_series(1, $1::int) n
        CROSS JOIN LATERAL (SELECT '00000000-0000-7000-8000-' || lpad(n::text, 12, '0') AS id) i`,
      where: "a.path = 'template'",
      fields: `json_build_object('tenant', CASE WHEN n <= $2::int THEN 1 ELSE 2 END, 'id', i.id, 'root', i.id,
        'path', 'agent-' || n, 'budget_usd', CASE WHEN n % 10 = 0 THEN 5 END)`,
    },
    [others + own, own],
  );
  const live = 'FROM agents a WHERE a.budget_usd IS NOT NULL';
  await admin.query(
    `INSERT INTO runs (tenant, agent, number, batch, state, outcome, stop, runner_id, runner, started_at, reports,
       current_action, cost, input_tokens, cached_tokens, output_tokens, follow_up_ids, account, credits)
     SELECT a.tenant, a.id, n, 1, CASE n WHEN 9 THEN 'RUNNING' ELSE 'ENDED' END, '', '', a.id, 'r', now(), 1, '', 1, 0, 0,
       0, '{}', '', CASE n WHEN 9 THEN jsonb_build_object('budget/b1', 2, 'agent/' || a.id, 2) END
     FROM agents a CROSS JOIN generate_series(1, 9) n WHERE a.budget_usd IS NOT NULL`,
  );
  await admin.query(
    `INSERT INTO budget_ledgers (tenant, key, starts_at, taken) SELECT a.tenant, 'agent/' || a.id, '${today}', 1 ${live}`,
  );
  await admin.query(
    `INSERT INTO budget_waits (tenant, agent, key, need, since) SELECT a.tenant, a.id, 'budget/b1', 1, now() ${live}`,
  );
  for (const [tenant, count] of [
    [1, catalog],
    [2, others],
  ]) {
    const budgets = `generate_series(1, ${count}) n`;
    await admin.query(
      `INSERT INTO resources (tenant, kind, name, generation, document)
       SELECT ${tenant}, 'budget', 'b' || n, 1, '{"amountUsd": 5, "workspace": "default"}' FROM ${budgets}`,
    );
    await admin.query(
      `INSERT INTO budget_ledgers (tenant, key, starts_at, taken) SELECT ${tenant}, 'budget/b' || n, '${today}', 1 FROM ${budgets}`,
    );
  }
  await admin.query(
    `INSERT INTO usage_hours (tenant, hour, agent, run, model, provider_account, root, owner_provider, account, workspace,
       backend, cost, input_tokens, cached_tokens, output_tokens, unpriced_tokens, is_estimated)
     SELECT t.tenant, timestamptz '2026-03-02' + h * interval '1 hour', t.agent, 1, 'm', '', t.agent, 'PROVIDER_CODEHOST_OAUTH',
       'ada', 'default', 'BACKEND_A', 1, 0, 0, 0, 0, false
     FROM generate_series(-400, ${hours - 1}) h
     CROSS JOIN (VALUES (1, '${agentRowId(1)}'::uuid), (2, '${agentRowId(others)}'::uuid), (2, '${agentRowId(others - 1)}'::uuid)) t (tenant, agent)`,
  );
  await admin.query('ANALYZE');
  await admin.end();
}

/** The plan of what is sent, with what it read. Nothing is changed. */
async function planOf(send: Send): Promise<PlanNode> {
  let plan: PlanNode | undefined;
  const query = async ({ text, values }: { text: string; values: unknown[] }) => {
    await client.query('BEGIN');
    await client.query('SET LOCAL plan_cache_mode = force_generic_plan');
    await client.query(`PREPARE one AS ${text}`);
    const literals = values.map(sqlLiteral).join(', ');
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
  const { found, beside } = rowsRead(await planOf(send), /^(?!n$)\w/);
  expect(found + beside).toBeLessThanOrEqual(most);
});

test('find-funded reads each row of those that wait once, and its budget by its key', async () => {
  const { found, beside } = rowsRead(await planOf((c) => findFunded(c, 500)), /^\w/);
  expect(found + beside).toBeLessThanOrEqual(4 * ((others + own) / 10));
});

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll } from 'vitest';
import { agentColumns } from '../../packages/service/src/store/agent-columns.ts';
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../packages/service/src/store/embedded/embedded-postgres.ts';
import { migrate } from '../../packages/service/src/store/migrate.ts';
import {
  agentBriefColumns,
  agentStateColumns,
  insertInto,
  namesOf,
} from '../../packages/service/src/store/tables.ts';

/** One PostgreSQL serves the whole test run; each server under test has its own database in it. */
const urlVariable = 'MUSTER_TEST_DATABASE_URL';

/** A database with the schema and no rows: copying it costs half of migrating an empty one. */
const template = 'migrated';

export async function startSharedPostgres(): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'muster-test-'));
  const postgres = await startEmbeddedPostgres({
    folder,
    // Nothing is read after the test run, so nothing has to survive a crash of the machine.
    settings: { max_connections: '300', shared_buffers: '256MB', fsync: 'off', full_page_writes: 'off' },
  });
  const url = databaseUrl(postgres, postgres.connection.database);
  process.env[urlVariable] = url;
  await execute(url, `CREATE DATABASE ${template}`);
  await migrate({ connectionString: databaseUrl(postgres, template) });
  return async () => {
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  };
}

export function databaseUrl(postgres: EmbeddedPostgres, database: string): string {
  const { host, port, user, password } = postgres.connection;
  const credentials = password === undefined ? user : `${user}:${encodeURIComponent(password)}`;
  return `postgres://${credentials}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`;
}

let databases = 0;

/** A database on the shared server. */
export interface Database {
  readonly url: string;
  drop(): Promise<void>;
}

/** A new database with the schema of this build. */
export const freshDatabase = (): Promise<Database> => create(`TEMPLATE ${template} STRATEGY file_copy`);

/** A new database without a schema. */
export const emptyDatabase = (): Promise<Database> => create('');

async function create(options: string): Promise<Database> {
  const shared = process.env[urlVariable];
  if (!shared) throw new Error('the shared PostgreSQL is not running: run the tests through vitest');
  databases += 1;
  const name = `test_${process.pid}_${Date.now().toString(36)}_${databases}`;
  await execute(shared, `CREATE DATABASE ${name} ${options}`);
  const url = new URL(shared);
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => execute(shared, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) };
}

/** A connection for the tests of a file. Call it at the top of the file. */
export async function useDatabase(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  afterAll(() => client.end());
  return client;
}

/** Executes one statement on a connection of its own. */
export async function execute(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

/** An idle agent: a value for every column without a default. */
const idleAgentRow = {
  workspace: 'default',
  current: true,
  pool: 'default',
  backend: 'BACKEND_A',
  model: 'rehearsal-a',
  created_at: '2001-01-01T00:00:00Z',
  phase: 'PHASE_WAITING_FOR_INPUT',
  reason: 'RESTING',
  since: 'now',
  run_count: 0,
  sequence: 0,
  queued: 0,
  deferred: 0,
  progress_at: 'now',
  cost: 0,
  input_tokens: 0,
  cached_tokens: 0,
  output_tokens: 0,
  session: '',
};

export const agentRowId = (number: number): string =>
  `00000000-0000-7000-8000-${String(number).padStart(12, '0')}`;

/** Inserts an agent directly, without the service; the fields override those of an idle agent. */
export async function insertAgentRow(
  client: pg.Client,
  number: number,
  fields: Readonly<Record<string, unknown>>,
): Promise<string> {
  const id = agentRowId(number);
  const row: Readonly<Record<string, unknown>> = {
    ...idleAgentRow,
    account: 'ada',
    id,
    root: id,
    ancestors: [],
    path: `agent-${number}`,
    ...fields,
  };
  await client.query(insertInto('agents', agentColumns), [JSON.stringify([row])]);
  const key = { tenant: row.tenant, agent: id };
  const state = { ...key, settings: {}, memory: {}, result: {}, response: '', labels: {} };
  await client.query(insertInto('agent_states', agentStateColumns), [JSON.stringify([state])]);
  const brief = { ...key, description: '', expected_output: '', repos: [], searched: row.path };
  await client.query(insertInto('agent_briefs', agentBriefColumns), [JSON.stringify([brief])]);
  return id;
}

/** Copies the part of an agent that another table has; `fields` are the arguments of a JSON object of what differs. */
const copyPart = (
  table: string,
  columns: typeof agentStateColumns | typeof agentBriefColumns,
  fields: string,
) =>
  `INSERT INTO ${table} (${namesOf(columns)}) SELECT ${namesOf(columns, 'r')}
   FROM copies c JOIN ${table} p ON p.tenant = c.source_tenant AND p.agent = c.source
   CROSS JOIN LATERAL json_populate_record(p, json_build_object(${fields})) r`;

/**
 * Copies the agents `a` of a FROM clause, with their states and briefs; `fields` is a JSON expression of what differs.
 * Returns how many.
 */
export async function copyAgents(
  client: pg.Client | pg.PoolClient,
  { from, where, fields }: { from: string; where: string; fields: string },
  values: unknown[] = [],
): Promise<number> {
  const { rowCount } = await client.query(
    `WITH copies AS (
       SELECT a.tenant AS source_tenant, a.id AS source, r.*
       FROM ${from} CROSS JOIN LATERAL json_populate_record(a, ${fields}) r WHERE ${where}
     ), states AS (
       ${copyPart('agent_states', agentStateColumns, `'tenant', c.tenant, 'agent', c.id`)}
     ), briefs AS (
       ${copyPart('agent_briefs', agentBriefColumns, `'tenant', c.tenant, 'agent', c.id, 'searched', c.path`)}
     )
     INSERT INTO agents (${namesOf(agentColumns)}) SELECT ${namesOf(agentColumns)} FROM copies`,
    values,
  );
  return rowCount ?? 0;
}

/** A node of `EXPLAIN (ANALYZE, FORMAT JSON)`. */
export interface PlanNode {
  readonly 'Relation Name'?: string;
  readonly 'Subplan Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly Plans?: readonly PlanNode[];
}

/** How many rows of a table a plan read: `found` to find the page, `beside` in subplans for each row of the page. */
export function rowsRead(node: PlanNode, table: RegExp, isBeside = false): { found: number; beside: number } {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0);
  const own = table.test(node['Relation Name'] ?? '')
    ? Math.round((node['Actual Rows'] + removed) * node['Actual Loops'])
    : 0;
  const isSubplan = isBeside || node['Subplan Name'] !== undefined;
  const sum = isSubplan ? { found: 0, beside: own } : { found: own, beside: 0 };
  for (const plan of node.Plans ?? []) {
    const { found, beside } = rowsRead(plan, table, isSubplan);
    sum.found += found;
    sum.beside += beside;
  }
  return sum;
}

/** A parameter as an SQL literal. */
export const sqlLiteral = (value: unknown): string =>
  pg.escapeLiteral(Array.isArray(value) ? `{${value.join(',')}}` : String(value));

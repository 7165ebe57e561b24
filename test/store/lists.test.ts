import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { type ListFilter, readList } from '../../packages/service/src/store/statements/list-agents.ts';
import {
  agentRowId,
  copyAgents,
  freshDatabase,
  insertAgentRow,
  rowsRead,
  sqlLiteral,
} from '../support/database.ts';

/**
 * How many rows a page of a list costs, out of a store in which nearly all agents ended long ago. Counted is what the
 * plan reads, not how long it takes.
 */
const agents = 10_000;
const day = 24 * 3600 * 1000;
const many = { provider: 'PROVIDER_CODEHOST_OAUTH', account: 'many' };
const few = { provider: 'PROVIDER_CODEHOST_OAUTH', account: 'few' };
/** A root with a third of all agents below it. */
const giant = { id: agentRowId(1), root: agentRowId(1), path: 'agent-1' };

const page: ListFilter = {
  tenant: 1,
  parent: null,
  allDepths: true,
  owner: null,
  reader: few,
  includeTerminal: false,
  endedSince: null,
  workspace: '',
  phases: [],
  text: '',
  labels: {},
  before: null,
  ids: null,
  limit: 100,
};
const lately = { includeTerminal: true, endedSince: new Date(Date.now() - 7 * day).toISOString() };

/** The most rows that each may read: the page, from each of two indexes, and what ended lately, if that is asked for. */
const lists: Readonly<Record<string, { filter: Partial<ListFilter>; rows: number }>> = {
  'live agents': { filter: {}, rows: 202 },
  'live agents of a later page': { filter: { before: agentRowId(6_000) }, rows: 202 },
  'live agents of one account': { filter: { owner: many }, rows: 202 },
  'live agents of a small account': { filter: { owner: few }, rows: 20 },
  'all agents': { filter: { includeTerminal: true }, rows: 202 },
  'all agents of one account': { filter: { includeTerminal: true, owner: many }, rows: 202 },
  'all agents of a small account': { filter: { includeTerminal: true, owner: few }, rows: 20 },
  'what ended lately': { filter: lately, rows: 402 },
  'what ended lately, a later page': { filter: { ...lately, before: agentRowId(6_000) }, rows: 402 },
  'what ended lately of one account': { filter: { ...lately, owner: many }, rows: 402 },
  'what ended lately of a small account': { filter: { ...lately, owner: few }, rows: 20 },
  'live roots': { filter: { allDepths: false }, rows: 101 },
  'roots that ended lately': { filter: { ...lately, allDepths: false }, rows: 402 },
  'live agents below one': { filter: { parent: giant }, rows: 300 },
  'what ended lately below one': { filter: { parent: giant, ...lately }, rows: 600 },
  'live children': { filter: { parent: giant, allDepths: false }, rows: 300 },
  'live agents with a label': { filter: { labels: { team: 'web' } }, rows: 202 },
  'live agents with a label, a later page': {
    filter: { labels: { team: 'web' }, before: agentRowId(6_000) },
    rows: 202,
  },
  'all agents with a rare label': { filter: { labels: { rare: 'yes' }, includeTerminal: true }, rows: 40 },
  'agents of one provider': { filter: { owner: { ...many, account: null } }, rows: 202 },
  'a search for a rare text': { filter: { text: 'child-1234', includeTerminal: true }, rows: 202 },
  'a search for a frequent text': { filter: { text: 'agent-', includeTerminal: true }, rows: 202 },
  'a search for a frequent text in a small account': {
    filter: { text: 'agent-', includeTerminal: true, owner: few },
    rows: 20,
  },
  'some by their ids': { filter: { includeTerminal: true, ids: [3, 5, 7, 90].map(agentRowId) }, rows: 4 },
};

let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;
let client: pg.PoolClient;

/** Sends a list's statement in another form than the service does. */
const send = (filter: Partial<ListFilter>, form: (text: string, values: string) => string) =>
  new Promise<pg.QueryResult>((resolve, reject) => {
    const query = async ({ text, values }: { text: string; values: unknown[] }) => {
      const answer = client.query(form(text, values.map(sqlLiteral).join(', ')));
      answer.then(resolve, reject);
      return { rows: [] };
    };
    readList({ query } as unknown as pg.PoolClient, { ...page, ...filter }).catch(reject);
  });

async function plans(table = /^agents$/): Promise<Record<string, ReturnType<typeof rowsRead>>> {
  const found: Record<string, ReturnType<typeof rowsRead>> = {};
  for (const [name, { filter }] of Object.entries(lists)) {
    // Without a name it is planned for its values.
    const mode = filter.text || filter.endedSince ? 'force_custom_plan' : 'force_generic_plan';
    await client.query(`SET plan_cache_mode = ${mode}`);
    const { rows } = await send(
      filter,
      (_, values) => `EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE "${name}" (${values})`,
    );
    found[name] = rowsRead(rows[0]['QUERY PLAN'][0].Plan, table);
  }
  return found;
}

/**
 * One in 50 lives, one in 40 ended lately; the rest ended long ago. Below a root are four, below the giant 3,000. The
 * newest are of another tenant.
 */
async function seed(): Promise<void> {
  const admin = new pg.Client({ connectionString: database.url });
  await admin.connect();
  await admin.query(
    "INSERT INTO tenants (id, provider, org) VALUES (1, 'PROVIDER_CODEHOST_APP', 'one'), (2, 'PROVIDER_CODEHOST_APP', 'two')",
  );
  await insertAgentRow(admin, 0, { tenant: 1, owner_provider: 'PROVIDER_CODEHOST_OAUTH', path: 'template' });
  await admin.query(`CREATE FUNCTION pg_temp.id(n int) RETURNS text LANGUAGE sql
    RETURN '00000000-0000-7000-8000-' || lpad(n::text, 12, '0')`);
  await copyAgents(
    admin,
    {
      from: `agents a CROSS JOIN generate_series(1, $1::int) n
        CROSS JOIN LATERAL (SELECT CASE WHEN n <= 3000 THEN 1 ELSE n - n % 5 END) AS above (root)`,
      where: `a.path = 'template'`,
      fields: `json_build_object(
        'tenant', CASE WHEN n < 8000 THEN 1 ELSE 2 END, 'id', pg_temp.id(n), 'root', pg_temp.id(above.root),
        'parent', CASE WHEN n > above.root THEN pg_temp.id(above.root) END,
        'ancestors', CASE WHEN n > above.root THEN ARRAY[pg_temp.id(above.root)] ELSE '{}' END,
        'path', 'agent-' || above.root || CASE WHEN n > above.root THEN '/child-' || n ELSE '' END,
        'account', CASE WHEN above.root IN (5000, 5005) THEN 'few' ELSE 'many' END,
        'phase', CASE WHEN n % 50 = 0 THEN 'PHASE_WAITING_FOR_INPUT' ELSE 'PHASE_COMPLETED' END,
        'ended_at', CASE WHEN n % 50 > 0
          THEN now() - CASE n % 40 WHEN 1 THEN interval '1 hour' ELSE interval '90 days' END END)`,
    },
    [agents],
  );
  await admin.query(`WITH labelled AS (
      UPDATE agent_states SET labels = CASE WHEN right(agent::text, 3) = '000' THEN '{"team": "web", "rare": "yes"}'
        ELSE '{"team": "web"}' END::jsonb RETURNING agent, labels
    )
    INSERT INTO labels SELECT a.tenant, a.id, l.key, l.value, a.is_live
    FROM labelled JOIN agents a ON a.id = labelled.agent CROSS JOIN jsonb_each_text(labels) l`);
  await admin.query(`INSERT INTO agent_marks (tenant, agent, owner_provider, account, seen)
    SELECT a.tenant, a.id, a.owner_provider, reader, 1 FROM agents a CROSS JOIN unnest('{few,many}'::text[]) reader`);
  await admin.end();
}

beforeAll(async () => {
  database = await freshDatabase();
  pool = openDatabase({ connectionString: database.url, max: 1 }, () => {});
  client = await pool.connect();
  await seed();
  await client.query('ANALYZE');
  for (const [name, { filter }] of Object.entries(lists))
    await send(filter, (text) => `PREPARE "${name}" AS ${text}`);
});
afterAll(async () => {
  client?.release();
  await pool?.end();
  await database.drop();
});

/** Twice the giant's children, and those of all the others on a page. */
const mostBeside = 7_000;

const excess = (read: Awaited<ReturnType<typeof plans>>) =>
  Object.entries(lists).flatMap(([name, { rows }]) => {
    const { found = 0, beside = 0 } = read[name] ?? {};
    return found > rows || beside > mostBeside ? [`${name}: ${found} rows, ${beside} beside`] : [];
  });

test('marks are read only of the agents of the page and of its reader', async () => {
  const read = Object.entries(await plans(/^agent_marks$/));
  expect(read.filter(([, { found, beside }]) => found + beside > 101)).toEqual([]);
});

test('a search looks through the texts once', async () => {
  await client.query('SET plan_cache_mode = force_custom_plan');
  const { rows } = await send(
    { text: 'child-1234', includeTerminal: true },
    (_, values) => `EXPLAIN EXECUTE "a search for a rare text" (${values})`,
  );
  const plan = rows.map((row) => row['QUERY PLAN']);
  // And once for the texts that the page shows.
  expect(plan.filter((line) => / on agent_briefs b/.test(line))).toHaveLength(2);
});

test('a page of a list is read without a scan of the agents that ended long ago', async () => {
  const read = await plans();
  expect(excess(read)).toEqual([]);
  expect(read['live agents']?.found).toBeGreaterThanOrEqual(101);
  expect(read['what ended lately']?.found).toBeGreaterThanOrEqual(200);
});

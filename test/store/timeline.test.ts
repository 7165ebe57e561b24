import { limits } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Maintenance } from '../../packages/service/src/control/upkeep/maintenance.ts';
import { type Log, openLog } from '../../packages/service/src/lib/log.ts';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import {
  clearRunResults,
  deleteCheckpoint,
  deleteEntries,
  deleteHistories,
  findOldAgents,
} from '../../packages/service/src/store/statements/maintenance.ts';
import { readFirstSequence, readTimeline } from '../../packages/service/src/store/statements/timeline.ts';
import {
  createPartition,
  partitionPlan,
  readPartitions,
} from '../../packages/service/src/store/timeline-partitions.ts';
import { copyAgents, freshDatabase, insertAgentRow, rowsRead, sqlLiteral } from '../support/database.ts';

/** The timeline as a table: what a page reads, what maintenance deletes, and its partitions. */
const tenant = 1;
const begun = '2001-01-01T00:00:00Z';
let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;
let client: pg.Client;
let agents = 0;

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

/** An agent with entries, one per minute up to now, of which every hundredth is a push. */
async function agentWith(entries: number, fields: Record<string, unknown> = {}): Promise<string> {
  agents += 1;
  const id = await insertAgentRow(client, agents, {
    tenant,
    owner_provider: 'PROVIDER_CODEHOST_OAUTH',
    sequence: entries,
    created_at: begun,
    ...fields,
  });
  await client.query(
    `INSERT INTO timeline (tenant, agent, sequence, at, run, type, follow_up_id, text, data)
     SELECT 1, $1, n, now() - ($2 - n) * interval '1 minute', 1, CASE WHEN n % 100 = 0 THEN 'PUSH' ELSE 'MESSAGE' END,
       '', 'words', '{}' FROM generate_series(1, $2::int) n`,
    [id, entries],
  );
  return id;
}

const entriesOf = async (id: string): Promise<number> => {
  const { rows } = await client.query('SELECT count(*)::int AS n FROM timeline WHERE agent = $1', [id]);
  return rows[0].n;
};

const ended = { phase: 'PHASE_COMPLETED', reason: 'FINISHED' };
/** What fails is expected not to be logged. */
const log = { ...openLog('silent'), warn: (fields: unknown) => expect(fields).toBeUndefined() } as Log;
const maintenance = (fields: Partial<ConstructorParameters<typeof Maintenance>[0]> = {}) =>
  new Maintenance({
    ...{ database: pool, log, timelineDays: 365, timelineEntries: 1e9 },
    quotas: { storage: 1e9, checkpoints: 1e9, attachments: 1e9 },
    ...fields,
  });

async function maintain(fields: Parameters<typeof maintenance>[0] = {}): Promise<void> {
  const one = maintenance(fields);
  await one.pass();
  await one.close();
}

/** A message with this state; its text is not repeated in the entry that admitted it. */
async function insertFollowUp(agent: string, id: string, state: string, sequence: number): Promise<void> {
  await client.query(
    `WITH entry AS (
       UPDATE timeline SET type = 'FOLLOW_UP_QUEUED', text = NULL, follow_up_id = $2
       WHERE agent = $1 AND sequence = $4 RETURNING at
     )
     INSERT INTO follow_ups (tenant, agent, id, state, position, sequence, description, tasks, queued_at, digest, change)
     SELECT 1, $1, $2, $3, $4, $4, 'words of ' || $2, '[{"id": "t"}]', at, 'digest',
       '{"model": "sonnet", "persona": {"name": "p", "instructions": "long", "tasks": []}}' FROM entry`,
    [agent, id, state, sequence],
  );
}

const followUp = async (id: string) => {
  const { rows } = await client.query(
    'SELECT state, description, tasks, change, digest FROM follow_ups WHERE id = $1',
    [id],
  );
  return rows[0];
};

test('a page reads only its own entries, and pushes without a scan of all messages', async () => {
  const agent = await agentWith(10_000);
  for (let other = 0; other < 5; other += 1) await agentWith(1_000);
  await client.query('ANALYZE');
  const read = async (types: readonly ('PUSH' | 'RUN_STARTED')[] | null, limit: number): Promise<number> => {
    let found = 0;
    const query = async ({ text, values }: { text: string; values: unknown[] }) => {
      const name = `q${Math.random().toString(36).slice(2)}`;
      await client.query('SET plan_cache_mode = force_generic_plan');
      await client.query(`PREPARE ${name} AS ${text}`);
      const given = values.map((value) => (value === null ? 'NULL' : sqlLiteral(value))).join(', ');
      const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE ${name} (${given})`);
      found = rowsRead(rows[0]['QUERY PLAN'][0].Plan, /^timeline/).found;
      return { rows: [] };
    };
    const connection = { query } as unknown as pg.PoolClient;
    await readTimeline(connection, 'before', tenant, agent, 10_001, limit, types, limits.pageBytes, begun);
    return found;
  };
  expect(await read(null, 50)).toBeLessThanOrEqual(51);
  expect(await read(['PUSH', 'RUN_STARTED'], 1000)).toBe(100);
});

test('the history of an agent that ended long ago is deleted, and known ids stay known', async () => {
  const old = await agentWith(3_000, { ...ended, ended_at: '2001-02-01T00:00:00Z', checkpoint_at: begun });
  const recent = await agentWith(10, { ...ended, ended_at: new Date().toISOString() });
  await insertFollowUp(old, 'delivered', 'DELIVERED', 5);
  for (const run of [1, 2])
    await client.query(
      `INSERT INTO runs (tenant, agent, number, batch, state, outcome, stop, runner_id, runner, started_at, reports,
         current_action, follow_up_ids, cost, input_tokens, cached_tokens, output_tokens, response)
       VALUES (1, $1, $2, 1, 'ENDED', 'COMPLETED', '', $1, '', now(), 0, '', '{}', 0, 0, 0, 0, 'said')`,
      [old, run],
    );
  await client.query(
    'INSERT INTO checkpoints (tenant, agent, id, run, parts, bytes, completed_at) VALUES (1, $1, $1, 1, 1, 4, now())',
    [old],
  );
  await client.query("INSERT INTO checkpoint_parts VALUES (1, $1, $1, 0, 'work')", [old]);
  await client.query("INSERT INTO diffs VALUES (1, $1, 'repo', false, 'diff')", [old]);

  await maintain();
  expect([await entriesOf(old), await entriesOf(recent)]).toEqual([0, 10]);
  expect(await followUp('delivered')).toEqual({
    state: 'DELIVERED',
    description: '',
    tasks: [],
    change: { model: 'sonnet', persona: { name: 'p' } },
    digest: 'digest',
  });
  const { rows } = await client.query(
    `SELECT history_deleted, checkpoint_at, (SELECT count(*)::int FROM checkpoints) AS checkpoints,
       (SELECT count(*)::int FROM checkpoint_parts) AS parts, (SELECT count(*)::int FROM diffs) AS diffs,
       (SELECT count(response)::int FROM runs) AS responses
     FROM agents WHERE id = $1`,
    [old],
  );
  const gone = { checkpoint_at: null, checkpoints: 0, parts: 0, diffs: 0, responses: 0 };
  expect(rows).toEqual([{ history_deleted: true, ...gone }]);
});

test('histories of many agents of several tenants are deleted, and none is looked at twice', async () => {
  const others = 120;
  const template = await agentWith(0, { ...ended, ended_at: '2001-03-01T00:00:00Z' });
  await client.query("INSERT INTO tenants (id, provider, org) VALUES (2, 'PROVIDER_CODEHOST_APP', 'other')");
  await copyAgents(client, {
    from: `agents a CROSS JOIN generate_series(1, ${others}) n CROSS JOIN LATERAL (SELECT md5('old' || n)::uuid) AS fresh (id)`,
    where: `a.id = '${template}'`,
    fields: `json_build_object('id', fresh.id, 'root', fresh.id, 'tenant', 1 + n % 2, 'path', 'old-' || n,
        'ended_at', '2001-03-02T00:00:00Z'::timestamptz + n / 10 * interval '1 hour')`,
  });
  await client.query(
    `INSERT INTO timeline SELECT tenant, id, n, now(), 1, 'MESSAGE', '', 'words', '{}'
     FROM agents, generate_series(1, 3) n WHERE path LIKE 'old-%'`,
  );
  await client.query("UPDATE maintenance SET history_until = '-infinity'");
  await maintain();
  const { rows } = await client.query(
    `SELECT count(*)::int AS agents, count(*) FILTER (WHERE history_deleted)::int AS done,
       (SELECT count(*)::int FROM timeline WHERE agent IN (SELECT id FROM agents WHERE path LIKE 'old-%')) AS entries
     FROM agents WHERE path LIKE 'old-%'`,
  );
  expect(rows).toEqual([{ agents: others, done: others, entries: 0 }]);

  // From where the last look ended, without those before it.
  await client.query('ANALYZE agents');
  let found = 0;
  const query = async ({ text, values }: { text: string; values: unknown[] }) => {
    const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, values);
    found = rowsRead(rows[0]['QUERY PLAN'][0].Plan, /^agents$/).found;
    return { rows: [] };
  };
  const until = '2001-03-03T00:00:00Z';
  const connection = { query } as unknown as pg.PoolClient;
  await findOldAgents(connection, 2, '2001-03-02T12:00:00Z', begun, until, 50);
  expect(found).toBeLessThanOrEqual(5);
});

test('of a live agent the newest entries are kept, and the texts of undelivered messages', async () => {
  const agent = await agentWith(5_000);
  await insertFollowUp(agent, 'long-delivered', 'DELIVERED', 10);
  await insertFollowUp(agent, 'undelivered', 'QUEUED', 11);
  await maintain({ timelineEntries: 1_000 });
  expect(await entriesOf(agent)).toBe(1_000);
  expect(await readFirstSequence(pool, tenant, agent, begun)).toEqual([{ first: 4_001 }]);
  expect((await followUp('long-delivered')).description).toBe('');
  expect((await followUp('undelivered')).description).toBe('words of undelivered');
});

test('of a live agent the results of its newest runs are kept, the runs themselves all', async () => {
  const runs = limits.runResultsPerAgent + 700;
  const agent = await agentWith(1, { run_count: runs });
  await client.query(
    `INSERT INTO runs (tenant, agent, number, batch, state, outcome, stop, runner_id, runner, started_at, ended_at, gone_at,
       reports, current_action, follow_up_ids, cost, input_tokens, cached_tokens, output_tokens, response, structured_output)
     SELECT 1, $1, n, n, 'ENDED', 'COMPLETED', 'NONE', $1, 'runner', now(), now(), now(), 1, '', '{}', 0, 0, 0, 0,
       CASE WHEN n % 3 > 0 THEN 'said' END, CASE WHEN n % 2 = 0 THEN '{}'::json END
     FROM generate_series(1, $2::int) n`,
    [agent, runs],
  );
  const results = async () => {
    const { rows } = await client.query(
      `SELECT count(*)::int AS runs, min(number) FILTER (WHERE response IS NOT NULL) AS said,
         min(number) FILTER (WHERE structured_output IS NOT NULL) AS made FROM runs WHERE agent = $1`,
      [agent],
    );
    return rows[0];
  };
  expect(await results()).toEqual({ runs, said: 1, made: 2 });
  await maintain();
  expect(await results()).toEqual({ runs, said: 701, made: 702 });
});

test('entries are deleted in batches, oldest first', async () => {
  const agent = await agentWith(100);
  expect(await deleteEntries(pool, tenant, agent, 60, 40)).toEqual([{ deleted: 40 }]);
  expect(await readFirstSequence(pool, tenant, agent, begun)).toEqual([{ first: 41 }]);
  expect(await deleteEntries(pool, tenant, agent, 60, 40)).toEqual([{ deleted: 20 }]);
  expect(await deleteEntries(pool, tenant, agent, 60, 40)).toEqual([{ deleted: 0 }]);
});

test('an agent that was reopened meanwhile keeps its history', async () => {
  const agent = await agentWith(10);
  await client.query(
    'INSERT INTO checkpoints (tenant, agent, id, run, parts, bytes, completed_at) VALUES (1, $1, $1, 1, 1, 4, now())',
    [agent],
  );
  const none = [{ deleted: 0 }];
  const before = new Date().toISOString();
  expect(await deleteHistories(pool, [tenant], [agent], before, 10)).toEqual(none);
  expect(await clearRunResults(pool, [tenant], [agent], before, 10)).toEqual(none);
  expect(await deleteCheckpoint(pool, [tenant], [agent], before)).toEqual(none);
  expect(await entriesOf(agent)).toBe(10);
});

test('a month whose entries are all too old is dropped; what was admitted in it and waits keeps its text', async () => {
  await createPartition(pool, '2019_05');
  const agent = await agentWith(10);
  await client.query(
    `UPDATE timeline SET at = '2019-05-02T00:00:00Z'::timestamptz + sequence * interval '1 minute'
     WHERE agent = $1 AND sequence <= 6`,
    [agent],
  );
  await insertFollowUp(agent, 'old-delivered', 'DELIVERED', 2);
  await insertFollowUp(agent, 'old-queued', 'QUEUED', 3);
  expect((await readPartitions(pool)).months).toContain('2019_05');
  await maintain();
  expect((await readPartitions(pool)).months).not.toContain('2019_05');
  expect(await readFirstSequence(pool, tenant, agent, begun)).toEqual([{ first: 7 }]);
  expect((await followUp('old-delivered')).description).toBe('');
  expect((await followUp('old-queued')).description).toBe('words of old-queued');
});

test('partitions are created two months ahead and found too old by their last day', () => {
  const now = new Date('2026-12-31T23:59:59Z');
  expect(partitionPlan(['2026_12'], now)).toEqual({ missing: ['2027_01', '2027_02'], tooOld: [] });
  const before = new Date('2026-02-01T00:00:00Z');
  expect(partitionPlan(['2025_12', '2026_01', '2026_02'], now, { before }).tooOld).toEqual([
    '2025_12',
    '2026_01',
  ]);
  const from = new Date('2026-11-15T00:00:00Z');
  expect(partitionPlan([], now, { from }).missing).toEqual(['2026_11', '2026_12', '2027_01', '2027_02']);
});

test('one node at a time does maintenance, and another continues when it stops', async () => {
  const passes: string[] = [];
  const node = (name: string) => maintenance({ onMaintenance: () => passes.push(name) });
  await client.query("UPDATE maintenance SET lease_until = '-infinity'");
  const [first, second] = [node('first'), node('second')];
  await first.pass();
  await second.pass();
  expect(new Set(passes)).toEqual(new Set(['first']));
  await first.close();
  await second.pass();
  expect(new Set(passes)).toEqual(new Set(['first', 'second']));
  await second.close();
});

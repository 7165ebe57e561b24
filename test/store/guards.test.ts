import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { freshDatabase, insertAgentRow } from '../support/database.ts';

/** What the database refuses by itself, should the domain ever be wrong: each write goes past all of our code. */
let database: Awaited<ReturnType<typeof freshDatabase>>;
let client: pg.Client;
let agents = 0;

beforeAll(async () => {
  database = await freshDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(`INSERT INTO tenants (id, provider, org)
    VALUES (1, 'PROVIDER_CODEHOST_APP', 'one'), (2, 'PROVIDER_CODEHOST_APP', 'two')`);
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

function insertAgent(fields: Record<string, unknown> = {}): Promise<string> {
  agents += 1;
  return insertAgentRow(client, agents, { tenant: 1, owner_provider: 'PROVIDER_CODEHOST_OAUTH', ...fields });
}

const insertRun = (agent: string, number: number, state: string, tenant = 1) =>
  client.query(
    `INSERT INTO runs (tenant, agent, number, batch, state, outcome, stop, runner_id, runner, started_at, reports,
       current_action, follow_up_ids, cost, input_tokens, cached_tokens, output_tokens)
     VALUES ($1, $2, $3, 1, $4, '', '', gen_random_uuid(), '', now(), 0, '', '{}', 0, 0, 0, 0)`,
    [tenant, agent, number, state],
  );

test('an agent has at most one live run', async () => {
  const agent = await insertAgent({ phase: 'PHASE_RUNNING', reason: 'WORKING' });
  await insertRun(agent, 1, 'ENDED');
  await insertRun(agent, 2, 'RUNNING');
  await expect(insertRun(agent, 3, 'STARTING')).rejects.toMatchObject({ constraint: 'runs_live' });
});

test('a run number is used once', async () => {
  const agent = await insertAgent();
  await insertRun(agent, 1, 'ENDED');
  await expect(insertRun(agent, 1, 'ENDED')).rejects.toMatchObject({ code: '23505' });
});

test('an identity has one holder', async () => {
  await insertAgent({ path: 'held' });
  await expect(insertAgent({ path: 'held' })).rejects.toMatchObject({ constraint: 'agents_holder' });
  await insertAgent({ path: 'held', workspace: 'other' });
  await insertAgent({ path: 'held', current: false });
});

test.each([
  ['rests with a queued message', { queued: 1 }, 'no_stranded_queue'],
  ['rests and could be claimed', { claimable_at: 'now' }, 'claimable_is_pending'],
  ['has ended without a time', { phase: 'PHASE_COMPLETED' }, 'terminal_has_end'],
  ['has a time of its end and lives', { ended_at: 'now' }, 'terminal_has_end'],
  ['has fewer than no messages', { deferred: -1 }, 'agents_deferred_check'],
])('no agent %s', async (_, fields, constraint) => {
  await expect(insertAgent(fields)).rejects.toMatchObject({ constraint });
});

test('a row of another tenant cannot be referenced', async () => {
  const agent = await insertAgent();
  await expect(insertRun(agent, 1, 'ENDED', 2)).rejects.toMatchObject({ code: '23503' });
  for (const row of [
    'checkpoints (tenant, agent, id, run) VALUES (2, $1, $1, 1)',
    "diffs VALUES (2, $1, '', false, '')",
    "checklists VALUES (2, $1, '[]')",
  ]) {
    await expect(client.query(`INSERT INTO ${row}`, [agent])).rejects.toMatchObject({ code: '23503' });
  }
  await expect(insertAgent({ tenant: 2, parent: agent, root: agent })).rejects.toMatchObject({
    code: '23503',
  });
});

interface Reference {
  readonly from: string;
  readonly to: string;
  /** The first columns of the key, on both sides. */
  readonly leads: string;
}

test('every primary key and foreign key has the tenant first, except the key of the tenants themselves', async () => {
  const { rows: keys } = await client.query<{ name: string; first: string }>(
    `SELECT c.conrelid::regclass::text AS name, a.attname AS first FROM pg_constraint c
     JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
     JOIN pg_class r ON r.oid = c.conrelid AND NOT r.relispartition
     WHERE c.contype = 'p' AND c.connamespace = 'public'::regnamespace AND a.attname <> 'tenant' ORDER BY 1`,
  );
  expect(keys).toEqual([
    // It has a tenant when a person has approved it.
    { name: 'device_logins', first: 'hash' },
    { name: 'migrations', first: 'number' },
    // One row, of the whole service.
    { name: 'service_secret', first: 'only_row' },
    { name: 'tenants', first: 'id' },
  ]);
  const { rows: references } = await client.query<Reference>(
    `SELECT c.conrelid::regclass::text AS from, c.confrelid::regclass::text AS to, a.attname || '=' || f.attname AS leads
     FROM pg_constraint c
     JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
     JOIN pg_attribute f ON f.attrelid = c.confrelid AND f.attnum = c.confkey[1]
     WHERE c.contype = 'f' AND c.connamespace = 'public'::regnamespace`,
  );
  expect(references.length).toBeGreaterThan(20);
  for (const { from, to, leads } of references)
    expect(`${from} → ${to}: ${leads}`).toBe(
      `${from} → ${to}: ${to === 'tenants' ? 'tenant=id' : 'tenant=tenant'}`,
    );
});

/**
 * What names an agent and is not checked by a key. Each is only written together with the agent's row or under its lock,
 * or may outlive it.
 */
const unchecked = [
  'agent_briefs',
  'agent_states',
  'budget_waits',
  'deliveries',
  'events',
  'follow_ups',
  'notification_deliveries',
  'outbox',
  'timeline',
  'usage_days',
  'usage_hours',
  'watches',
];

test('every table that names an agent has a key to it, except those that GUARANTEES lists', async () => {
  const { rows } = await client.query<{ name: string; has_key: boolean }>(
    `SELECT a.attrelid::regclass::text AS name, EXISTS (
       SELECT FROM pg_constraint c WHERE c.conrelid = a.attrelid AND c.contype = 'f' AND a.attnum = ANY (c.conkey)
     ) AS has_key
     FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid AND r.relkind IN ('r', 'p') AND NOT r.relispartition
     WHERE a.attname = 'agent' AND a.atttypid = 'uuid'::regtype AND r.relnamespace = 'public'::regnamespace ORDER BY 1`,
  );
  expect(rows.filter(({ has_key }) => !has_key).map(({ name }) => name)).toEqual(unchecked);
  expect(rows.filter(({ has_key }) => has_key).map(({ name }) => name)).toContain('runs');
  const guarantees = readFileSync(new URL('../../GUARANTEES.md', import.meta.url), 'utf8');
  for (const name of [...unchecked, 'agents.root']) expect(guarantees).toContain(`\`${name}\``);
});

test('a connection that breaks is reported once, and not after the end of its pool', async () => {
  const errors: string[] = [];
  const pool = openDatabase({ connectionString: database.url }, ({ message }) => errors.push(message));
  const [broken, other] = [await pool.connect(), await pool.connect()];
  broken.release();
  other.release();
  broken.emit('error', new Error('broken'));
  const ended = pool.end();
  other.emit('error', new Error('the server stops'));
  await ended;
  expect(errors).toEqual(['broken']);
});

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

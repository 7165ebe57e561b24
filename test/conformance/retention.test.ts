import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { agent, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { freshDatabase } from '../support/database.ts';
import { expectError } from '../support/expect-reply.ts';
import { bootstrapKey, startServer } from '../support/server.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.drop());

test("timeline, checkpoint and diff are deleted 30 days after the agent's end; resuming before it is OUT_OF_RANGE", async () => {
  const env = { MUSTER_BOOTSTRAP_KEY: bootstrapKey() };
  const first = await startServer({ databaseUrl: database.url, env });
  const api = apiOf(first);
  for (const name of ['old', 'recent']) {
    await api.post('/v1/agent/spawn', { agentId: agent(name), description: '!say done' });
    await api.post('/v1/agent/kill', { agentId: agent(name) });
  }
  await first.close();

  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(
    'INSERT INTO checkpoints SELECT tenant, id, gen_random_uuid(), 1, true, 1, 4, now() FROM agents',
  );
  await client.query("INSERT INTO checkpoint_parts SELECT tenant, agent, id, 0, 'work' FROM checkpoints");
  await client.query('UPDATE agents SET checkpoint_at = now()');
  await client.query("INSERT INTO diffs SELECT tenant, id, 'repo', 'diff of ' || path FROM agents");
  await client.query("UPDATE agents SET ended_at = now() - interval '31 days' WHERE path = 'old'");
  await client.query("UPDATE agents SET ended_at = now() - interval '29 days' WHERE path = 'recent'");

  const second = await startServer({ databaseUrl: database.url, env });
  const after = apiOf({ url: second.url, key: first.key });
  const read = (name: string, afterSequence = 1) =>
    after.post<{ code?: number; details?: { metadata?: Record<string, string> }[]; entries?: unknown[] }>(
      '/v1/agent/timeline',
      { agentId: agent(name), afterSequence },
    );
  const refused = await until(
    'the old timeline gone',
    () => read('old'),
    ({ status }) => status !== 200,
  );
  expect(refused).toMatchObject({ status: 400, body: { code: 11 } });
  const firstSequence = Number(refused.body.details?.[0]?.metadata?.firstSequence);
  expect(firstSequence).toBeGreaterThan(1);
  expect((await read('old', firstSequence - 1)).status).toBe(200);
  expect((await read('recent')).body.entries?.length).toBeGreaterThan(0);
  const diffOf = async (name: string) =>
    (await after.post('/v1/agent/diff', { agentId: agent(name) })).body.diff;
  expect([await diffOf('old'), await diffOf('recent')]).toEqual(['', 'diff of recent']);
  const checkpointOf = (name: string) => after.post('/v1/agent/checkpoint', { agentId: agent(name) });
  const savedAt = async (name: string) =>
    (await after.post('/v1/agent/status', { agentId: agent(name) })).body.checkpointAt;
  expectError(await checkpointOf('old'), 'NOT_FOUND');
  expect(await savedAt('old')).toBeNull();
  expect(await checkpointOf('recent')).toMatchObject({ status: 200, body: { content: 'd29yaw==' } });
  expect(await savedAt('recent')).not.toBeNull();
  const { rows } = await client.query(
    'SELECT a.path FROM checkpoint_parts p JOIN agents a ON a.tenant = p.tenant AND a.id = p.agent',
  );
  expect(rows).toEqual([{ path: 'recent' }]);
  await client.end();
  await second.close();
});

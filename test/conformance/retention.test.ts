import { limits, type ReplyOf } from '@muster/sdk/contract';
import { afterAll, expect, test } from 'vitest';
import { parseKey } from '../../packages/service/src/lib/token.ts';
import { agent, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { freshDatabase, useDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { bootstrapKey, startServer } from '../support/server.ts';

// Its own database: the node that deletes is the one that starts last.
const store = await freshDatabase();
afterAll(store.drop);
const database = await useDatabase(store.url);
const key = bootstrapKey();
const options = { runner: false, databaseUrl: store.url, env: { MUSTER_BOOTSTRAP_KEY: key } };

test("timeline, checkpoint, diff, images and review threads are deleted 30 days after the agent's end; resuming before it is OUT_OF_RANGE", async () => {
  const first = await startServer(options);
  const before = apiOf({ url: first.url, key });
  for (const name of ['old', 'recent']) {
    await before.post('/v1/agent/spawn', { agentId: agent(name), description: '!say done' });
    const comments = [{ path: 'a.ts', body: 'why?' }];
    expectOk(await before.post('/v1/agent/threads/create', { agentId: agent(name), comments }));
    await before.post('/v1/agent/kill', { agentId: agent(name) });
  }
  await first.close();
  const keyId = parseKey(key)?.keyId;
  const { rows: keys } = await database.query('SELECT tenant FROM keys WHERE key_id = $1', [keyId]);
  const tenant = [keys[0]?.tenant];
  const execute = (sql: string) => database.query(sql, tenant);
  await execute(
    'INSERT INTO checkpoints SELECT tenant, id, gen_random_uuid(), 1, true, 1, 4, now() FROM agents WHERE tenant = $1',
  );
  await execute(
    "INSERT INTO checkpoint_parts SELECT tenant, agent, id, 0, 'work' FROM checkpoints WHERE tenant = $1",
  );
  await execute('UPDATE agents SET checkpoint_at = now() WHERE tenant = $1');
  await execute(
    "INSERT INTO diffs SELECT tenant, id, 'repo', false, 'diff of ' || path FROM agents WHERE tenant = $1",
  );
  // One that its message still names, and an upload that no message has named for a day.
  for (const [id, delivered] of [
    ['delivered', 'now()'],
    ['unused', 'NULL'],
  ])
    await execute(
      `INSERT INTO attachments (tenant, agent, id, media_type, bytes, content, used_at, delivered_at)
       SELECT tenant, id, '${id}', 'image/png', 1, 'x', now() - interval '25 hours', ${delivered} FROM agents WHERE tenant = $1`,
    );
  for (const [path, days] of Object.entries({ old: 31, recent: 29 }))
    await execute(
      `UPDATE agents SET ended_at = now() - interval '${days} days' WHERE tenant = $1 AND path = '${path}'`,
    );

  // As if nobody had looked yet: a service deletes what is too old when it starts.
  await database.query("UPDATE maintenance SET lease_until = '-infinity', history_until = '-infinity'");
  const second = await startServer(options);
  const after = apiOf({ url: second.url, key });
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
  // Deleted last.
  await until(
    'the old diff gone',
    () => diffOf('old'),
    (diff) => diff === '',
  );
  expect(await diffOf('recent')).toBe('diff of recent');
  const threadsOf = async (name: string) =>
    expectOk(await after.post<ReplyOf<'threads'>>('/v1/agent/threads', { agentId: agent(name) })).threads;
  expect([await threadsOf('old'), (await threadsOf('recent')).length]).toEqual([[], 1]);
  const checkpointOf = (name: string) => after.post('/v1/agent/checkpoint', { agentId: agent(name) });
  const savedAt = async (name: string) =>
    (await after.post('/v1/agent/status', { agentId: agent(name) })).body.checkpointAt;
  expectError(await checkpointOf('old'), 'NOT_FOUND');
  expect(await savedAt('old')).toBeNull();
  expect(await checkpointOf('recent')).toMatchObject({ status: 200, body: { content: 'd29yaw==' } });
  expect(await savedAt('recent')).not.toBeNull();
  const { rows } = await execute(
    `SELECT a.path FROM checkpoint_parts p JOIN agents a ON a.tenant = p.tenant AND a.id = p.agent
     WHERE p.tenant = $1`,
  );
  expect(rows).toEqual([{ path: 'recent' }]);
  const images = await execute(
    'SELECT a.path, t.id FROM attachments t JOIN agents a ON a.tenant = t.tenant AND a.id = t.agent WHERE t.tenant = $1',
  );
  expect(images.rows).toEqual([{ path: 'recent', id: 'delivered' }]);
  await second.close();
});

test('the results of the newest runs of a live agent are kept; earlier runs stay listed, with an empty response', async () => {
  const runs = limits.runResultsPerAgent + 2;
  const first = await startServer(options);
  const agentId = agent('busy');
  await apiOf({ url: first.url, key }).post('/v1/agent/spawn', { agentId, description: 'work' });
  await first.close();
  await database.query(
    `WITH busy AS (
       UPDATE agents SET run_count = $1, phase = 'PHASE_WAITING_FOR_INPUT', reason = 'RESTING', claimable_at = NULL, queued = 0
       WHERE path = 'busy' RETURNING tenant, id
     )
     INSERT INTO runs (tenant, agent, number, batch, state, outcome, stop, runner_id, runner, started_at, ended_at, gone_at,
       reports, current_action, follow_up_ids, cost, input_tokens, cached_tokens, output_tokens, response, structured_output)
     SELECT tenant, id, n, n, 'ENDED', 'COMPLETED', 'NONE', id, 'runner', now(), now(), now(), 1, '', '{}', 0.5, 1, 1, 1,
       'said ' || n, '{"n": 1}' FROM busy, generate_series(1, $1::int) n`,
    [runs],
  );
  await fillCodeHosts();
  await database.query("UPDATE maintenance SET lease_until = '-infinity'");
  const second = await startServer(options);
  const api = apiOf({ url: second.url, key });
  const run = async (runId: number) =>
    (await api.post<{ runs: unknown[] }>('/v1/agent/runs', { agentId, runId })).body.runs[0];
  const cleared = { outcome: 'COMPLETED', cost: 0.5, response: '', structuredOutput: null, truncated: false };
  await until(
    'the result of the second run gone',
    () => run(2),
    (found) => (found as { response: string }).response === '',
  );
  expect(await run(1)).toMatchObject({ runId: '1', ...cleared });
  expect(await run(2)).toMatchObject({ runId: '2', ...cleared });
  expect(await run(3)).toMatchObject({ response: 'said 3', structuredOutput: { n: 1 } });
  const page = await api.post<{ runs: unknown[]; more: boolean }>('/v1/agent/runs', {
    agentId,
    beforeRunId: 4,
  });
  expect(page.body).toMatchObject({ runs: [{ response: 'said 3' }, cleared, cleared], more: false });
  expect(await api.post('/v1/agent/wait', { agentId, runId: 1 })).toMatchObject({
    status: 200,
    body: { phaseReason: 'RESTING', runCount: String(runs), run: { runId: String(runs) } },
  });
  await until(
    'resolved threads gone',
    () => remaining('threads', 'id'),
    (ids) => ids.length === limits.resolvedThreadsPerAgent + 3,
  );
  // The oldest resolved threads are gone; one that is open, pending or of an open change request is not.
  const threads = await remaining(
    'threads',
    "state || ' ' || answer || ' ' || change_request || ' ' || line",
  );
  expect(threads).toEqual(
    expect.arrayContaining(['OPEN NONE  0', 'RESOLVED PENDING  0', 'RESOLVED ANSWERED open 0']),
  );
  expect(threads).not.toContain('RESOLVED ANSWERED  1');
  expect(threads).toContain(`RESOLVED ANSWERED  ${limits.resolvedThreadsPerAgent + 2}`);
  const deliveries = await remaining('deliveries', 'id');
  expect(deliveries).toHaveLength(limits.deliveriesPerIntegration + 1);
  expect(deliveries).toContain('waiting');
  expect(deliveries).not.toContain('1');
  expect(await remaining('outbox', 'key')).toEqual(['about an open one']);
  await second.close();
});

const remaining = async (table: string, value: string): Promise<string[]> =>
  (await database.query<{ value: string }>(`SELECT ${value} AS value FROM ${table} ORDER BY 1`)).rows.map(
    (row) => row.value,
  );

/** What code hosts leave behind, more of it than is kept. */
async function fillCodeHosts(): Promise<void> {
  const busy = "SELECT tenant, id FROM agents WHERE path = 'busy'";
  const execute = (sql: string) => database.query(sql);
  await execute('DELETE FROM threads');
  await execute(
    `INSERT INTO change_requests (tenant, name, integration, repo, repo_url, number, agent, url, title, state, branch, base,
       head_sha, checks, review, rounds, check_rounds, paused, told, created_at, updated_at, next_at, asked)
     SELECT tenant, state, 'none', 'a/b', '', n, id, '', '', state, '', '', '', '{"state": "NONE", "failing": []}',
       '{"state": "NONE", "openThreads": 0, "resolvedThreads": 0}', 0, 0, false, '{}', now(), now(), NULL, 0
     FROM (${busy}) a, (VALUES ('OPEN', 1), ('MERGED', 2)) AS r (state, n)`,
  );
  await execute('UPDATE change_requests SET name = lower(name)');
  const most = limits.resolvedThreadsPerAgent + 2;
  await execute(
    `INSERT INTO threads (tenant, agent, id, repo, path, line, start_line, side, quote, state, answer, change_request,
       host_id, url, opened_by, told_by, created_at)
     SELECT tenant, a.id, gen_random_uuid(), '', 'a.ts', line, line, 'NEW', '', state, answer, request, '', '', '', '',
       now() - make_interval(mins => 5000 - line)
     FROM (${busy}) a, (
       SELECT 'RESOLVED', 'ANSWERED', '', n FROM generate_series(1, ${most}) n
       UNION ALL VALUES ('OPEN', 'NONE', '', 0), ('RESOLVED', 'PENDING', '', 0), ('RESOLVED', 'ANSWERED', 'open', 0)
     ) AS t (state, answer, request, line)`,
  );
  await execute(`INSERT INTO hooks (tenant, integration, id) SELECT tenant, 'none', 'x' FROM (${busy}) a`);
  await execute(
    `INSERT INTO deliveries (tenant, integration, id, event, state, reason, bytes, attempts, received_at, settled_at, next_at)
     SELECT tenant, 'none', n::text, 'ping', 'IGNORED', '', 1, 1, now() - make_interval(secs => 50000 - n), now(), NULL
     FROM (${busy}) a, generate_series(1, ${limits.deliveriesPerIntegration + 1}) n
     UNION ALL SELECT tenant, 'none', 'waiting', 'ping', 'RECEIVED', '', 1, 1, now() - interval '1 day', NULL,
       now() + interval '1 hour' FROM (${busy}) a`,
  );
  await execute(
    `INSERT INTO outbox (tenant, topic, target, lane, kind, data, key, state, attempts, error, posted_id, created_at,
       settled_at)
     SELECT tenant, 'codehost', 'none', lane, 'comment', '{}', key, 'SENT', 1, '', 'posted-' || lane,
       now() - interval '91 days', now() - interval '91 days'
     FROM (${busy}) a, (VALUES ('open', 'about an open one'), ('merged', 'about a merged one'), ('x', 'about an issue'))
       AS o (lane, key)`,
  );
}

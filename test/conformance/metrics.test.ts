import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { apiOf } from '../support/api.ts';
import { eventually, until } from '../support/async.ts';
import { createKey, writeResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { type Server, startServer } from '../support/server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

let server: Server;
let t: TestTenant;
beforeAll(async () => {
  server = await startServer({ runner: false, env: { MUSTER_LOG: 'info', MUSTER_LEASE_SECONDS: '5' } });
  t = await newTestTenant(apiOf(server));
});
afterAll(() => server?.close());

const metrics = async (): Promise<string> => (await fetch(`${server.url}/metrics`)).text();
const seriesOf = (text: string, series: string): number =>
  Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${series} `))
      ?.split(' ')
      .at(-1) ?? Number.NaN,
  );

const lines = (message: string): Record<string, unknown>[] =>
  server.output
    .join('')
    .split('\n')
    .filter((line) => line.startsWith('{') && line.includes(`"msg":"${message}`))
    .map((line) => JSON.parse(line));

test('runs, what runners observe, rows and lost runners are counted and logged', async () => {
  const { runner } = t;
  await t.spawn('done');
  await t.spawn('waits');
  await t.spawn('later', { tasks: [] });
  const claim = await t.start('done');
  await t.runner.saveCheckpoint(claim, Buffer.from('work'));
  await t.end(claim, 'COMPLETED');
  const observed = [
    { what: 'request', provider: 'anthropic', model: 'claude-opus-5-5', outcome: 'ok', seconds: 3 },
    { what: 'request', provider: 'openai', model: 'a name that an agent chose', outcome: 'key_refused' },
    { what: 'limit', provider: 'openai', seconds: 30, times: 2 },
    { what: 'checkpointFailed' },
  ].map((one, i) => (i === 0 ? { ...one, firstByteSeconds: 1, outputTokens: 7, costUsd: 0.5 } : one));
  expectOk(await runner.poll({ observed, free: { real: 2, rehearsed: 3 } }));
  await until(
    'the run counted',
    metrics,
    (text) => seriesOf(text, 'muster_run_seconds_count{outcome="COMPLETED"}') >= 1,
  );

  const text = await metrics();
  const by = 'provider="anthropic",family="claude-opus"';
  const expected = {
    [`muster_provider_request_seconds_count{${by},outcome="ok"}`]: 1,
    [`muster_provider_first_byte_seconds_sum{${by}}`]: 1,
    [`muster_provider_tokens_total{${by},type="output"}`]: 7,
    [`muster_provider_cost_usd_total{${by}}`]: 0.5,
    'muster_provider_request_seconds_count{provider="openai",family="other",outcome="key_refused"}': 1,
    'muster_provider_limit_wait_seconds_count{provider="openai"}': 2,
    muster_checkpoint_failures_total: 1,
    muster_checkpoints_saved_total: 1,
    muster_checkpoint_bytes_total: 4,
    'muster_outbox_settled_total{state="FAILED"}': 0,
    muster_deliveries_oldest_seconds: 0,
    'muster_run_seconds_count{outcome="LOST"}': 0,
  };
  for (const [series, value] of Object.entries(expected))
    expect([series, seriesOf(text, series)]).toEqual([series, value]);
  for (const series of ['muster_claim_wait_seconds_count', 'muster_disk_free_bytes', 'muster_disk_bytes'])
    expect(seriesOf(text, series)).toBeGreaterThan(0);
  expect(seriesOf(text, 'muster_database_connections{state="idle"}')).toBeGreaterThanOrEqual(0);
  expect(seriesOf(text, 'muster_transaction_seconds_count{outcome="committed"}')).toBeGreaterThan(0);
  expect(text).not.toContain('a name that');

  const [started] = lines('run started');
  expect(started).toMatchObject({ agent: claim.agentKey, run: 1, runner: runner.name });
  expect(lines('run ended')[0]).toMatchObject({ agent: claim.agentKey, run: 1, outcome: 'COMPLETED' });
  expect(lines('runner joined').map((line) => line.runner)).toContain(runner.name);
  // It polls no more, so its lease ends.
  await until('the runner lost', metrics, (now) => seriesOf(now, 'muster_runner_lease_losses_total') === 1);
  expect(lines('runner lost')).toMatchObject([{ runner: runner.name }]);
});

test('rows are counted by phase, pool and state', async () => {
  // A server of its own: rows are counted at most every 15 seconds.
  const other = await startServer({ runner: false });
  try {
    const own = await newTestTenant(apiOf(other));
    await writeResource(apiOf(other), 'pool', own.workspace, { maxRuns: 1 });
    await own.spawn('runs');
    await own.start('runs');
    await own.spawn('waits');
    await own.queue('runs', 'one more');
    const text = await (await fetch(`${other.url}/metrics`)).text();
    const pool = /^muster_agents_claimable\{pool="([^"]+)"\} 1$/m.exec(text)?.[1];
    const expected = {
      'muster_agents{phase="PHASE_RUNNING",reason="WORKING"}': 1,
      'muster_agents{phase="PHASE_PENDING",reason="STARTING"}': 1,
      'muster_messages{state="QUEUED"}': 1,
      [`muster_runners{pool="${pool}",state="ready"}`]: 1,
      [`muster_runner_slots{pool="${pool}",state="used"}`]: 1,
      // As the demand of the pool says.
      [`muster_runners_wanted{pool="${pool}"}`]: 2,
    };
    for (const [series, value] of Object.entries(expected))
      expect([series, seriesOf(text, series)]).toEqual([series, value]);
    expect(seriesOf(text, `muster_agents_claimable_oldest_seconds{pool="${pool}"}`)).toBeGreaterThanOrEqual(
      0,
    );
    expect(text).not.toMatch(/^muster_agents\{.*(org|account|tenant)=/m);
  } finally {
    await other.close();
  }
});

test('a request has an id, in its reply and in its line in the log, with who sent it and about which agent', async () => {
  const api = apiOf(server);
  const body = JSON.stringify({
    agentId: { agent: ['done'], workspace: (await t.status('done')).agentId.workspace },
  });
  const send = (headers: Record<string, string>) =>
    sendRaw(server.url, {
      method: 'POST',
      path: '/v1/agent/status',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}`, ...headers },
      body,
    });
  const id = randomUUID();
  const answered = await send({ 'x-request-id': id, 'x-forwarded-for': '192.0.2.7' });
  expect(answered.headers.get('x-request-id')).toBe(id);
  const line = await until(
    'the line',
    async () => lines('request').find(({ request }) => request === id),
    (found) => found !== undefined,
  );
  expect(line).toMatchObject({
    ...{ method: 'POST', route: '/v1/agent/status', status: 200, client: '127.0.0.1' },
    ...{ forwardedFor: '192.0.2.7', role: 'admin', account: 'admin', agent: 'done' },
    tenant: expect.stringMatching(/^codehost_app\//),
    key: /^mst_([^.]+)\./.exec(server.key)?.[1],
  });
  for (const bad of ['two words', 'x'.repeat(200), server.key, '{"a":1}']) {
    const { headers } = await send({ 'x-request-id': bad });
    expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  }
  expect(api.key).toBe(server.key);
  expect(server.output.join('')).not.toContain(server.key);
});

test('too many observations, or values out of their limits, are refused with the name of the field', async () => {
  const { api } = await createKey(apiOf(server), { role: 'runner', pool: 'default' });
  const runner = new FakeRunner(api);
  const one = { what: 'checkpointFailed' };
  for (const observed of [
    Array.from({ length: 129 }, () => one),
    [{ ...one, times: 21 }],
    [{ what: 'other' }],
  ]) {
    const { status, body } = await runner.poll({ observed });
    expect(status).toBe(400);
    expect(JSON.stringify(body)).toContain('observed');
  }
  await eventually(async () => expectOk(await runner.poll({ observed: [one] })));
});

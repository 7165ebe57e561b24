import { type Tenant, tenantName } from '@muster/sdk/contract';
import pg from 'pg';
import { beforeAll, expect, test } from 'vitest';
import type { Node } from '../crash/node.ts';
import { lookInto } from '../crash/store.ts';
import { Agents } from '../support/agents.ts';
import type { Api } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, postResource } from '../support/catalog.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { serviceSecret } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { dump, exportDatabase, linesOf, muster, musterProcess, Places, publicAddress } from './archives.ts';
import { archive, populate, runnerName, seen } from './contents.ts';

const places = new Places();

const otherSecret = 'the secret of the other installation';
/**
 * Services on databases of their own. The first two have no runner; agents take hours at the third one. The last one does
 * not know the service secret of the others.
 */
let source: Node;
let target: Node;
let withLongTurns: Node;
let withRunner: Node;

beforeAll(async () => {
  const installation = (runner: boolean, env: Record<string, string>) =>
    places.node({ runner, env: { ...publicAddress, ...env } });
  [source, target, withLongTurns, withRunner] = await Promise.all([
    installation(false, {}),
    installation(false, { MUSTER_SECRET: otherSecret, MUSTER_SECRET_PREVIOUS: serviceSecret }),
    installation(true, { MUSTER_REHEARSAL_MS: '3600000' }),
    installation(true, { MUSTER_REHEARSAL_MS: '50', MUSTER_SECRET: otherSecret }),
  ]);
});

const tenantOn = async (node: Node): Promise<{ tenant: Tenant; name: string; admin: Api; operator: Api }> => {
  const operator = await operatorOf({ ...node.server, databaseUrl: await node.databaseUrl() });
  const made = await newTenant(operator);
  return { ...made, name: tenantName(made.tenant), operator };
};

const close = (node: Node, name: string, run = muster) => run(['tenant', 'close', name], node.server.env);
const exportTo = (node: Node, name: string, file: string, run = muster) =>
  run(['export', '--tenant', name, '-f', file], node.server.env);
const importFrom = (node: Node, name: string, file: string, run = muster) =>
  run(['import', '--tenant', name, '-f', file], node.server.env);

/** A run at this installation gets this secret of the tenant. */
async function secretOf(admin: Api, name: string) {
  await postResource(admin, 'environment', 'default', { variables: { TOKEN: { fromSecret: name } } });
  const tenant = await newTestTenant(admin);
  await tenant.spawn('with-secret');
  return (await tenant.claim('with-secret')).secrets;
}

const closed = { status: 400, body: { code: 9, message: expect.stringContaining('the tenant is closed') } };
/** A runner that takes nothing, so that a waiting agent has the same reason everywhere. */
const busy = { free: { real: 0, rehearsed: 0 } };

test('a tenant moves with everything it has, while both services serve others', async () => {
  const { tenant, name, admin, operator } = await tenantOn(source);
  const keys = await populate(admin);
  const operatorToo = await createKey(
    operator,
    { role: 'operator', ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account: 'root' },
    { ref: { tenant }, justification: 'support' },
  );
  const neighbour = new Agents(target.api, 'default');
  await neighbour.spawn('worked');

  expect(await close(source, name, musterProcess)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`${name} is closed`),
  });
  const s = new Agents(admin, 'default');
  expect(await s.send('agent/spawn', 'late', { description: 'x' })).toMatchObject(closed);
  expect(await s.send('agent/queue', 'worked', { description: 'late' })).toMatchObject(closed);
  expect(await s.send('agent/kill', 'waits')).toMatchObject(closed);
  expect(await postResource(admin, 'persona', 'late', { model: 'gpt-5.5' })).toMatchObject(closed);
  const runner = new FakeRunner(source.api.as(keys.runner), runnerName);
  expect((await runner.poll()).body.claims).toEqual([]);
  await runner.poll(busy);
  await new Agents(source.api, 'default').spawn('of-another-tenant');
  const before = await seen(admin);

  const file = places.path('tenant.gz');
  expect(await exportTo(source, name, file, musterProcess)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('exported 6 agents, '),
  });
  const others = await dump(await target.databaseUrl());
  expect(await importFrom(target, name, file, musterProcess)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('imported 6 agents, '),
  });
  const now = new Set(await dump(await target.databaseUrl()));
  expect(others.filter((row) => !now.has(row))).toEqual([]);

  const there = target.api.as(admin.key);
  const moved = new FakeRunner(there.as(keys.runner), runnerName);
  await moved.poll(busy);
  expect(await seen(there)).toEqual(before);
  expect((await there.get('/v1/whoami')).body).toMatchObject({ tenant, role: 'admin' });
  expect((await there.as(keys.member).get('/v1/whoami')).body).toMatchObject({ account: 'ada' });
  expect((await there.as(keys.shared).get('/v1/whoami')).status).toBe(200);
  expect((await there.as(operatorToo.key).get('/v1/whoami')).status, "another installation's operator").toBe(
    401,
  );

  const a = new Agents(there, 'default');
  const again = { description: 'next', followUpId: 'follow-1' };
  expect((await a.send('agent/queue', 'waits', again)).status).toBe(200);
  expect((await a.send('agent/queue', 'waits', { ...again, description: 'other' })).status).toBe(409);
  const once = { agentId: a.id('once'), description: 'x' };
  expect((await there.post('/v1/agent/spawn', once, { 'idempotency-key': 'k1' })).status).toBe(200);
  await a.kill('waits');
  await a.kill('once');
  await a.queue('worked', 'go on');
  const run = await moved.claim();
  expect(run).toMatchObject({ runId: 2, agentId: { agent: ['worked'], tenant } });
  expect((await moved.loadCheckpoint(run))?.equals(archive)).toBe(true);
  expect((await runner.poll()).body.claims, 'nothing runs twice').toEqual([]);
  expect(await importFrom(target, name, file)).toMatchObject({
    code: 1,
    stderr: `muster: The tenant ${name} exists in this database already.\n`,
  });
  expect(await lookInto(await target.databaseUrl(), (store) => store.violations())).toEqual([]);
});

test('a run ends before its tenant is exported, and its agent continues at the other installation', async () => {
  const { name, admin } = await tenantOn(withLongTurns);
  const s = new Agents(admin, 'default');
  await s.spawn('a', { description: 'a long turn' });
  await until(
    'the run is working',
    () => s.phase('a'),
    (phase) => phase === 'RUNNING/WORKING',
  );
  const file = places.path('run.gz');
  expect(await close(withLongTurns, name)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('1 run has not ended'),
  });
  expect(await exportTo(withLongTurns, name, file)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`1 run of ${name} has not ended`),
  });
  await s.queue('a', '!say continued');
  await s.stop('a', 1);
  await until(
    'the run has ended',
    () => s.phase('a'),
    (phase) => phase.startsWith('PENDING/'),
  );
  // The closed tenant's agent waits first, and hides no other.
  const other = new Agents(withLongTurns.api, 'default');
  await other.spawn('b', { description: '!say done' });
  expect(await other.wait('b')).toMatchObject({ response: 'done' });
  expect(await exportTo(withLongTurns, name, file)).toMatchObject({ code: 0 });

  expect(await importFrom(withRunner, name, file)).toMatchObject({ code: 0 });
  const there = new Agents(withRunner.api.as(admin.key), 'default');
  expect(await there.wait('a')).toMatchObject({ response: 'continued', runCount: '2' });
  expect((await there.runs('a')).map(({ outcome }) => outcome)).toEqual(['COMPLETED', 'INTERRUPTED']);
  expect(await s.status('a')).toMatchObject({ phase: 'PHASE_PENDING', runCount: '1' });
});

test('a tenant that is opened again continues', async () => {
  const { name, admin } = await tenantOn(withRunner);
  const s = new Agents(admin, 'default');
  await s.spawn('a', { description: '!say first' });
  await s.wait('a');
  await close(withRunner, name);
  expect(await s.send('agent/queue', 'a', { description: '!say second' })).toMatchObject(closed);
  expect(await muster(['tenant', 'open', name], withRunner.server.env)).toMatchObject({ code: 0 });
  await s.queue('a', '!say second');
  await until(
    'the second run has ended',
    () => s.status('a'),
    ({ response }) => response === 'second',
  );
});

test('everything that was acknowledged before the tenant closed is in its archive', async () => {
  const { tenant, name, admin } = await tenantOn(source);
  const s = new Agents(admin, 'default');
  const acknowledged: string[] = [];
  const writers = ['a', 'b', 'c', 'd'].map(async (path) => {
    await s.spawn(path);
    for (let n = 1; ; n += 1) {
      const followUpId = `${path}-${n}`;
      const { status } =
        n % 500 === 0
          ? await s.send('agent/clear-follow-ups', path)
          : await s.send('agent/queue', path, { description: 'x', followUpId });
      if (status !== 200) return status;
      if (n % 500 !== 0) acknowledged.push(followUpId);
    }
  });
  await until(
    'messages',
    async () => acknowledged.length,
    (length) => length > 50,
  );
  expect(await close(source, name)).toMatchObject({ code: 0 });
  const url = await source.databaseUrl();
  // A command that began before the tenant was closed, and is slow.
  const slow = new pg.Client({ connectionString: url });
  await slow.connect();
  await slow.query('BEGIN');
  const exporting = exportDatabase(url, places.path('load.gz'), tenant);
  await lookInto(url, (store) =>
    until(
      'the export waits',
      () =>
        store.count(
          "SELECT FROM pg_stat_activity WHERE application_name = 'muster-export' AND query LIKE '%xact_start%'",
        ),
      (waiting) => waiting > 0,
    ),
  );
  await slow.query(
    `INSERT INTO follow_ups (tenant, agent, id, state, position, sequence, description, tasks, queued_at, digest)
     SELECT tenant, id, 'slow', 'REMOVED', 0, 1, '', '[]', now(), '' FROM agents WHERE path = 'a'`,
  );
  await slow.query('COMMIT');
  await slow.end();
  const lines = new Set(
    linesOf(await exporting).flatMap((line) => (line.startsWith('[') ? JSON.parse(line) : [])),
  );
  expect(await Promise.all(writers)).toEqual([400, 400, 400, 400]);
  expect([...acknowledged, 'slow'].filter((id) => !lines.has(id))).toEqual([]);
});

test('the values of secrets move too, to an installation that knows the service secret of the other one', async () => {
  const { tenant, name, admin } = await tenantOn(source);
  await postResource(admin, 'secret', 'npm', { value: 'a value that moves' });
  await postResource(admin, 'integration', 'hooks', { type: 'codehost' });
  const file = places.path('secrets.gz');
  await close(source, name);
  await exportTo(source, name, file);
  for (const [node, secret, works] of [
    [target, { value: 'a value that moves', problem: '' }, true],
    [withRunner, { value: '', problem: expect.stringContaining('sealed with a service secret') }, false],
  ] as const) {
    expect(await importFrom(node, name, file)).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('set MUSTER_SECRET_PREVIOUS here'),
    });
    const there = node.api.as(admin.key);
    expect(await secretOf(there, 'npm')).toMatchObject([{ name: 'npm', ...secret }]);
    expect((await there.get('/v1/service')).body).toMatchObject({
      outdatedSecrets: [
        { tenant, kind: 'integration', name: 'hooks', works },
        { tenant, kind: 'secret', name: 'npm', works },
      ],
    });
  }
});

import { type Tenant, tenantName } from '@muster/sdk/contract';
import pg from 'pg';
import { expect, test } from 'vitest';
import type { Node } from '../crash/node.ts';
import { lookInto } from '../crash/store.ts';
import { Agents } from '../support/agents.ts';
import type { Api } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, postResource } from '../support/catalog.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { dump, exportDatabase, linesOf, muster, Places } from './archives.ts';
import { archive, populate, runnerName, seen } from './contents.ts';

const places = new Places();

/** A service on a database of its own. */
async function installation(options: { runner?: boolean; turnMs?: number } = {}): Promise<Node> {
  const { runner = false, turnMs = 50 } = options;
  return places.node({
    databaseUrl: await places.database(),
    runner,
    env: { MUSTER_REHEARSAL_MS: String(turnMs) },
  });
}

const tenantOn = async (node: Node): Promise<{ tenant: Tenant; name: string; admin: Api; operator: Api }> => {
  const operator = await operatorOf({ ...node.server, databaseUrl: await node.databaseUrl() });
  const made = await newTenant(operator);
  return { ...made, name: tenantName(made.tenant), operator };
};

const close = (node: Node, name: string) => muster(['tenant', 'close', name], node.server.env);
const exportTo = (node: Node, name: string, file: string) =>
  muster(['export', '--tenant', name, '-f', file], node.server.env);
const importFrom = (node: Node, name: string, file: string) =>
  muster(['import', '--tenant', name, '-f', file], node.server.env);

const closed = { status: 400, body: { code: 9, message: expect.stringContaining('the tenant is closed') } };
/** A runner that takes nothing, so that a waiting agent has the same reason everywhere. */
const busy = { free: { real: 0, rehearsed: 0 } };

test('a tenant moves with everything it has, while both services serve others', async () => {
  const [source, target] = await Promise.all([installation(), installation()]);
  const { tenant, name, admin, operator } = await tenantOn(source);
  const keys = await populate(admin);
  const operatorToo = await createKey(
    operator,
    { role: 'operator', ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account: 'root' },
    { ref: { tenant }, justification: 'support' },
  );
  const neighbour = new Agents(target.api, 'default');
  await neighbour.spawn('worked');

  expect(await close(source, name)).toMatchObject({
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
  expect(await exportTo(source, name, file)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('exported 6 agents, '),
  });
  const others = await dump(await target.databaseUrl());
  expect(await importFrom(target, name, file)).toMatchObject({
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
  const [source, target] = await Promise.all([
    installation({ runner: true, turnMs: 3_600_000 }),
    installation({ runner: true }),
  ]);
  const { name, admin } = await tenantOn(source);
  const s = new Agents(admin, 'default');
  await s.spawn('a', { description: 'a long turn' });
  await until(
    'the run is working',
    () => s.phase('a'),
    (phase) => phase === 'RUNNING/WORKING',
  );
  const file = places.path('run.gz');
  expect(await close(source, name)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('1 run has not ended'),
  });
  expect(await exportTo(source, name, file)).toMatchObject({
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
  const other = new Agents(source.api, 'default');
  await other.spawn('b', { description: '!say done' });
  expect(await other.wait('b')).toMatchObject({ response: 'done' });
  expect(await exportTo(source, name, file)).toMatchObject({ code: 0 });

  expect(await importFrom(target, name, file)).toMatchObject({ code: 0 });
  const there = new Agents(target.api.as(admin.key), 'default');
  expect(await there.wait('a')).toMatchObject({ response: 'continued', runCount: '2' });
  expect((await there.runs('a')).map(({ outcome }) => outcome)).toEqual(['COMPLETED', 'INTERRUPTED']);
  expect(await s.status('a')).toMatchObject({ phase: 'PHASE_PENDING', runCount: '1' });
});

test('a tenant that is opened again continues', async () => {
  const node = await installation({ runner: true });
  const { name, admin } = await tenantOn(node);
  const s = new Agents(admin, 'default');
  await s.spawn('a', { description: '!say first' });
  await s.wait('a');
  await close(node, name);
  expect(await s.send('agent/queue', 'a', { description: '!say second' })).toMatchObject(closed);
  expect(await muster(['tenant', 'open', name], node.server.env)).toMatchObject({ code: 0 });
  await s.queue('a', '!say second');
  await until(
    'the second run has ended',
    () => s.status('a'),
    ({ response }) => response === 'second',
  );
});

test('everything that was acknowledged before the tenant closed is in its archive', async () => {
  const source = await installation();
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

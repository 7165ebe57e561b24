import { statSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { Node } from '../crash/node.ts';
import { Agents } from '../support/agents.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { dump, musterProcess, Places, publicAddress } from './archives.ts';
import { archive, populate, runnerName, seen, type TenantKeys } from './contents.ts';

const places = new Places();
let home: Node;
let keys: TenantKeys;

beforeAll(async () => {
  home = await places.node({ embedded: true, runner: false, env: publicAddress });
  keys = await populate(home.api);
});

test('everything moves from the embedded database to another server and back, while the service runs', async () => {
  const before = await seen(home.api);
  const file = places.path('from-embedded.gz');
  const exported = await musterProcess(['export', '-f', file], home.server.env);
  expect(exported).toMatchObject({ code: 0, stderr: '' });
  expect(exported.stdout).toContain('exported 6 agents, ');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(await musterProcess(['import', '-f', file], home.server.env)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^muster: The folder .* is in use by process \d+; stop it first/),
  });

  const url = await places.database();
  const imported = await musterProcess(['import', '-f', file], places.env(url));
  expect(imported).toMatchObject({ code: 0, stdout: expect.stringContaining('imported 6 agents, ') });
  expect(imported.stderr).toContain(
    'set MUSTER_SECRET to the secret of the old service, or copy its file "secret"',
  );
  const rows = await dump(url);
  expect(rows).toEqual(await dump(await home.databaseUrl()));

  const withoutSecret = { databaseUrl: url, runner: false, env: { MUSTER_SECRET: 'x'.repeat(32) } };
  await expect(places.node(withoutSecret)).rejects.toThrow('MUSTER_SECRET has another service secret');
  const own = await places.node({ databaseUrl: url, runner: false, env: publicAddress });
  expect((await own.api.get('/v1/whoami')).status, 'no first key is made').toBe(401);
  expect(await seen(own.api.as(home.key))).toEqual(before);

  const back = new Node({ embedded: true, runner: false, env: publicAddress });
  const second = places.path('from-own.gz');
  expect(await musterProcess(['export', '-f', second], own.server.env)).toMatchObject({ code: 0 });
  const env = { ...home.server.env, MUSTER_DATA: back.folder };
  expect(await musterProcess(['import', '-f', second], env)).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('make sure that MUSTER_SECRET is the secret of the old service'),
  });
  places.closeAfterwards(back);
  await back.start();
  expect(await dump(await back.databaseUrl())).toEqual(rows);
  const api = back.api.as(home.key);
  expect(await seen(api)).toEqual(before);

  expect((await api.as(keys.member).get('/v1/whoami')).body).toMatchObject({ account: 'ada' });
  expect((await api.as(keys.shared).get('/v1/whoami')).status).toBe(200);
  const s = new Agents(api, 'default');
  expect(
    (
      await api.post(
        '/v1/agent/spawn',
        { agentId: s.id('once'), description: 'x' },
        { 'idempotency-key': 'k1' },
      )
    ).status,
    'a kept reply',
  ).toBe(200);
  await s.kill('waits');
  await s.kill('once');
  await s.queue('worked', 'go on');
  const runner = new FakeRunner(api.as(keys.runner), runnerName);
  const run = await runner.claim();
  expect(run.runId).toBe(2);
  expect((await runner.loadCheckpoint(run))?.equals(archive)).toBe(true);
});

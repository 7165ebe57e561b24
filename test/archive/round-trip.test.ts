import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { Node } from '../crash/node.ts';
import { Agents, inAnHour } from '../support/agents.ts';
import type { Api } from '../support/api.ts';
import { createKey, createShareLink, postResource, readResource } from '../support/catalog.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { dump, muster, Places } from './archives.ts';

const places = new Places();
const archive = randomBytes(1_300_000);
const keys = { member: '', runner: '', shared: '' };
const runnerName = 'where-they-live';
let home: Node;

beforeAll(async () => {
  home = await places.node({ embedded: true, runner: false });
  await populate(home.api);
});

async function populate(api: Api): Promise<void> {
  for (const model of ['claude-opus-4-8', 'gpt-5.5']) {
    await postResource(api, 'persona', 'careful', { model, instructions: 'mind the “gap”\n' });
  }
  await postResource(api, 'persona', 'gone', { model: 'gpt-5.5' });
  await api.del('/v1/catalog/persona/gone');
  await postResource(api, 'integration', 'hooks', { type: 'codehost' });
  keys.member = (await createKey(api, { role: 'member', account: 'ada' })).key;

  const s = new Agents(api, 'default');
  keys.runner = (await createKey(api, { role: 'runner', pool: 'default' })).key;
  const runner = new FakeRunner(api.as(keys.runner), runnerName);
  await s.spawn('worked', { tasks: [{ subject: 'one' }, { subject: 'two' }] });
  const run = await runner.claim();
  await runner.report(run, {
    started: true,
    items: [{ type: 'MESSAGE', text: 'line\nline \u2028 🙂' }],
    usage: { costUsd: 0.1, inputTokens: 7 },
    diff: { repo: 'https://git.example/a.git', files: 1, insertions: 2, deletions: 3, text: '+ a\n- b\n' },
  });
  await runner.report(run, { unpushed: { commits: 1, files: 2, isSaved: true } });
  await runner.saveCheckpoint(run, archive);
  await runner.end(run, 'COMPLETED', { response: 'done' });
  await s.spawn('ended');
  await runner.end(await runner.claim());
  await s.kill('ended');
  await s.queue('worked', { description: 'later', deliverAt: inAnHour() });
  await s.spawn('waits');
  await s.spawn('waits/child');
  await s.spawn('waits/child/grandchild');
  await s.queue('waits', { description: 'next', followUpId: 'follow-1' });
  await api.post('/v1/agent/spawn', { agentId: s.id('once'), description: 'x' }, { 'idempotency-key': 'k1' });
  keys.shared = (await createShareLink(api, s.id('worked'))).api.key;
}

/** What a caller can see of it, in one value. */
async function seen(api: Api): Promise<unknown> {
  const s = new Agents(api, 'default');
  const agents: Record<string, unknown> = {};
  for (const path of ['worked', 'ended', 'waits', 'waits/child', 'waits/child/grandchild', 'once']) {
    const { dashboardUrl: _, ...status } = await s.status(path);
    const rest = [await s.timeline(path), await s.runs(path), await s.tasks(path)];
    agents[path] = [status, ...rest, (await s.send('agent/diff', path)).body];
  }
  const catalog = await Promise.all([
    readResource(api, 'persona', 'careful'),
    readResource(api, 'integration', 'hooks'),
    api.get('/v1/catalog/persona/careful/history'),
    api.get('/v1/catalog/persona/gone/history'),
  ]);
  return {
    agents,
    queue: (await s.send('agent/queue/list', 'waits')).body,
    catalog: catalog.map((c) => c.body),
  };
}

test('everything moves from the embedded database to another server and back, while the service runs', async () => {
  const before = await seen(home.api);
  const file = places.path('from-embedded.gz');
  const exported = await muster(['export', '-f', file], home.server.env);
  expect(exported).toMatchObject({ code: 0, stderr: '' });
  expect(exported.stdout).toContain('exported 6 agents, ');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(await muster(['import', '-f', file], home.server.env)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^muster: The folder .* is in use by process \d+; stop it first/),
  });

  const url = await places.database();
  const imported = await muster(['import', '-f', file], places.env(url));
  expect(imported).toMatchObject({ code: 0, stdout: expect.stringContaining('imported 6 agents, ') });
  expect(imported.stderr).toContain(
    'set MUSTER_SECRET to the secret of the old service, or copy its file "secret"',
  );
  const rows = await dump(url);
  expect(rows).toEqual(await dump(await home.databaseUrl()));

  const own = await places.node({ databaseUrl: url, runner: false });
  expect((await own.api.get('/v1/whoami')).status, 'no first key is made').toBe(401);
  expect(await seen(own.api.as(home.key))).toEqual(before);

  const back = new Node({ embedded: true, runner: false });
  const second = places.path('from-own.gz');
  expect(await muster(['export', '-f', second], own.server.env)).toMatchObject({ code: 0 });
  const env = { ...home.server.env, MUSTER_DATA: back.folder };
  expect(await muster(['import', '-f', second], env)).toMatchObject({
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

import { randomUUID } from 'node:crypto';
import type { AgentEntry, Claim } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, createShareLink, uniqueName, writeResource } from '../support/catalog.ts';
import { expectError, expectOk, expectRunFenced } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { sharedServer, useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

const runnerIn = async (maker: Api, pool: string, name?: string): Promise<FakeRunner> =>
  new FakeRunner((await createKey(maker, { role: 'runner', pool })).api, name);

/** The next run of the agent, claimed and started by this runner. */
async function startOn(runner: FakeRunner, overrides = {}): Promise<Claim> {
  const claim = await runner.claim(overrides);
  await runner.started(claim);
  return claim;
}

const leave = (runner: FakeRunner) => runner.poll({ leaving: true });

describe('a claim', () => {
  test('says since which run the agent has been on this runner, across a move and back', async () => {
    const t = await newTestTenant(api);
    const here = t.runner;
    const there = await runnerIn(api, t.workspace);
    await t.spawn('a');
    const first = await startOn(here);
    await here.end(first);
    await t.queue('a', 'again');
    const second = await startOn(here);
    await here.end(second);
    await leave(here);
    await t.queue('a', 'elsewhere');
    const third = await startOn(there);
    await there.end(third);
    await leave(there);
    await t.queue('a', 'and back');
    const back = await runnerIn(api, t.workspace, here.name);
    const fourth = await startOn(back);
    expect([first, second, third, fourth].map(({ runId, homeSince }) => [runId, homeSince])).toEqual([
      [1, 1],
      [2, 1],
      [3, 3],
      [4, 4],
    ]);
  });

  test('that was lost on the way is given again, with the same home', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const { homeSince } = await t.runner.claim();
    const { body } = await t.runner.poll({ runs: [] });
    expect(body.claims).toMatchObject([{ runId: 1, homeSince }]);
  });

  test("has the agent's own branch and those of its parents, nearest first", async () => {
    const t = await newTestTenant(api);
    await t.spawn('root');
    const root = await t.start('root');
    await t.spawn('root/kid');
    const kid = await t.start('root/kid');
    await t.spawn('root/kid/leaf');
    const leaf = await t.start('root/kid/leaf');
    const branch = (path: string, { agentKey }: Claim) => `muster/${path}-${agentKey.slice(-6)}`;
    expect(root).toMatchObject({ branch: branch('root', root), startFrom: [] });
    expect(kid).toMatchObject({ branch: branch('root-kid', kid), startFrom: [root.branch] });
    expect(leaf).toMatchObject({
      branch: branch('root-kid-leaf', leaf),
      startFrom: [kid.branch, root.branch],
    });
  });

  test('of a new agent with an old name has another branch', async () => {
    const t = await newTestTenant(api);
    const first = await t.rested('a', {}, { finished: true });
    const second = await t.rested('a');
    expect(second.branch).not.toBe(first.branch);
  });

  test('has the environment of its workspace and the vm-profile of its pool', async () => {
    const name = uniqueName('small');
    await writeResource(api, 'vm-profile', name, { cpus: 2, memoryMb: 512, processes: 64 });
    await writeResource(api, 'environment', name, { variables: { A: 'b' } });
    const t = await newTestTenant(api, { vmProfile: name }, { environment: name });
    await t.spawn('a');
    const { workspace } = await t.claim('a');
    expect(workspace).toMatchObject({
      environment: { variables: { A: 'b' } },
      vmProfile: { cpus: 2, memoryMb: 512, processes: 64 },
    });
  });

  test('has the default vm-profile when the pool names none', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expect((await t.claim('a')).workspace.vmProfile).toEqual({ name: 'default' });
  });
});

describe('which runner gets a run', () => {
  test('a runner that names another pool than its key is refused, with both pools named', async () => {
    const t = await newTestTenant(api);
    const answer = await t.runner.poll({ pool: 'elsewhere' });
    expectError(answer, 'PERMISSION_DENIED');
    const { message } = answer.body as unknown as { message: string };
    expect(message).toContain('elsewhere');
    expect(message).toContain(t.workspace);
    expect((await t.runner.poll({ pool: t.workspace })).status).toBe(200);
  });

  const real = { rehearses: false, free: { real: 8, rehearsed: 8 } };

  test('a run goes only to a runner with its backend; NO_RUNNER says that no runner has it', async () => {
    const t = await newTestTenant(api);
    await t.spawn('b', { model: 'gpt-5' });
    const onlyA = { ...real, backends: ['BACKEND_A'] };
    expect(await t.offered(onlyA)).toEqual([]);
    expect(await t.phase('b')).toBe('PENDING/NO_RUNNER');
    await t.spawn('a', { model: 'opus' });
    expect(await t.offered(onlyA)).toEqual(['a']);
    expect(await t.offered({ ...real, backends: ['BACKEND_B'] })).toEqual(['b']);
    expect(await t.status('b')).toMatchObject({ backend: 'BACKEND_B', rehearsed: false });
  });

  test('an agent whose runner has no sandbox says so in its status and in lists', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expect(await t.status('a')).toMatchObject({ sandboxed: true });
    await t.end(await t.claim('a', { capabilities: ['deferral'] }));
    expect(await t.status('a')).toMatchObject({ sandboxed: false });
    const { entries } = expectOk(
      await api.post<{ entries: AgentEntry[] }>('/v1/agents', { workspace: t.workspace, account: '*' }),
    );
    expect(entries.map(({ sandboxed }) => sandboxed)).toEqual([false]);
    await t.queue('a', 'Again');
    await t.end(await t.claim('a', { capabilities: ['deferral', 'sandbox'] }));
    expect(await t.status('a')).toMatchObject({ sandboxed: true });
  });

  test('a runner without any backend gets only rehearsed runs', async () => {
    const t = await newTestTenant(api);
    await t.spawn('real', { model: 'opus' });
    await t.spawn('played', { model: 'rehearsal-b' });
    expect(await t.offered({ ...real, backends: [] })).toEqual(['played']);
    expect(await t.phase('real')).toBe('PENDING/NO_RUNNER');
  });

  test('an agent moves away from a runner that lost its backend', async () => {
    const t = await newTestTenant(api);
    await t.spawn('b', { model: 'gpt-5' });
    const both = { ...real, backends: ['BACKEND_A', 'BACKEND_B'] };
    const first = await startOn(t.runner, both);
    await t.runner.end(first);
    await t.queue('b', 'again');
    await t.runner.poll({ ...real, backends: ['BACKEND_A'] });
    expect(await t.phase('b')).toBe('PENDING/NO_RUNNER');
    const other = await runnerIn(api, t.workspace);
    expect(await startOn(other, both)).toMatchObject({ runId: 2, homeSince: 2 });
  });
});

describe('a diff', () => {
  const diff = (repo: string, text: string, [files, insertions, deletions]: number[]) => ({
    diff: { repo, files, insertions, deletions, text },
  });

  test('has its counts in the status and its text in the diff; the last report wins', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    expect(await t.status('a')).toMatchObject({ branch: '', diffStat: null });
    await t.report(run, diff('https://git.example/a.git', 'first', [1, 2, 3]));
    await t.report(run, {
      pushes: [{ repo: 'https://git.example/a.git', ref: run.branch, commits: ['c1'], files: ['x'] }],
      ...diff('https://git.example/a.git', 'second', [4, 5, 6]),
    });
    await t.end(run);
    const diffStat = { files: 4, insertions: 5, deletions: 6 };
    expect(await t.status('a')).toMatchObject({ branch: run.branch, diffStat });
    const { body } = await t.send('agent/diff', 'a');
    expect(body).toEqual({ branch: run.branch, diffStat, diff: 'second', workingTree: null });
    await t.kill('a');
    expect((await t.send('agent/diff', 'a')).body).toEqual(body);
  });

  test('has as much context as one asks for, of what is stored', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const same = (from: number) => Array.from({ length: 6 }, (_, at) => ` ${from + at}`);
    const hunk = (...lines: string[]) => lines.join('\n');
    const text = hunk('--- a/x', '+++ b/x', '@@ -1,12 +1,13 @@', ...same(1), '+new', ...same(7));
    await t.report(run, diff('https://git.example/a.git', text, [1, 1, 0]));
    const diffOf = async (more: { context?: number }) =>
      (await t.send<{ diff: string }>('agent/diff', 'a', more)).body.diff;
    expect(await diffOf({ context: 100 })).toBe(text);
    const three = hunk('--- a/x', '+++ b/x', '@@ -4,6 +4,7 @@', ' 4', ' 5', ' 6', '+new', ' 7', ' 8', ' 9');
    expect(await diffOf({})).toBe(three);
    expect(await diffOf({ context: 0 })).toBe(hunk('--- a/x', '+++ b/x', '@@ -6,0 +7 @@', '+new'));
    const { body } = await t.send('agent/diff', 'a', { context: 101 });
    expect(JSON.stringify(body)).toMatch(/context.*from 0 to 100/);
  });

  test('of several repositories adds the counts, and names the repository above each diff', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.report(run, diff('https://git.example/b.git', 'diff of b', [1, 10, 100]));
    await t.report(run, diff('https://git.example/a.git', 'diff of a', [2, 20, 200]));
    expect((await t.send('agent/diff', 'a')).body).toEqual({
      branch: '',
      diffStat: { files: 3, insertions: 30, deletions: 300 },
      diff: '# https://git.example/a.git\ndiff of a\n# https://git.example/b.git\ndiff of b',
      workingTree: null,
    });
  });

  test('of a repeated report changes nothing, and of a fenced report is refused', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.report(run, diff('r', 'kept', [1, 1, 1]));
    expect((await t.runner.report(run, diff('r', 'repeated', [2, 2, 2]), 2)).status).toBe(200);
    await t.end(run);
    expectRunFenced(await t.runner.report(run, diff('r', 'late', [3, 3, 3]), 9));
    expect((await t.send('agent/diff', 'a')).body).toMatchObject({ diff: 'kept', diffStat: { files: 1 } });
  });

  test('with a repository name that cannot be indexed is refused', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const answer = await t.runner.report(run, diff('ü'.repeat(2048), '', [0, 0, 0]));
    expectError(answer, 'INVALID_ARGUMENT', 'diff.repo');
  });

  test('a push names its repository in the timeline', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const push = { ref: run.branch, commits: ['c1'], files: ['x'] };
    await t.report(run, { pushes: [{ repo: 'https://git.example/a.git', ...push }, push] });
    expect((await t.timeline('a', 'PUSH')).map(({ data }) => data)).toEqual([
      { repo: 'https://git.example/a.git', ...push },
      { repo: '', ...push },
    ]);
  });

  test('a share link keeps showing its own agent when a new agent takes the name', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const first = await t.start('a');
    await t.report(first, diff('r', 'shared', [1, 1, 1]));
    await t.end(first, 'COMPLETED', { finished: true });
    const { api: visitor } = await createShareLink(api, t.id('a'));
    await t.spawn('a');
    const second = await t.start('a');
    await t.report(second, diff('r', 'private', [1, 1, 1]));
    const shown = async (route: string) => JSON.stringify((await visitor.post(`/v1/agent/${route}`)).body);
    expect(await shown('diff')).toContain('shared');
    expect(await shown('runs')).toContain('COMPLETED');
    expect(await shown('timeline')).toContain('FINISHED');
  });
});

test('a report may ask for a reply without the checklist', async () => {
  const t = await newTestTenant(api);
  await t.spawn('a');
  const run = await t.start('a');
  await t.send('agent/tasks/create', 'a', { tasks: [{ id: 't', subject: 'do' }] });
  expect(await t.report(run, {})).toMatchObject({ tasks: [{ id: 't' }], activeTaskIds: ['t'] });
  expect(await t.report(run, { omitTasks: true })).toMatchObject({ tasks: [], activeTaskIds: ['t'] });
});

test.each([
  ['report', { report: 2 ** 31 }],
  ['usage.inputTokens', { report: 2, usage: { inputTokens: Number.MAX_SAFE_INTEGER } }],
])('a report whose %s is too large for the database is refused', async (field, fields) => {
  const t = await newTestTenant(api);
  await t.spawn('a');
  const run = await t.start('a');
  expectError(await t.runner.report(run, fields), 'INVALID_ARGUMENT', field);
  expect((await t.status('a')).run?.state).toBe('RUNNING');
});

describe('ended agents', () => {
  test('are listed; unknown agents are not', async () => {
    const t = await newTestTenant(api);
    const paths = ['works', 'rests', 'finished', 'failed', 'killed'];
    const keys = new Map<string, string>();
    for (const path of paths) {
      await t.spawn(path);
      keys.set(path, (await t.start(path)).agentKey);
    }
    const end = (path: string, outcome: string, more = {}) =>
      t.end({ agentKey: keys.get(path) ?? '', runId: 1 } as Claim, outcome, more);
    await end('rests', 'COMPLETED');
    await end('finished', 'COMPLETED', { finished: true });
    await end('failed', 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'x' } });
    await t.kill('killed');
    const stranger = randomUUID();
    const { status, body } = await t.runner.ended([...keys.values(), stranger]);
    expect(status).toBe(200);
    const named = body.ended.map((key) => paths.find((path) => keys.get(path) === key) ?? key);
    expect(named.sort()).toEqual(['failed', 'finished', 'killed']);
    expect((await t.runner.ended([])).body).toEqual({ ended: [] });
  });
});

describe('other tenants', () => {
  test('a runner of one tenant learns nothing about the agents of another', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const { admin } = await newTenant(server.operator);
    const stranger = await runnerIn(admin, 'default');
    const posing = new FakeRunner(
      (await createKey(admin, { role: 'runner' })).api,
      t.runner.name,
      t.runner.runnerId,
    );
    expect((await stranger.poll({ free: { real: 0, rehearsed: 0 } })).status).toBe(200);
    expectError(await posing.ended([run.agentKey]), 'PERMISSION_DENIED');
    await t.kill('a');
    expect((await stranger.ended([run.agentKey])).body).toEqual({ ended: [] });
    expect((await t.runner.ended([run.agentKey])).body).toEqual({ ended: [run.agentKey] });
  });
});

test('the runner of the service itself serves every tenant', async () => {
  for (const tenant of [await sharedServer(), await sharedServer()]) {
    const admin = apiOf(tenant);
    await admin.post('/v1/agent/spawn', {
      agentId: { agent: ['a'] },
      description: '!write a.txt a\n!push\n!finish done',
      model: 'rehearsal-a',
    });
    const done = await until(
      'the end',
      () => admin.post<{ phase: string; branch: string }>('/v1/agent/status', { agentId: { agent: ['a'] } }),
      ({ body }) => body.phase === 'PHASE_COMPLETED',
    );
    expect(done.body.branch).toMatch(/^muster\/a-[0-9a-f]{6}$/);
  }
});

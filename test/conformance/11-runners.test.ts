import { randomUUID } from 'node:crypto';
import type { AgentEntry, Claim } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectOk } from '../support/answers.ts';
import { type Api, apiOf, until } from '../support/api.ts';
import { keyFor, shareLinkOf, unique } from '../support/catalog.ts';
import { expectFenced, expectRefusal } from '../support/refusal.ts';
import { writeResource } from '../support/resources.ts';
import { PlayedRunner } from '../support/runner.ts';
import { startServer } from '../support/server.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { newStage } from '../support/stage.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';

let server: SharedServer;
let api: Api;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
});
afterAll(() => server.close());

const runnerIn = async (maker: Api, pool: string, name?: string): Promise<PlayedRunner> =>
  new PlayedRunner((await keyFor(maker, { role: 'runner', pool })).api, name);

/** The next run of the agent, claimed by this runner and said to be under way. */
async function startOn(runner: PlayedRunner, overrides = {}): Promise<Claim> {
  const claim = await runner.claim(overrides);
  await runner.started(claim);
  return claim;
}

const leave = (runner: PlayedRunner) => runner.poll({ leaving: true });

describe('a claim', () => {
  test('interface 13: says since which run the agent has lived there, over a move and back', async () => {
    const s = await newStage(api);
    const here = s.runner;
    const there = await runnerIn(api, s.workspace);
    await s.spawn('a');
    const first = await startOn(here);
    await here.end(first);
    await s.queue('a', 'again');
    const second = await startOn(here);
    await here.end(second);
    await leave(here);
    await s.queue('a', 'elsewhere');
    const third = await startOn(there);
    await there.end(third);
    await leave(there);
    await s.queue('a', 'and back');
    const back = await runnerIn(api, s.workspace, here.name);
    const fourth = await startOn(back);
    expect([first, second, third, fourth].map(({ runId, homeSince }) => [runId, homeSince])).toEqual([
      [1, 1],
      [2, 1],
      [3, 3],
      [4, 4],
    ]);
  });

  test('interface 13: one that was lost on the way comes again with the same home', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const { homeSince } = await s.runner.claim();
    const { body } = await s.runner.poll({ runs: [] });
    expect(body.claims).toMatchObject([{ runId: 1, homeSince }]);
  });

  test("interface 13: has the agent's own branch and those of its parents, nearest first", async () => {
    const s = await newStage(api);
    await s.spawn('root');
    const root = await s.start('root');
    await s.spawn('root/kid');
    const kid = await s.start('root/kid');
    await s.spawn('root/kid/leaf');
    const leaf = await s.start('root/kid/leaf');
    const branch = (path: string, { agentKey }: Claim) => `muster/${path}-${agentKey.slice(-6)}`;
    expect(root).toMatchObject({ branch: branch('root', root), startFrom: [] });
    expect(kid).toMatchObject({ branch: branch('root-kid', kid), startFrom: [root.branch] });
    expect(leaf).toMatchObject({
      branch: branch('root-kid-leaf', leaf),
      startFrom: [kid.branch, root.branch],
    });
  });

  test('interface 13: a later holder of the name has another branch', async () => {
    const s = await newStage(api);
    const first = await s.rested('a', {}, { finished: true });
    const second = await s.rested('a');
    expect(second.branch).not.toBe(first.branch);
  });

  test('interface 13: has the environment of its workspace and the vm-profile of its pool', async () => {
    const name = unique('small');
    await writeResource(api, 'vm-profile', name, { cpus: 2, memoryMb: 512, processes: 64 });
    await writeResource(api, 'environment', name, { variables: { A: 'b' } });
    const s = await newStage(api, { vmProfile: name }, { environment: name });
    await s.spawn('a');
    const { workspace } = await s.claim('a');
    expect(workspace).toMatchObject({
      environment: { variables: { A: 'b' } },
      vmProfile: { cpus: 2, memoryMb: 512, processes: 64 },
    });
  });

  test('interface 13: where the pool names no vm-profile it is the default one', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    expect((await s.claim('a')).workspace.vmProfile).toEqual({ name: 'default' });
  });
});

describe('who is given what', () => {
  test('interface 13: a runner that means another pool than its key is refused, with both named', async () => {
    const s = await newStage(api);
    const answer = await s.runner.poll({ pool: 'elsewhere' });
    expectRefusal(answer, 'PERMISSION_DENIED');
    const { message } = answer.body as unknown as { message: string };
    expect(message).toContain('elsewhere');
    expect(message).toContain(s.workspace);
    expect((await s.runner.poll({ pool: s.workspace })).status).toBe(200);
  });

  const real = { rehearses: false, free: { real: 8, rehearsed: 8 } };

  test('interface 13: a run goes only to a runner that has its backend, and NO_RUNNER says that none has', async () => {
    const s = await newStage(api);
    await s.spawn('b', { model: 'gpt-5' });
    const onlyA = { ...real, backends: ['BACKEND_A'] };
    expect(await s.offered(onlyA)).toEqual([]);
    expect(await s.phase('b')).toBe('PENDING/NO_RUNNER');
    await s.spawn('a', { model: 'opus' });
    expect(await s.offered(onlyA)).toEqual(['a']);
    expect(await s.offered({ ...real, backends: ['BACKEND_B'] })).toEqual(['b']);
    expect(await s.status('b')).toMatchObject({ backend: 'BACKEND_B', rehearsed: false });
  });

  test('interface 13: an agent whose runner has no sandbox says so in its status and in lists', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    expect(await s.status('a')).toMatchObject({ sandboxed: true });
    await s.end(await s.claim('a', { capabilities: ['deferral'] }));
    expect(await s.status('a')).toMatchObject({ sandboxed: false });
    const { entries } = expectOk(
      await api.post<{ entries: AgentEntry[] }>('/v1/agents', { workspace: s.workspace, account: '*' }),
    );
    expect(entries.map(({ sandboxed }) => sandboxed)).toEqual([false]);
    await s.queue('a', 'Again');
    await s.end(await s.claim('a', { capabilities: ['deferral', 'sandbox'] }));
    expect(await s.status('a')).toMatchObject({ sandboxed: true });
  });

  test('interface 13: a runner without any backend gets rehearsals and nothing else', async () => {
    const s = await newStage(api);
    await s.spawn('real', { model: 'opus' });
    await s.spawn('played', { model: 'rehearsal-b' });
    expect(await s.offered({ ...real, backends: [] })).toEqual(['played']);
    expect(await s.phase('real')).toBe('PENDING/NO_RUNNER');
  });

  test('interface 13: an agent leaves a home that has lost its backend', async () => {
    const s = await newStage(api);
    await s.spawn('b', { model: 'gpt-5' });
    const both = { ...real, backends: ['BACKEND_A', 'BACKEND_B'] };
    const first = await startOn(s.runner, both);
    await s.runner.end(first);
    await s.queue('b', 'again');
    await s.runner.poll({ ...real, backends: ['BACKEND_A'] });
    expect(await s.phase('b')).toBe('PENDING/NO_RUNNER');
    const other = await runnerIn(api, s.workspace);
    expect(await startOn(other, both)).toMatchObject({ runId: 2, homeSince: 2 });
  });
});

describe('a diff', () => {
  const diff = (repo: string, text: string, [files, insertions, deletions]: number[]) => ({
    diff: { repo, files, insertions, deletions, text },
  });

  test('interface 13: its counts are in status, its words in diff, and the last word counts', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const run = await s.start('a');
    expect(await s.status('a')).toMatchObject({ branch: '', diffStat: null });
    await s.report(run, diff('https://git.example/a.git', 'first', [1, 2, 3]));
    await s.report(run, {
      pushes: [{ repo: 'https://git.example/a.git', ref: run.branch, commits: ['c1'], files: ['x'] }],
      ...diff('https://git.example/a.git', 'second', [4, 5, 6]),
    });
    await s.end(run);
    const diffStat = { files: 4, insertions: 5, deletions: 6 };
    expect(await s.status('a')).toMatchObject({ branch: run.branch, diffStat });
    const { body } = await s.send('agent/diff', 'a');
    expect(body).toEqual({ branch: run.branch, diffStat, diff: 'second', workingTree: null });
    await s.kill('a');
    expect((await s.send('agent/diff', 'a')).body).toEqual(body);
  });

  test('interface 13: of several repositories the counts are added, and each diff has its name above it', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const run = await s.start('a');
    await s.report(run, diff('https://git.example/b.git', 'diff of b', [1, 10, 100]));
    await s.report(run, diff('https://git.example/a.git', 'diff of a', [2, 20, 200]));
    expect((await s.send('agent/diff', 'a')).body).toEqual({
      branch: '',
      diffStat: { files: 3, insertions: 30, deletions: 300 },
      diff: '# https://git.example/a.git\ndiff of a\n# https://git.example/b.git\ndiff of b',
      workingTree: null,
    });
  });

  test('interface 13: a repeated report changes nothing, and a fenced one is refused', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const run = await s.start('a');
    await s.report(run, diff('r', 'kept', [1, 1, 1]));
    expect((await s.runner.report(run, diff('r', 'repeated', [2, 2, 2]), 2)).status).toBe(200);
    await s.end(run);
    expectFenced(await s.runner.report(run, diff('r', 'late', [3, 3, 3]), 9));
    expect((await s.send('agent/diff', 'a')).body).toMatchObject({ diff: 'kept', diffStat: { files: 1 } });
  });

  test('interface 13: a name of a repository that no store could index is refused', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const run = await s.start('a');
    const answer = await s.runner.report(run, diff('ü'.repeat(2048), '', [0, 0, 0]));
    expectRefusal(answer, 'INVALID_ARGUMENT', 'diff.repo');
  });

  test('interface 13: a push names its repository in the timeline', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const run = await s.start('a');
    const push = { ref: run.branch, commits: ['c1'], files: ['x'] };
    await s.report(run, { pushes: [{ repo: 'https://git.example/a.git', ...push }, push] });
    expect((await s.timeline('a', 'PUSH')).map(({ data }) => data)).toEqual([
      { repo: 'https://git.example/a.git', ...push },
      { repo: '', ...push },
    ]);
  });

  test('decisions 8: a share link goes on showing its own agent when a later one has the name', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const first = await s.start('a');
    await s.report(first, diff('r', 'shared', [1, 1, 1]));
    await s.end(first, 'COMPLETED', { finished: true });
    const { api: visitor } = await shareLinkOf(api, s.id('a'));
    await s.spawn('a');
    const second = await s.start('a');
    await s.report(second, diff('r', 'private', [1, 1, 1]));
    const shown = async (route: string) => JSON.stringify((await visitor.post(`/v1/agent/${route}`)).body);
    expect(await shown('diff')).toContain('shared');
    expect(await shown('runs')).toContain('COMPLETED');
    expect(await shown('timeline')).toContain('FINISHED');
  });
});

test('interface 13: a report may ask not to be sent the checklist', async () => {
  const s = await newStage(api);
  await s.spawn('a');
  const run = await s.start('a');
  await s.send('agent/tasks/create', 'a', { tasks: [{ id: 't', subject: 'do' }] });
  expect(await s.report(run, {})).toMatchObject({ tasks: [{ id: 't' }], activeTaskIds: ['t'] });
  expect(await s.report(run, { omitTasks: true })).toMatchObject({ tasks: [], activeTaskIds: ['t'] });
});

test.each([
  ['report', { report: 2 ** 31 }],
  ['usage.inputTokens', { report: 2, usage: { inputTokens: Number.MAX_SAFE_INTEGER } }],
])('interface 13: a report whose %s the store could not count is refused', async (field, fields) => {
  const s = await newStage(api);
  await s.spawn('a');
  const run = await s.start('a');
  expectRefusal(await s.runner.report(run, fields), 'INVALID_ARGUMENT', field);
  expect((await s.status('a')).run?.state).toBe('RUNNING');
});

describe('ended agents', () => {
  test('interface 13: those that have ended, and none that nobody knows', async () => {
    const s = await newStage(api);
    const paths = ['works', 'rests', 'finished', 'failed', 'killed'];
    const keys = new Map<string, string>();
    for (const path of paths) {
      await s.spawn(path);
      keys.set(path, (await s.start(path)).agentKey);
    }
    const end = (path: string, outcome: string, more = {}) =>
      s.end({ agentKey: keys.get(path) ?? '', runId: 1 } as Claim, outcome, more);
    await end('rests', 'COMPLETED');
    await end('finished', 'COMPLETED', { finished: true });
    await end('failed', 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'x' } });
    await s.kill('killed');
    const stranger = randomUUID();
    const { status, body } = await s.runner.ended([...keys.values(), stranger]);
    expect(status).toBe(200);
    const named = body.ended.map((key) => paths.find((path) => keys.get(path) === key) ?? key);
    expect(named.sort()).toEqual(['failed', 'finished', 'killed']);
    expect((await s.runner.ended([])).body).toEqual({ ended: [] });
  });
});

describe("another tenant's", () => {
  test('decisions 8: a runner of one tenant learns nothing of the agents of another', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const run = await s.start('a');
    const { admin } = await newTenant(server.operator);
    const stranger = await runnerIn(admin, 'default');
    const posing = new PlayedRunner(
      (await keyFor(admin, { role: 'runner' })).api,
      s.runner.name,
      s.runner.runnerId,
    );
    expect((await stranger.poll({ free: { real: 0, rehearsed: 0 } })).status).toBe(200);
    expectRefusal(await posing.ended([run.agentKey]), 'PERMISSION_DENIED');
    await s.kill('a');
    expect((await stranger.ended([run.agentKey])).body).toEqual({ ended: [] });
    expect((await s.runner.ended([run.agentKey])).body).toEqual({ ended: [run.agentKey] });
  });
});

test('decisions 8: the runner of the service itself serves every tenant', async () => {
  const whole = await startServer();
  try {
    const { admin } = await newTenant(await operatorOf(whole));
    for (const maker of [apiOf(whole), admin]) {
      await maker.post('/v1/agent/spawn', {
        agentId: { agent: ['a'] },
        description: '!write a.txt a\n!push\n!finish done',
        model: 'rehearsal-a',
      });
      const done = await until(
        'the end',
        () =>
          maker.post<{ phase: string; branch: string }>('/v1/agent/status', { agentId: { agent: ['a'] } }),
        ({ body }) => body.phase === 'PHASE_COMPLETED',
      );
      expect(done.body.branch).toMatch(/^muster\/a-[0-9a-f]{6}$/);
    }
  } finally {
    await whole.close();
  }
});

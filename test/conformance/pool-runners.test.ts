import type { ReplyOf } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/async.ts';
import { createKey, uniqueName, writeResource } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { inAnHour, newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

/** The pool of a test has the name of its workspace. */
const demandOf = async ({ workspace }: TestTenant) =>
  expectOk(await api.get(`/v1/pools/${workspace}/demand`));
const drain = (pool: string, runners?: readonly string[], as = api) =>
  as.post('/v1/runners/drain', { pool, ...(runners && { runners }) });

const another = async ({ workspace }: TestTenant): Promise<FakeRunner> =>
  new FakeRunner((await createKey(api, { role: 'runner', pool: workspace })).api);

const listed = async (pool: string, as = api) =>
  expectOk(await as.post<ReplyOf<'listRunners'>>('/v1/runners', { pool })).runners;

describe('the list of runners', () => {
  const accountStates = [{ account: 'anthropic/default', state: 'IN_USE', runs: 1, error: '' }];
  const machine = { system: 'linux x64', freeBytes: 1_000, totalBytes: 5_000 };
  const free = { real: 3, rehearsed: 4 };

  test('has what each runs, can take and reports of its machine', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.start('a');
    await t.runner.poll({ machine, accountStates, free });
    const { agentId } = await t.status('a');
    const [runner, ...others] = await listed(t.workspace);
    expect(others).toEqual([]);
    expect(runner).toMatchObject({
      ...{
        name: t.runner.name,
        pool: t.workspace,
        isOwn: false,
        sandboxed: true,
        rehearses: true,
        backends: [],
      },
      ...{
        draining: false,
        system: 'linux x64',
        free,
        runCount: 1,
        runs: [{ agentId, runId: '1', state: 'RUNNING' }],
      },
      disk: { freeBytes: 1_000, totalBytes: 5_000, isFull: false },
      accounts: [{ ...accountStates[0], pausedUntil: null }],
    });
    expect(Date.parse(runner?.lastPollAt ?? '')).toBeGreaterThanOrEqual(Date.parse(runner?.since ?? ''));
    await drain(t.workspace);
    expect(await listed(t.workspace)).toMatchObject([{ draining: true }]);
  });

  test('has pages, and finds runners by a part of their name', async () => {
    const t = await newTestTenant(api);
    await t.runner.poll();
    for (let count = 0; count < 2; count += 1) await (await another(t)).poll();
    const all = await listed(t.workspace);
    expect(all).toHaveLength(3);
    const page = (body: object) =>
      api.post<ReplyOf<'listRunners'>>('/v1/runners', { pool: t.workspace, ...body });
    const first = expectOk(await page({ pageSize: 2 }));
    const second = expectOk(await page({ pageSize: 2, pageToken: first.nextPageToken }));
    expect([...first.runners, ...second.runners]).toEqual(all);
    expect(second.nextPageToken).toBe('');
    const text = t.runner.name.toUpperCase();
    expect(expectOk(await page({ text })).runners).toMatchObject([{ name: t.runner.name }]);
    expectError(await page({ pageToken: 'x' }), 'INVALID_ARGUMENT');
  });

  test('shows accounts to admins only, and nothing to other tenants', async () => {
    const t = await newTestTenant(api);
    await t.runner.poll({ accountStates });
    const { api: viewer } = await createKey(api, { role: 'viewer' });
    expect(await listed(t.workspace, viewer)).toMatchObject([
      { name: t.runner.name, accounts: [], disk: null, system: '' },
    ]);
    const { admin: elsewhere } = await newTenant(await operatorOf(server));
    expect(await listed(t.workspace, elsewhere)).toEqual([]);
  });
});

describe('the demand of a pool', () => {
  test('counts what waits and runs, and says how many runners that takes', async () => {
    const t = await newTestTenant(api);
    await writeResource(api, 'pool', t.workspace, { maxRuns: 2 });
    expect(await demandOf(t)).toEqual({ waiting: 0, running: 0, free: 0, runners: 0, wanted: 0 });
    for (const path of ['a', 'b', 'c']) await t.spawn(path);
    expect(await demandOf(t)).toEqual({ waiting: 3, running: 0, free: 0, runners: 0, wanted: 2 });
    // Registers the runner, which then holds as many runs as it may.
    await t.runner.poll();
    expect(await demandOf(t)).toEqual({ waiting: 1, running: 2, free: 0, runners: 1, wanted: 2 });
    const second = await another(t);
    await second.poll({ free: { real: 0, rehearsed: 0 } });
    expect(await demandOf(t)).toMatchObject({ free: 0, runners: 2, wanted: 2 });
    const [first] = t.runner.runs;
    if (!first) throw new Error('no run');
    await t.runner.started(first as never);
    await t.runner.end(first as never);
    expect(await demandOf(t)).toMatchObject({ waiting: 1, running: 1, wanted: 1 });
  });

  test('does not count messages that are not due, and other tenants', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const { admin: elsewhere } = await newTenant(await operatorOf(server));
    await writeResource(elsewhere, 'pool', t.workspace, {});
    expect(expectOk(await elsewhere.get(`/v1/pools/${t.workspace}/demand`))).toMatchObject({ waiting: 0 });
    await t.turn('a');
    await t.queue('a', { description: 'later', deliverAt: inAnHour() });
    expect(await demandOf(t)).toMatchObject({ waiting: 0, running: 0, wanted: 0, runners: 1 });
  });

  test('is for people and for the runners of the pool, of a pool that exists', async () => {
    const t = await newTestTenant(api);
    const { api: viewer } = await createKey(api, { role: 'viewer' });
    const { api: runner } = await createKey(api, { role: 'runner', pool: t.workspace });
    for (const caller of [viewer, runner])
      expect(expectOk(await caller.get(`/v1/pools/${t.workspace}/demand`))).toEqual(await demandOf(t));
    for (const pool of ['default', 'no-such-pool'])
      expectError(await runner.get(`/v1/pools/${pool}/demand`), 'PERMISSION_DENIED');
    expectError(await api.get('/v1/pools/no-such-pool/demand'), 'NOT_FOUND');
  });
});

describe('draining runners', () => {
  test('tells them at once; they get no more claims, and others take over their agents', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.turn('a');
    const waiting = t.runner.poll({ waitMs: 20_000 });
    await eventually(async () => expect(await demandOf(t)).toMatchObject({ runners: 1 }));
    expect(expectOk(await drain(t.workspace, [t.runner.name]))).toEqual({
      runners: [{ name: t.runner.name, runs: 0 }],
    });
    expect((await waiting).body).toMatchObject({ drain: true, claims: [] });
    await t.queue('a', 'again');
    // A runner of an earlier version does not know what it was told, and asks for more.
    expect((await t.runner.poll()).body).toMatchObject({ claims: [] });
    expect(await demandOf(t)).toMatchObject({ waiting: 1, runners: 0, wanted: 1 });
    const other = await another(t);
    expect((await other.claim()).agentId.agent).toEqual(['a']);
  });

  test('keeps live runs and their lease, shows it, and can be repeated until they are gone', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const spare = await another(t);
    await spare.poll();
    const both = [t.runner.name, spare.name].sort();
    const reply = expectOk(await drain(t.workspace));
    expect(reply.runners).toMatchObject(both.map((name) => ({ name })));
    expect(expectOk(await drain(t.workspace))).toEqual(reply);
    const { runners } = expectOk(
      await api.get<{ runners: { name: string; draining: boolean }[] }>('/v1/service'),
    );
    expect(runners.find(({ name }) => name === t.runner.name)).toMatchObject({ draining: true });
    await t.report(run, { items: [{ type: 'MESSAGE', text: 'still here' }] });
    await t.end(run);
    expect((await t.status('a')).phaseReason).toBe('RESTING');
    for (const runner of [t.runner, spare]) await runner.poll({ leaving: true });
    expect(expectOk(await drain(t.workspace, both))).toEqual({ runners: [] });
  });

  test('takes the name of a runner alone', async () => {
    const [t, u] = [await newTestTenant(api), await newTestTenant(api)];
    for (const { runner } of [t, u]) await runner.poll();
    const byName = (action: string, name: string) => api.post(`/v1/runners/${action}`, { name });
    const { name } = t.runner;
    expect(expectOk(await byName('drain', name))).toEqual({ runners: [{ name, runs: 0 }] });
    expect(await listed(t.workspace)).toMatchObject([{ name, draining: true }]);
    expect(await listed(u.workspace)).toMatchObject([{ draining: false }]);
    expect(expectOk(await byName('undrain', name))).toMatchObject({ runners: [{ name }] });
    expectError(await byName('drain', 'nobody'), 'NOT_FOUND');
    expectError(await api.post('/v1/runners/undrain', { pool: t.workspace }), 'INVALID_ARGUMENT', 'runners');
    expectError(await api.post('/v1/runners/drain', {}), 'INVALID_ARGUMENT', 'pool');
  });

  test('gives a claim again whose reply was lost, so that it is handed back', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const claim = await t.runner.claim();
    t.runner.runs = [];
    const again = expectOk(await t.runner.poll({ leaving: true }));
    expect(again.claims).toMatchObject([{ agentKey: claim.agentKey, runId: claim.runId }]);
    const live = async () =>
      expectOk(await api.get<{ runners: { name: string }[] }>('/v1/service')).runners.map(({ name }) => name);
    expect(await live()).toContain(t.runner.name);
    await t.end(claim, 'HANDED_BACK');
    expect((await t.runs('a')).map(({ outcome }) => outcome)).toEqual(['HANDED_BACK']);
    expectOk(await t.runner.poll({ leaving: true }));
    expect(await live()).not.toContain(t.runner.name);
  });

  test('ends where the runner has handed back nothing yet, as it says', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const capabilities = ['sandbox', 'undrain'];
    const undrain = async () =>
      expectOk(await api.post('/v1/runners/undrain', { pool: t.workspace, runners: [t.runner.name] }));
    const name = t.runner.name;
    await t.runner.poll({ capabilities });
    await drain(t.workspace);
    expect(await undrain()).toEqual({ runners: [{ name, draining: false }] });
    // It was told to drain before.
    expect(expectOk(await t.runner.poll({ capabilities, leaving: true }))).toMatchObject({
      ...{ drain: false, undrain: true },
    });
    expect(await listed(t.workspace)).toMatchObject([{ draining: false }]);
    await t.spawn('b');
    expect(expectOk(await t.runner.poll({ capabilities }))).toMatchObject({ undrain: false });
    expect((await t.status('b')).phase).toBe('PHASE_RUNNING');
    await drain(t.workspace);
    expect(expectOk(await t.runner.poll({ capabilities }))).toMatchObject({ drain: true });
    await t.runner.poll({ leaving: true, capabilities: ['sandbox'] });
    expect(await undrain()).toEqual({ runners: [{ name, draining: true }] });
    await t.end(run);
  });

  test('is for admins, of runners that the pool has', async () => {
    const t = await newTestTenant(api);
    const { api: member } = await createKey(api, { role: 'member' });
    expectError(await drain(t.workspace, undefined, member), 'PERMISSION_DENIED');
    expectError(await drain(uniqueName('pool')), 'NOT_FOUND');
    expectError(await drain(t.workspace, ['nobody']), 'NOT_FOUND');
    expectError(await drain(t.workspace, []), 'INVALID_ARGUMENT');
    const undrain = { pool: t.workspace, runners: ['nobody'] };
    expectError(await api.post('/v1/runners/undrain', undrain), 'NOT_FOUND');
    expectError(await member.post('/v1/runners/undrain', undrain), 'PERMISSION_DENIED');
  });
});

import { createHmac } from 'node:crypto';
import type { ProviderAccount, Service } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { createKey } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { serviceSecret } from '../support/server.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { newTestTenant, TestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

const states: ProviderAccount[] = [
  {
    account: 'anthropic/a',
    state: 'PAUSED',
    runs: 0,
    pausedUntil: null,
    accepted: false,
    error: 'anthropic answered 401',
  },
  { account: 'anthropic/b', state: 'IN_USE', runs: 2, pausedUntil: null, accepted: true, error: '' },
];

const accountsIn = async (caller: Api, { name }: FakeRunner): Promise<unknown> =>
  expectOk(await caller.get<Service>('/v1/service')).runners.find((runner) => runner.name === name)?.accounts;

test('a run names the account that it uses, and the next run of its agent is given it', async () => {
  const { workspace } = await newTestTenant(api);
  const { api: key } = await createKey(api, { role: 'runner', pool: workspace });
  const runner = new FakeRunner(key, undefined, undefined, { rehearses: false });
  const t = new TestTenant(api, workspace, runner);
  const accountOf = async () => (await t.status('x')).run?.account;
  await t.spawn('x', { model: 'claude-opus-4-8' });
  const first = await runner.claim();
  expect(first.account).toBe('');
  await runner.report(first, { started: true, account: 'anthropic/a' });
  expect(await accountOf()).toBe('anthropic/a');
  await runner.report(first, { account: 'anthropic/b' });
  expect(await accountOf()).toBe('anthropic/b');
  await runner.end(first);
  await t.queue('x', 'again');
  const second = await runner.claim();
  expect(second.account).toBe('anthropic/b');
  await runner.report(second, { started: true, account: 'anthropic/a' });
  await runner.end(second);
  expect((await t.runs('x')).map(({ account }) => account)).toEqual(['anthropic/a', 'anthropic/b']);
  // No account is behind a rehearsed run.
  await t.queue('x', { description: 'rehearsed', model: 'rehearsal-a' });
  expect((await runner.claim()).account).toBe('');
});

test('the run that a person retried says so, also when its claim is sent again, and the next one does not', async () => {
  const t = await newTestTenant(api);
  await t.spawn('x');
  const first = await t.start('x');
  expect(first.retried).toBe(false);
  await t.end(first, 'PARKED', { limitUntil: new Date(Date.now() + 3_600_000).toISOString() });
  expectOk(await t.send('agent/retry', 'x'));
  expect((await t.runner.claim()).retried).toBe(true);
  t.runner.runs = [];
  const again = await t.runner.claim();
  expect(again).toMatchObject({ runId: first.runId + 1, retried: true });
  await t.end(again);
  await t.queue('x', 'more');
  expect((await t.runner.claim()).retried).toBe(false);
});

test('admins see the accounts of their runners, other people and tenants do not', async () => {
  const { runner } = await newTestTenant(api);
  expectOk(await runner.poll({ accountStates: states }));
  expect(await accountsIn(api, runner)).toEqual(states);
  const { api: member } = await createKey(api, { role: 'member' });
  expect(await accountsIn(member, runner)).toEqual([]);
  expectError(await runner.poll({ accountStates: [{ account: 'a' }] }), 'INVALID_ARGUMENT');
  // A runner of an older build.
  expectOk(await runner.poll());
  expect(await accountsIn(api, runner)).toEqual([]);
});

test("the accounts of the service's own runner are the operator's", async () => {
  const secret = createHmac('sha256', serviceSecret).update(JSON.stringify(['service-runner']));
  const own = new FakeRunner(api.as(`mst_service-runner.${secret.digest('base64url')}`));
  expectOk(await own.poll({ accountStates: states }));
  const operator = await operatorOf(server);
  const { admin: elsewhere } = await newTenant(operator);
  expect(await accountsIn(elsewhere, own)).toEqual([]);
  expect(await accountsIn(operator, own)).toEqual(states);
  expectOk(await own.poll({ leaving: true }));
});

import { randomUUID } from 'node:crypto';
import type { ReplyOf } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { createKey } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant, TestTenant, textsOf } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const refusedKey = { error: { code: 'PROVIDER_KEY_REFUSED', message: 'anthropic answered 401' } };
const unreachable = { error: { code: 'GIT_UNREACHABLE', message: 'Connection timed out' } };

describe('retry', () => {
  test('is FAILED_PRECONDITION unless the agent is BLOCKED, RETRYING or rate limited', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expectError(await t.send('agent/retry', 'a'), 'FAILED_PRECONDITION');
    const run = await t.start('a');
    expectError(await t.send('agent/retry', 'a'), 'FAILED_PRECONDITION');
    await t.end(run);
    expectError(await t.send('agent/retry', 'a'), 'FAILED_PRECONDITION');
    expectError(await t.send('agent/retry', 'nobody'), 'NOT_FOUND');
  });

  test('of a run that was handed back changes nothing', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.end(await t.start('a'), 'HANDED_BACK');
    expect(await t.phase('a')).toBe('PENDING/RETRYING');
    expect((await t.send('agent/retry', 'a')).status).toBe(200);
    expect(await t.claim('a')).toMatchObject({ runId: 2, attempt: 2 });
  });

  test('starts a rate-limited agent immediately, which waits again if the limit still holds', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'first' });
    await t.end(await t.start('a'), 'PARKED', { limitUntil: inAnHour() });
    expect(await t.offered()).toEqual([]);
    expect((await t.send('agent/retry', 'a')).status).toBe(200);
    expect(await t.status('a')).toMatchObject({ phaseReason: 'STARTING', wakesAt: null });
    const again = await t.start('a');
    expect(textsOf(again)).toEqual(['first']);
    await t.end(again, 'PARKED', { limitUntil: inAnHour() });
    expect(await t.phase('a')).toBe('PENDING/PROVIDER_LIMIT');
  });

  test('the queue of a rate-limited or retrying agent says when its next message goes', async () => {
    const t = await newTestTenant(api);
    const limitUntil = inAnHour();
    await t.spawn('a');
    await t.end(await t.start('a'), 'PARKED', { limitUntil });
    expect((await t.add({ description: 'next' })).body).toMatchObject({
      state: 'QUEUED',
      wakesAt: limitUntil,
    });
    const queue = async () => (await t.send<{ wakesAt: string }>('agent/queue/list', 'a')).body.wakesAt;
    expect(await queue()).toBe(limitUntil);
    await t.send('agent/retry', 'a');
    expect(await queue()).toBeNull();
    expect((await t.add({ description: 'and this' })).body).toMatchObject({ wakesAt: null });
    const deliverAt = inAnHour();
    expect((await t.add({ description: 'later', deliverAt })).body).toMatchObject({
      state: 'DEFERRED',
      wakesAt: deliverAt,
    });
    await t.end(await t.start('a'), 'FAILED', unreachable);
    expect(await queue()).toBe((await t.status('a')).wakesAt);
  });

  test('a preempting message starts a rate-limited agent immediately and abandons its batch', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', 'tried');
    await t.end(await t.start('a'), 'PARKED', { limitUntil: inAnHour() });
    const followUpId = await t.queue('a', { description: 'now', preempt: true });
    expect(await t.timeline('a', 'BATCH_ABANDONED')).toMatchObject([{ followUpId }]);
    expect(textsOf(await t.claim('a'))).toEqual(['now']);
  });
});

describe('a retry of several agents', () => {
  type Retried = ReplyOf<'retryMany'>;
  const retryMany = async (fields: object, caller = api) =>
    expectOk(await caller.post<Retried>('/v1/agents/retry', fields));
  const shownOf = ({ agents }: Retried) =>
    agents
      .map(({ agentId, retried, error }) => `${agentId.agent.join('/')} ${retried || error?.code}`)
      .sort();

  /** Agents that are blocked, retrying, rate limited and idle. */
  async function several(): Promise<TestTenant> {
    const t = await newTestTenant(api);
    for (const path of ['blocked', 'retrying', 'limited', 'idle'])
      await t.spawn(path, { labels: { team: path === 'limited' ? 'other' : 'web' } });
    await t.end(await t.start('blocked'), 'FAILED', refusedKey);
    await t.end(await t.start('retrying'), 'FAILED', unreachable);
    await t.end(await t.start('limited'), 'PARKED', { limitUntil: inAnHour() });
    await t.turn('idle');
    return t;
  }

  test('by name says what became of each', async () => {
    const t = await several();
    const names = ['blocked', 'retrying', 'limited', 'idle', 'nobody'];
    const reply = await retryMany({ agentIds: names.map((name) => t.id(name)) });
    expect(reply.more).toBe(false);
    expect(reply.agents.map(({ agentId }) => agentId.agent[0])).toEqual(names);
    expect(shownOf(reply)).toEqual([
      'blocked true',
      'idle FAILED_PRECONDITION',
      'limited true',
      'nobody NOT_FOUND',
      'retrying true',
    ]);
    expect((await t.offered()).sort()).toEqual(['blocked', 'limited', 'retrying']);
  });

  test('by workspace or label takes those that wait, at any depth, and none twice', async () => {
    const t = await several();
    await t.spawn('idle/child');
    await t.end(await t.start('idle/child'), 'FAILED', refusedKey);
    expect(shownOf(await retryMany({ workspace: t.workspace, labels: { team: 'web' } }))).toEqual([
      'blocked true',
      'retrying true',
    ]);
    expect(shownOf(await retryMany({ workspace: t.workspace }))).toEqual(['idle/child true', 'limited true']);
    expect(await retryMany({ workspace: t.workspace })).toEqual({ agents: [], more: false });
  });

  test('is refused as a whole without a choice, with two, and for agents that the caller may not command', async () => {
    const t = await several();
    const agentIds = [t.id('blocked')];
    const post = (body: object, caller = api) => caller.post('/v1/agents/retry', body);
    expectError(await post({}), 'INVALID_ARGUMENT', 'agentIds');
    expectError(await post({ agentIds, workspace: t.workspace }), 'INVALID_ARGUMENT', 'agentIds');
    expectError(await post({ agentIds: [...agentIds, {}] }), 'INVALID_ARGUMENT', 'agentIds[1].agent');
    const { api: member } = await createKey(api, { role: 'member', account: 'somebody' });
    expectError(
      await post({ agentIds: [{ ...agentIds[0], account: 'admin' }] }, member),
      'PERMISSION_DENIED',
    );
    for (const account of ['*', 'admin'])
      expectError(await post({ workspace: t.workspace, account }, member), 'PERMISSION_DENIED');
    expect(await retryMany({ workspace: t.workspace }, member)).toEqual({ agents: [], more: false });
    expect(await t.phase('blocked')).toBe('WAITING_FOR_INPUT/BLOCKED');
    expect(shownOf(await retryMany({ workspace: t.workspace, account: '*' }))).toHaveLength(3);
  });
});

describe('what a runner reports ends the wait of agents on it', () => {
  const failing = (awaits: string) => ({ ...unreachable, awaits });

  test('a run that reaches a git host retries those that wait for it there, a few at a time', async () => {
    const t = await newTestTenant(api);
    const other = await t.withAnotherRunner();
    await other.spawn('elsewhere');
    await other.end(await other.start('elsewhere'), 'FAILED', failing('git:host'));
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    for (const name of [...names, 'g', 'ok']) await t.spawn(name);
    for (const name of names) await t.end(await t.start(name), 'FAILED', failing('git:host'));
    await t.end(await t.start('g'), 'FAILED', failing('provider:anthropic'));
    const ok = await t.start('ok');
    expect(await t.offered()).toEqual([]);
    expect((await t.report(ok, { reached: ['git:elsewhere'] })).awaited).toEqual([]);
    expect(await t.offered()).toEqual([]);
    expect((await t.report(ok, { reached: ['git:host'] })).awaited).toEqual(['git:host']);
    expect((await t.offered()).sort()).toEqual(['a', 'b', 'c', 'd']);
    expect((await t.report(await t.claim('a'), { reached: ['git:host'] })).awaited).toEqual(['git:host']);
    expect((await t.offered()).sort()).toEqual(['e', 'f']);
    expect((await t.report(ok, { reached: ['git:host'] })).awaited).toEqual([]);
    expect(await t.status('g')).toMatchObject({ phaseReason: 'RETRYING', wakesAt: expect.any(String) });
    expect(await t.status('elsewhere')).toMatchObject({ wakesAt: expect.any(String) });
  });

  test('a runner that comes back with another account tries agents at the limit of the earlier one', async () => {
    const t = await newTestTenant(api);
    const limitUntil = inAnHour();
    for (const name of ['a', 'b', 'unknown']) await t.spawn(name);
    await t.end(await t.start('a'), 'PARKED', { limitUntil, limitAccount: 'anthropic/1' });
    await t.end(await t.start('b'), 'PARKED', { limitUntil, limitAccount: 'openai/1' });
    await t.end(await t.start('unknown'), 'PARKED', { limitUntil });
    const restarted = (accounts: string[]) =>
      new TestTenant(
        api,
        t.workspace,
        new FakeRunner(api.as(t.runner.key), t.runner.name, randomUUID(), { accounts }),
      );
    expect(await restarted(['anthropic/1', 'openai/1']).offered()).toEqual([]);
    const now = restarted(['anthropic/2', 'openai/1']);
    expect(await now.offered({ waitMs: 2000 })).toEqual(['a']);
    expect(await t.phase('b')).toBe('PENDING/PROVIDER_LIMIT');
    expect(await t.phase('unknown')).toBe('PENDING/PROVIDER_LIMIT');
  });
});

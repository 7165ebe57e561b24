import { afterEach, describe, expect, test } from 'vitest';
import type { Fields } from '../support/agents.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const tenantPolicy = (document: Fields) => writeResource(api, 'policy', 'default', document);
afterEach(() => tenantPolicy({}));

const withPolicy = async (document: Fields): Promise<TestTenant> => {
  const name = uniqueName('policy');
  await writeResource(api, 'policy', name, document);
  return newTestTenant(api, {}, { policy: name });
};

const spawnOf = (t: TestTenant, more: Fields, path = 'a') =>
  t.send('agent/spawn', path, { description: 'x', ...more });

const claude = { model: 'claude-x' };

describe('admission', () => {
  test.each<[policy: Fields, refused: Fields, allowed: Fields, message: string]>([
    [
      { models: ['claude-*', 'gpt-mini'] },
      { model: 'gpt-mini-2' },
      { model: 'gpt-mini' },
      'model: the policy "default" does not allow "gpt-mini-2", only claude-*, gpt-mini',
    ],
    [
      { reasoningEfforts: ['low'] },
      { ...claude, reasoningEffort: 'high' },
      { ...claude, reasoningEffort: 'low' },
      'reasoningEffort: the policy "default" does not allow "high", only low',
    ],
    [
      { serviceTiers: ['flex'] },
      { model: 'gpt-x', serviceTier: 'fast' },
      { model: 'gpt-x', serviceTier: 'flex' },
      'serviceTier: the policy "default" does not allow "fast", only flex',
    ],
    [
      { fastMode: false },
      { ...claude, fastMode: true },
      { ...claude, fastMode: false },
      'fastMode: the policy "default" does not allow it',
    ],
    [
      { personas: ['def*'] },
      { ...claude, agent: 'reviewer' },
      { ...claude, agent: 'default' },
      'persona: the policy "default" does not allow "reviewer", only def*',
    ],
  ])(
    'of the tenant: %j refuses a spawn and a message, and names what is allowed',
    async (policy, refused, allowed, message) => {
      const t = await newTestTenant(api);
      await tenantPolicy(policy);
      expect(expectError(await spawnOf(t, refused), 'PERMISSION_DENIED').message).toBe(message);
      expectOk(await spawnOf(t, allowed));
      const { model: _, ...change } = refused;
      const queued = { description: 'x', ...(Object.keys(change).length > 0 ? change : refused) };
      expect(expectError(await t.add(queued), 'PERMISSION_DENIED').message).toBe(message);
      expect(await t.followUpIds('a')).toEqual([]);
    },
  );

  test('of a workspace can only narrow that of the tenant', async () => {
    const t = await withPolicy({ models: ['gpt-*', 'claude-b*'] });
    await tenantPolicy({ models: ['claude-*'] });
    for (const model of ['gpt-x', 'claude-a']) expectError(await spawnOf(t, { model }), 'PERMISSION_DENIED');
    expectOk(await spawnOf(t, { model: 'claude-b' }));
  });

  test('binds admins, and children of an agent too', async () => {
    const t = await withPolicy({ models: ['claude-*'] });
    await t.spawn('a', claude);
    const ofRun = api.as((await t.start('a')).token);
    const child = { agentId: t.id('a/b'), description: 'x' };
    expectError(await ofRun.post('/v1/agent/spawn', { ...child, model: 'gpt-x' }), 'PERMISSION_DENIED');
    expectOk(await ofRun.post('/v1/agent/spawn', { ...child, model: 'claude-y' }));
  });

  test('refuses an agent whose workspace names a policy that does not exist', async () => {
    const t = await newTestTenant(api, {}, { policy: 'forgotten' });
    expectError(await spawnOf(t, claude), 'INVALID_ARGUMENT', 'agentId.workspace');
    const { workspace } = t;
    await writeResource(api, 'workspace', workspace, { pool: workspace });
    await t.spawn('a', claude);
    await writeResource(api, 'workspace', workspace, { pool: workspace, policy: 'forgotten' });
    const message = 'the workspace names the policy "forgotten", which does not exist';
    expect(expectError(await t.add({ description: 'x' }), 'PERMISSION_DENIED').message).toBe(message);
    expect(await t.offered()).toEqual([]);
    expect(await t.status('a')).toMatchObject({ phaseReason: 'BLOCKED', error: { code: 'POLICY', message } });
  });
});

describe('a claim', () => {
  test('of an agent that a policy no longer allows blocks it with the text of a refusal, until the policy is changed', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'first', ...claude });
    await t.queue('a', { followUpId: 'q', description: 'second' });
    await tenantPolicy({ models: ['gpt-*'] });
    expect(await t.offered()).toEqual([]);
    const message = 'model: the policy "default" does not allow "claude-x", only gpt-*';
    expect(await t.status('a')).toMatchObject({
      phaseReason: 'BLOCKED',
      runCount: '0',
      error: { code: 'POLICY', message },
      needsInput: expect.stringContaining('have an admin change the policy'),
    });
    expect(expectError(await t.add({ description: 'x' }), 'PERMISSION_DENIED').message).toBe(message);
    await tenantPolicy({ models: ['claude-*'] });
    expectOk(await t.send('agent/retry', 'a'));
    const { messages } = await t.start('a');
    expect(messages.map(({ text }) => text)).toEqual(['first', 'second']);
  });

  test('gets the shortest turn of the pool and of the policies', async () => {
    const name = uniqueName('short');
    await writeResource(api, 'policy', name, { maxTurnMinutes: 20 });
    const longest = async (pool: Fields, policy?: string) => {
      const t = await newTestTenant(api, pool, policy ? { policy } : { model: 'claude-x' });
      await t.spawn('a', claude);
      return (await t.claim('a')).maxTurnMinutes;
    };
    await tenantPolicy({ maxTurnMinutes: 30 });
    expect(await longest({ maxTurnMinutes: 10 })).toBe(10);
    expect(await longest({ maxTurnMinutes: 0 })).toBe(30);
    expect(await longest({ maxTurnMinutes: 40 }, name)).toBe(20);
  });
});

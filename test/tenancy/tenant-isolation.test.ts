import type { AgentEntry, AgentId } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { type Api, agent } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, decode, postResource, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { openRequest } from '../support/streams.ts';
import { newTenant, tenantOf } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { agentIn, foreignAim, masked } from './foreign-targets.ts';

const server = await useSharedServer({ runner: false });
const { api: admin, operator } = server;
const foreign = await newTenant(operator);
const callers: Record<'viewer' | 'member' | 'admin' | 'operator', Api> = {
  viewer: (await createKey(admin, { role: 'viewer', account: 'vic' })).api,
  member: (await createKey(admin, { role: 'member', account: 'mia' })).api,
  admin,
  operator,
};

describe('requests that name no target', () => {
  interface Page {
    readonly entries: AgentEntry[];
    readonly nextPageToken: string;
  }
  const orgs = (page: Page): string[] => [...new Set(page.entries.map(({ agentId }) => agentId.tenant.org))];

  test('a list of every account shows one tenant', async () => {
    expectOk(await foreign.admin.post('/v1/agent/kill', { agentId: await agentIn(foreign.admin, {}) }));
    await agentIn(foreign.admin, {});
    await agentIn(admin, {});
    const lists = [
      {},
      { includeTerminal: true },
      { allDepths: true },
      { allDepths: true, includeTerminal: true },
      { allDepths: true, includeTerminal: true, endedSince: '2020-01-01T00:00:00Z' },
    ];
    for (const list of lists) {
      const body = { account: '*', ...list };
      for (const role of ['viewer', 'member', 'admin'] as const) {
        expect(orgs(expectOk(await callers[role].post<Page>('/v1/agents', body)))).toEqual([
          server.tenant.org,
        ]);
      }
      const theirs = expectOk(await foreign.admin.post<Page>('/v1/agents', body));
      expect(orgs(theirs)).toEqual([foreign.tenant.org]);
    }
  });

  test('an account of the same name in another tenant is another account', async () => {
    const name = uniqueName('twin');
    const { api: twin } = await createKey(foreign.admin, { role: 'member', account: 'mia' });
    expectOk(await twin.post('/v1/agent/spawn', { agentId: agent(name), description: 'theirs' }));
    expectError(await callers.member.post('/v1/agent/status', { agentId: agent(name) }), 'NOT_FOUND');
    expectOk(await callers.member.post('/v1/agent/spawn', { agentId: agent(name), description: 'ours' }));
    expectOk(await callers.member.post('/v1/agent/kill', { agentId: agent(name) }));
    const status = await twin.post('/v1/agent/status', { agentId: agent(name) });
    expect(expectOk(status)).toMatchObject({ phase: 'PHASE_PENDING', description: 'theirs' });
  });

  test('a provider is part of a tenant: the same org under another one is foreign', async () => {
    const away = { tenant: tenantOf(server.tenant.org, 'PROVIDER_IDP_OIDC'), agent: ['x'] };
    expectError(await admin.post('/v1/agent/status', { agentId: away }), 'PERMISSION_DENIED');
  });

  test("a catalog list and a history show one tenant, and a name in one does not touch the other's", async () => {
    const name = uniqueName('both');
    expectOk(await postResource(admin, 'profile', name, { note: 'ours' }));
    const theirs = await postResource(
      foreign.admin,
      'profile',
      name,
      { note: 'theirs' },
      { ifGenerationMatch: 0 },
    );
    expect(expectOk(theirs).generation).toBe('1');
    expectOk(await postResource(foreign.admin, 'profile', name, { note: 'theirs' }));
    const { body: listed } = await admin.get<{ entries: { name: string; payload: string }[] }>(
      '/v1/catalog/profile',
    );
    expect(listed.entries.filter((e) => e.name === name)).toHaveLength(1);
    const notes = listed.entries.map(({ payload }) => decode(payload).note);
    expect(notes).toContain('ours');
    expect(notes).not.toContain('theirs');
    const { body: history } = await admin.get<{ entries: unknown[] }>(`/v1/catalog/profile/${name}/history`);
    expect(history.entries).toHaveLength(1);
    expectOk(await foreign.admin.del(`/v1/catalog/profile/${name}`));
    expectOk(await admin.get(`/v1/catalog/profile/${name}`));
  });

  test("a persona, a workspace and a pool of another tenant can't be used by name", async () => {
    const name = uniqueName('theirs');
    expectOk(await postResource(foreign.admin, 'persona', name, { instructions: 'secret plans' }));
    const body = { agentId: agent(uniqueName('x')), description: 'x', agent: name };
    expectError(await admin.post('/v1/agent/spawn', body), 'INVALID_ARGUMENT', 'agent');
  });

  test('a page token of one tenant opens no page of another', async () => {
    for (let i = 0; i < 3; i += 1) await agentIn(foreign.admin, {});
    for (let i = 0; i < 3; i += 1) await agentIn(admin, {});
    const theirs = expectOk(await foreign.admin.post<Page>('/v1/agents', { account: '*', pageSize: 1 }));
    expect(theirs.nextPageToken).not.toBe('');
    const body = { account: '*', pageSize: 1000, pageToken: theirs.nextPageToken };
    const answer = await admin.post<Page>('/v1/agents', body);
    if (answer.status === 200) expect(orgs(answer.body)).not.toContain(foreign.tenant.org);
    else expectError(answer, 'INVALID_ARGUMENT', 'pageToken');
  });

  test('an Idempotency-Key of one tenant replays no reply to another', async () => {
    const headers = { 'idempotency-key': uniqueName('idem') };
    const body = { description: 'x' };
    const [ours, theirs] = [
      expectOk(await admin.post<{ agentId: AgentId }>('/v1/agent/spawn', body, headers)),
      expectOk(await foreign.admin.post<{ agentId: AgentId }>('/v1/agent/spawn', body, headers)),
    ];
    expect(ours.agentId.tenant.org).toBe(server.tenant.org);
    expect(theirs.agentId.tenant.org).toBe(foreign.tenant.org);
  });

  test('a wait for several agents with one of another tenant among them is refused whole', async () => {
    const mine = await agentIn(admin, {});
    expectOk(await admin.post('/v1/agent/kill', { agentId: mine }));
    const { id } = await foreignAim(foreign, 'waitMany', true);
    expectError(await admin.post('/v1/agents/wait', { agentIds: [mine, id] }), 'PERMISSION_DENIED');
  });

  test('a stream of every account shows one tenant', async () => {
    const held = openRequest(admin, '/v1/agents/stream', {
      account: '*',
      allDepths: true,
      includeTerminal: true,
    });
    expect(await held.opened).toBe(200);
    const theirs = await agentIn(foreign.admin, {});
    const ours = await agentIn(admin, {});
    await until(
      'our agent',
      async () => held.text(),
      (text) => text.includes(ours.agent[0] ?? ' '),
    );
    expect(held.text()).not.toContain(theirs.agent[0]);
    expect(held.text()).not.toContain(foreign.tenant.org);
    held.abort();
    await held.ended;
  });

  test("a share link can't be made for another tenant's agent, whether or not it exists", async () => {
    const replies: string[] = [];
    for (const exists of [true, false]) {
      const aim = await foreignAim(foreign, 'status', exists);
      const answer = await postResource(admin, 'share-link', uniqueName('link'), { agentId: aim.id });
      expect([400, 403]).toContain(answer.status);
      replies.push(masked(answer, aim));
    }
    expect(replies[0]).toBe(replies[1]);
  });

  test("a child can't be spawned below another tenant's agent of the same path", async () => {
    const { id } = await foreignAim(foreign, 'spawn', true);
    const child = { agent: [...id.agent, 'child'] };
    expectError(await admin.post('/v1/agent/spawn', { agentId: child, description: 'x' }), 'NOT_FOUND');
  });

  test("a runner's id is its own: with another tenant's it is given no run and ends none", async () => {
    const t = await newTestTenant(admin);
    await t.spawn('taken');
    await t.spawn('begun');
    await t.start('begun');
    await t.claim('taken');
    const { runnerId } = t.runner;
    const { api } = await createKey(foreign.admin, { role: 'runner', pool: 'default' });
    for (const fields of [{}, { leaving: true }, { poll: 1000 }]) {
      const impostor = new FakeRunner(api, uniqueName('runner'), runnerId);
      expectError(await impostor.poll(fields), 'PERMISSION_DENIED');
    }
    expect(await t.phase('begun')).toBe('RUNNING/WORKING');
    expect(await t.phase('taken')).toBe('RUNNING/STARTING');
  });
});

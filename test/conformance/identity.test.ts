import type { AgentEntry, SpawnReply, Tenant } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Fields, requestsById } from '../support/agents.ts';
import type { Api } from '../support/api.ts';
import { writeResource } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

const caller = () => ({
  tenant: server.tenant,
  ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
  account: 'admin',
});

const { spawn, status, kill, spawned } = requestsById(api);

/** Every operation that names one agent, with a body that is valid except for the agent. */
const operations: [route: string, more: Fields][] = [
  ['agent/status', {}],
  ['agent/wait', {}],
  ['agent/queue', { description: 'hello' }],
  ['agent/queue/remove', { followUpId: 'f' }],
  ['agent/queue/order', {}],
  ['agent/clear-follow-ups', {}],
  ['agent/stop-turn', { runId: '1' }],
  ['agent/kill', {}],
  ['agent/timeline', {}],
  ['agent/timeline/stream', {}],
  ['agent/runs', {}],
  ['agent/diff', {}],
  ['agent/tasks', {}],
  ['agent/tasks/create', { tasks: [{ subject: 's' }] }],
  ['agent/tasks/update', { id: 't', subject: 's' }],
];

describe('fields of the identity that the caller leaves out', () => {
  test('workspace and path are enough: tenant and owner are the caller’s', async () => {
    expect(await spawned({ workspace: 'rule-1', agent: ['rule-1'] })).toEqual({
      ...caller(),
      workspace: 'rule-1',
      agent: ['rule-1'],
    });
  });

  test.each<[what: string, sent: (tenant: Tenant) => Fields]>([
    ['tenant absent', () => ({})],
    ['tenant empty', () => ({ tenant: {} })],
    ['tenant null', () => ({ tenant: null })],
    ['tenant.provider absent', (tenant) => ({ tenant: { org: tenant.org } })],
    ['tenant.provider empty', (tenant) => ({ tenant: { provider: '', org: tenant.org } })],
    [
      'tenant.provider unspecified',
      (tenant) => ({ tenant: { provider: 'PROVIDER_UNSPECIFIED', org: tenant.org } }),
    ],
    ['tenant.org absent', () => ({ tenant: { provider: 'PROVIDER_CODEHOST_APP' } })],
    ['tenant.org empty', () => ({ tenant: { provider: 'PROVIDER_CODEHOST_APP', org: '' } })],
    ['ownerProvider absent', (tenant) => ({ tenant, account: 'admin' })],
    ['ownerProvider empty', (tenant) => ({ tenant, account: 'admin', ownerProvider: '' })],
    [
      'ownerProvider unspecified',
      (tenant) => ({ tenant, account: 'admin', ownerProvider: 'PROVIDER_UNSPECIFIED' }),
    ],
    ['account absent', (tenant) => ({ tenant, ownerProvider: 'PROVIDER_CODEHOST_OAUTH' })],
    ['account empty', (tenant) => ({ tenant, ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account: '' })],
  ])('with %s the rest is filled in, at spawn and when the agent is named again', async (what, sentFor) => {
    const sent = sentFor(server.tenant);
    const agent = [`fill-${what.replace(/\W/g, '-')}`];
    const whole = { ...caller(), workspace: 'default', agent };
    expect(await spawned({ ...sent, agent })).toEqual(whole);
    expect((await status({ ...sent, agent })).body.agentId).toEqual(whole);
  });

  test('an owner provider without an account takes the caller’s account, and the reverse', async () => {
    const byProvider = await spawned({ ownerProvider: 'PROVIDER_IDP_OIDC', agent: ['half-set'] });
    expect(byProvider).toMatchObject({ ownerProvider: 'PROVIDER_IDP_OIDC', account: 'admin' });
    const byAccount = await spawned({ account: 'somebody', agent: ['half-set'] });
    expect(byAccount).toMatchObject({ ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account: 'somebody' });
  });

  test('fields that are set are used as sent', async () => {
    const whole = {
      tenant: server.tenant,
      ownerProvider: 'PROVIDER_IDP_OIDC',
      account: 'Ann.Lee+ci@Example.com',
      workspace: 'Mixed.Case_ws-1',
      agent: ['Mixed.Case_name-1'],
    };
    expect(await spawned(whole)).toEqual(whole);
    expect((await status(whole)).body.agentId).toEqual(whole);
  });

  test('a service profile owns an agent under the profile’s name', async () => {
    await writeResource(api, 'profile', 'nightly', { displayName: 'Nightly' });
    const owner = { ownerProvider: 'PROVIDER_SERVICE_PROFILE', account: 'nightly' };
    expect(await spawned({ ...owner, agent: ['profiled'] })).toMatchObject(owner);
  });
});

describe('the tuple', () => {
  test('tenant, workspace, owner and path together are the identity', async () => {
    const ids = [
      await spawned({ workspace: 'w1', agent: ['tuple'] }),
      await spawned({ workspace: 'w2', agent: ['tuple'] }),
      await spawned({ workspace: 'w1', account: 'other', agent: ['tuple'] }),
      await spawned({ workspace: 'w1', ownerProvider: 'PROVIDER_IDP_OIDC', agent: ['tuple'] }),
    ];
    await kill(ids[1] as Fields);
    const phases = await Promise.all(ids.map(async (id) => (await status(id)).body.phase));
    expect(phases).toEqual(['PHASE_PENDING', 'PHASE_CANCELED', 'PHASE_PENDING', 'PHASE_PENDING']);
  });

  test('the same account of two providers is two owners', async () => {
    await writeResource(api, 'profile', 'twin', {});
    for (const ownerProvider of [
      'PROVIDER_CODEHOST_OAUTH',
      'PROVIDER_CODEHOST_APP',
      'PROVIDER_IDP_OIDC',
      'PROVIDER_SERVICE_PROFILE',
    ]) {
      const id = { ownerProvider, account: 'twin', agent: ['twin'] };
      expect(await spawned(id)).toMatchObject(id);
    }
  });

  test.each(['PROVIDER_NOBODY', 'codehost_oauth', 'provider_idp_oidc'])(
    '%j is not a provider',
    async (value) => {
      expectError(
        await spawn({ ownerProvider: value, agent: ['no-provider'] }),
        'INVALID_ARGUMENT',
        'agentId.ownerProvider',
      );
      expectError(
        await spawn({ tenant: { provider: value }, agent: ['no-provider'] }),
        'INVALID_ARGUMENT',
        'agentId.tenant.provider',
      );
    },
  );

  test('an AgentId in a reply always has a workspace', async () => {
    const parent = await spawned({ agent: ['concrete'] });
    const child = await spawned({ agent: ['concrete', 'child'] });
    const { body: record } = await status({ agent: ['concrete'] });
    const { body: list } = await api.post<{ entries: AgentEntry[] }>('/v1/agents', { parentId: parent });
    for (const id of [parent, child, record.agentId, ...record.children, list.entries[0]?.agentId]) {
      expect(id?.workspace).toBe('default');
    }
    expect(record.children).toEqual([child]);
  });
});

describe('paths', () => {
  test.each([['x'], ['a'.repeat(128)], ['AZaz09._-'], ['...'], ['-'], ['.hidden']])(
    '%j is a path element',
    async (name) => {
      expect((await spawned({ workspace: 'names', agent: [name] })).agent).toEqual([name]);
    },
  );

  test.each([[''], ['.'], ['..'], ['a'.repeat(129)], ['a/b'], ['a b'], ['ä'], ['a\n'], ['a\0'], [7]])(
    '%j is not a path element, at spawn or elsewhere',
    async (name) => {
      expectError(await spawn({ agent: [name] }), 'INVALID_ARGUMENT', /^agentId\.agent/);
      expectError(await spawn({ agent: ['root', name] }), 'INVALID_ARGUMENT', /^agentId\.agent/);
      expectError(await status({ agent: [name] }), 'INVALID_ARGUMENT', /^agentId\.agent/);
    },
  );

  test.each(['.', '..', 'a/b', 'a b', 'a'.repeat(129)])('%j is not a workspace name', async (workspace) => {
    expectError(await spawn({ agent: ['w'], workspace }), 'INVALID_ARGUMENT', 'agentId.workspace');
  });

  test('a child’s path is its parent’s plus one element, to a depth of 8', async () => {
    const path: string[] = [];
    for (let depth = 1; depth <= 8; depth += 1) {
      path.push(`d${depth}`);
      expect((await spawned({ agent: path })).agent).toEqual(path);
    }
    expectError(await spawn({ agent: [...path, 'd9'] }), 'INVALID_ARGUMENT', /^agentId\.agent/);
  });

  test.each<[what: string, body: Fields]>([
    ['no agentId', {}],
    ['an empty agentId', { agentId: {} }],
    ['an empty path', { agentId: { agent: [] } }],
  ])('a spawn with %s gets a generated readable name', async (_what, body) => {
    const first = await api.post<SpawnReply>('/v1/agent/spawn', { description: 'x', ...body });
    const second = await api.post<SpawnReply>('/v1/agent/spawn', { description: 'x', ...body });
    for (const { status: http, body: reply } of [first, second]) {
      expect(http).toBe(200);
      expect(reply.agentId).toMatchObject({ ...caller(), workspace: 'default' });
      expect(reply.agentId.agent).toEqual([expect.stringMatching(/^[A-Za-z][A-Za-z0-9._-]{2,60}$/)]);
      expect((await status(reply.agentId)).status).toBe(200);
    }
    expect(second.body.agentId.agent).not.toEqual(first.body.agentId.agent);
  });

  test.each(operations)('an empty path in any other request is refused: %s', async (route, more) => {
    for (const body of [{}, { agentId: null }, { agentId: {} }, { agentId: { agent: [] } }]) {
      expectError(await api.post(`/v1/${route}`, { ...more, ...body }), 'INVALID_ARGUMENT', /^agentId/);
    }
  });

  test.each(operations)('on an agent that does not exist, %s is NOT_FOUND', async (route, more) => {
    const agentId = { workspace: 'default', agent: ['nobody'] };
    expectError(await api.post(`/v1/${route}`, { ...more, agentId }), 'NOT_FOUND');
    expectError(await api.post(`/v1/${route}`, { ...more, agentId: { agent: ['nobody'] } }), 'NOT_FOUND');
  });
});

describe('other tenants', () => {
  let foreign: { tenant: Fields; admin: Api };
  beforeAll(async () => {
    const made = await newTenant(server.operator);
    foreign = { tenant: { ...made.tenant }, admin: made.admin };
    await spawned({ agent: ['theirs'] }, foreign.admin);
  });

  test.each(operations)(
    'another tenant’s agent is PERMISSION_DENIED, whether or not it exists: %s',
    async (route, more) => {
      const answers = await Promise.all(
        ['theirs', 'nobody'].map((name) =>
          api.post<{ message: string }>(`/v1/${route}`, {
            ...more,
            agentId: { ...caller(), tenant: foreign.tenant, workspace: 'default', agent: [name] },
          }),
        ),
      );
      for (const answer of answers) expectError(answer, 'PERMISSION_DENIED');
      const [existing, missing] = answers.map(({ body }) => JSON.stringify(body));
      expect(existing?.replaceAll('theirs', 'nobody')).toBe(missing);
    },
  );

  test('spawning into another tenant and listing it are PERMISSION_DENIED', async () => {
    expectError(await spawn({ tenant: foreign.tenant, agent: ['spy'] }), 'PERMISSION_DENIED');
    expectError(await spawn({ tenant: foreign.tenant, agent: ['theirs', 'spy'] }), 'PERMISSION_DENIED');
    expectError(await api.post('/v1/agents', { tenant: foreign.tenant }), 'PERMISSION_DENIED');
    expectError(
      await api.post('/v1/agents', { parentId: { tenant: foreign.tenant, agent: ['theirs'] } }),
      'PERMISSION_DENIED',
    );
    expectError(
      await api.post('/v1/agents', { tenant: { provider: 'PROVIDER_IDP_OIDC', org: server.tenant.org } }),
      'PERMISSION_DENIED',
    );
  });

  test('the same names in two tenants are two agents', async () => {
    const mine = await spawned({ agent: ['common'] });
    const theirs = await spawned({ agent: ['common'] }, foreign.admin);
    expect(mine.tenant).toEqual(server.tenant);
    expect(theirs.tenant).toEqual(foreign.tenant);
    await kill(mine as Fields);
    expect((await status(theirs as Fields, foreign.admin)).body.phase).toBe('PHASE_PENDING');
  });

  test('an operator may use every tenant', async () => {
    const { body: whole } = await status({ agent: ['theirs'] }, foreign.admin);
    const { status: http, body } = await status(whole.agentId as Fields, server.operator);
    expect({ http, id: body.agentId }).toEqual({ http: 200, id: whole.agentId });
  });
});

describe('provider names', () => {
  test.each(['codehost_oauth', 'codehost_app', 'idp_oidc', 'service_profile'])(
    '%s/<account> names an owner',
    async (name) => {
      const ownerProvider = `PROVIDER_${name.toUpperCase()}`;
      if (name === 'service_profile') await writeResource(api, 'profile', 'named', {});
      const id = await spawned({ ownerProvider, account: 'named', agent: ['named'] });
      const { body } = await api.post<{ entries: AgentEntry[] }>('/v1/agents', { account: `${name}/named` });
      expect(body.entries.map((entry) => entry.agentId)).toEqual([id]);
    },
  );

  test.each(['github/ann', 'PROVIDER_IDP_OIDC/ann', 'unspecified/ann', '/ann', 'a/b/c'])(
    '%j is not the name of an owner',
    async (account) => {
      expectError(await api.post('/v1/agents', { account }), 'INVALID_ARGUMENT', 'account');
    },
  );
});

import type { AgentEntry, AgentId, AgentStatus, SpawnReply, TimelineEntry } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { writeResource } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { type Server, startServer } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { inAnHour, newTestTenant } from '../support/test-tenant.ts';

let server: Server;
let api: Api;

beforeAll(async () => {
  server = await startServer({ runner: false });
  api = apiOf(server);
});
afterAll(() => server.close());

const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: 'local' };
const caller = { tenant, ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account: 'admin' };
type Id = Record<string, unknown>;

const spawn = (agentId: Id, by = api) =>
  by.post<SpawnReply>('/v1/agent/spawn', { agentId, description: 'x' });
const status = (agentId: Id, by = api) => by.post<AgentStatus>('/v1/agent/status', { agentId });
const kill = (agentId: Id) => api.post('/v1/agent/kill', { agentId });

async function spawned(agentId: Id, by = api): Promise<AgentId> {
  const { status: http, body } = await spawn(agentId, by);
  expect(http, JSON.stringify(body)).toBe(200);
  return body.agentId;
}

/** Every operation that names one agent, with a body that is valid except for the agent. */
const operations: [route: string, more: Id][] = [
  ['agent/status', {}],
  ['agent/wait', {}],
  ['agent/queue', { description: 'hello' }],
  ['agent/queue/remove', { followUpId: 'f' }],
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
      ...caller,
      workspace: 'rule-1',
      agent: ['rule-1'],
    });
  });

  test.each<[what: string, sent: Id]>([
    ['tenant absent', {}],
    ['tenant empty', { tenant: {} }],
    ['tenant null', { tenant: null }],
    ['tenant.provider absent', { tenant: { org: 'local' } }],
    ['tenant.provider empty', { tenant: { provider: '', org: 'local' } }],
    ['tenant.provider unspecified', { tenant: { provider: 'PROVIDER_UNSPECIFIED', org: 'local' } }],
    ['tenant.org absent', { tenant: { provider: 'PROVIDER_CODEHOST_APP' } }],
    ['tenant.org empty', { tenant: { provider: 'PROVIDER_CODEHOST_APP', org: '' } }],
    ['ownerProvider absent', { tenant, account: 'admin' }],
    ['ownerProvider empty', { tenant, account: 'admin', ownerProvider: '' }],
    ['ownerProvider unspecified', { tenant, account: 'admin', ownerProvider: 'PROVIDER_UNSPECIFIED' }],
    ['account absent', { tenant, ownerProvider: 'PROVIDER_CODEHOST_OAUTH' }],
    ['account empty', { tenant, ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account: '' }],
  ])('with %s the rest is filled in, at spawn and when the agent is named again', async (what, sent) => {
    const agent = [`fill-${what.replace(/\W/g, '-')}`];
    const whole = { ...caller, workspace: 'default', agent };
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
      tenant,
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
    await kill(ids[1] as Id);
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

  test.each<[what: string, body: Id]>([
    ['no agentId', {}],
    ['an empty agentId', { agentId: {} }],
    ['an empty path', { agentId: { agent: [] } }],
  ])('a spawn with %s gets a generated readable name', async (_what, body) => {
    const first = await api.post<SpawnReply>('/v1/agent/spawn', { description: 'x', ...body });
    const second = await api.post<SpawnReply>('/v1/agent/spawn', { description: 'x', ...body });
    for (const { status: http, body: reply } of [first, second]) {
      expect(http).toBe(200);
      expect(reply.agentId).toMatchObject({ ...caller, workspace: 'default' });
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

describe('the workspace', () => {
  test('an empty workspace at spawn is `default` for a root and the parent’s for a child', async () => {
    expect((await spawned({ workspace: '', agent: ['ws-root'] })).workspace).toBe('default');
    await spawned({ workspace: 'ws-of-parent', agent: ['ws-parent'] });
    expect((await spawned({ agent: ['ws-parent', 'c'] })).workspace).toBe('ws-of-parent');
    expect((await spawned({ agent: ['ws-parent', 'c', 'd'] })).workspace).toBe('ws-of-parent');
  });

  test('a workspace name without a resource is a plain workspace with no repos', async () => {
    await spawned({ workspace: 'plain', agent: ['in-plain'] });
    const { body } = await status({ agent: ['in-plain'] });
    expect(body).toMatchObject({ agentId: { workspace: 'plain' }, repos: [] });
  });

  test('the spawn reply and the timeline warn about a workspace name without a resource, every time', async () => {
    const said = 'The workspace "nowhere" has no resource in the catalog: the agent has no repository.';
    const request = { agentId: { workspace: 'nowhere', agent: ['in-nowhere'] }, description: 'x' };
    for (const _ of ['first', 'again']) {
      const answer = await api.post('/v1/agent/spawn', request, { 'idempotency-key': 'nowhere' });
      expectOk(answer);
      expect(answer.headers.get('muster-warning')).toBe(said);
    }
    const { body } = await api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', {
      agentId: request.agentId,
    });
    expect(body.entries.filter(({ type }) => type === 'WARNING').map(({ text }) => text)).toEqual([said]);
    await writeResource(api, 'workspace', 'somewhere', {});
    for (const agentId of [
      { workspace: 'somewhere', agent: ['in-somewhere'] },
      { workspace: 'default', agent: ['in-default'] },
      { agent: ['in-nowhere', 'child'] },
    ])
      expect((await spawn(agentId)).headers.get('muster-warning')).toBeNull();
  });

  test('a workspace scopes the agent’s repos', async () => {
    const repos = ['https://git.example/one.git', 'https://git.example/two.git'];
    await writeResource(api, 'workspace', 'with-repos', { repos: [repos[0], { url: repos[1] }] });
    await spawned({ workspace: 'with-repos', agent: ['in-repos'] });
    expect((await status({ agent: ['in-repos'] })).body.repos).toEqual(repos);
  });

  test('in other requests an empty workspace means the only live agent of that path', async () => {
    await spawned({ workspace: 'm1', agent: ['match'] });
    await kill({ workspace: 'm1', agent: ['match'] });
    await spawned({ workspace: 'm2', agent: ['match'] });
    await spawned({ workspace: 'm3', agent: ['match'] });
    await kill({ workspace: 'm3', agent: ['match'] });
    expect((await status({ agent: ['match'] })).body.agentId.workspace).toBe('m2');
    expect((await kill({ agent: ['match'] })).status).toBe(200);
    expect((await status({ workspace: 'm2', agent: ['match'] })).body.phase).toBe('PHASE_CANCELED');
  });

  test('an agent of another owner does not match', async () => {
    await spawned({ workspace: 'o1', agent: ['owned'], account: 'first' });
    await spawned({ workspace: 'o2', agent: ['owned'], account: 'second' });
    expect((await status({ agent: ['owned'], account: 'second' })).body.agentId.workspace).toBe('o2');
    expectError(await status({ agent: ['owned'] }), 'NOT_FOUND');
  });

  test('several live matches are refused with a list of them, and nothing changes', async () => {
    const ids = [
      { workspace: 'several-1', agent: ['several'] },
      { workspace: 'several-2', agent: ['several'] },
    ];
    for (const id of ids) await spawned(id);
    for (const route of ['agent/status', 'agent/kill', 'agent/wait']) {
      const answer = await api.post<{ message: string }>(`/v1/${route}`, { agentId: { agent: ['several'] } });
      expectError(answer, 'INVALID_ARGUMENT', 'agentId.workspace');
      expect(JSON.stringify(answer.body)).toMatch(/several-1.*several-2|several-2.*several-1/);
    }
    for (const id of ids) expect((await status(id)).body.phase).toBe('PHASE_PENDING');
  });

  test('without a live match it means the newest agent that has ended', async () => {
    for (const workspace of ['t1', 't2']) {
      await spawned({ workspace, agent: ['ended'] });
      await kill({ workspace, agent: ['ended'] });
    }
    expect((await status({ agent: ['ended'] })).body.agentId.workspace).toBe('t2');
    await spawned({ workspace: 't1', agent: ['ended'] });
    await kill({ workspace: 't1', agent: ['ended'] });
    expect((await status({ agent: ['ended'] })).body.agentId.workspace).toBe('t1');
  });

  test('for a child whose parent lives in several workspaces the workspace is required', async () => {
    await spawned({ workspace: 'two-1', agent: ['two'] });
    await spawned({ workspace: 'two-2', agent: ['two'] });
    expectError(await spawn({ agent: ['two', 'c'] }), 'INVALID_ARGUMENT', 'agentId.workspace');
    expect((await spawned({ workspace: 'two-2', agent: ['two', 'c'] })).workspace).toBe('two-2');
  });
});

describe('children', () => {
  test('a child has its parent’s model, unless the child or its persona names another', async () => {
    const modelOf = async (agentId: Id, fields = {}) => {
      expectOk(await api.post('/v1/agent/spawn', { agentId, description: 'x', ...fields }));
      return (await status(agentId)).body.model;
    };
    await writeResource(api, 'persona', 'small', { model: 'haiku' });
    await writeResource(api, 'workspace', 'of-b', { model: 'gpt-5.5' });
    const at = (...path: string[]) => ({ workspace: 'of-b', agent: ['model', ...path] });
    expect(await modelOf(at(), { model: 'opus' })).toBe('opus');
    expect(await modelOf(at('plain'))).toBe('opus');
    expect(await modelOf({ agent: ['model', 'plain', 'below'] })).toBe('opus');
    expect(await modelOf(at('of-persona'), { agent: 'small' })).toBe('haiku');
    expect(await modelOf(at('named'), { model: 'sonnet' })).toBe('sonnet');
    expect(await modelOf(at('effort'), { reasoningEffort: 'max' })).toBe('opus');
    expect(await modelOf({ workspace: 'of-b', agent: ['other-root'] })).toBe('gpt-5.5');
  });

  test('a child has its parent’s workspace and owner; other values are refused', async () => {
    await spawned({ workspace: 'home', account: 'kin', agent: ['kin'] });
    const child = { account: 'kin', agent: ['kin', 'child'] };
    expectError(await spawn({ ...child, workspace: 'away' }), 'INVALID_ARGUMENT', 'agentId.workspace');
    expectError(
      await spawn({ ...child, workspace: 'home', account: 'stranger' }),
      'INVALID_ARGUMENT',
      'agentId.account',
    );
    expectError(
      await spawn({ ...child, workspace: 'home', ownerProvider: 'PROVIDER_IDP_OIDC' }),
      'INVALID_ARGUMENT',
      'agentId.ownerProvider',
    );
    expect(await spawned(child)).toEqual({ ...caller, ...child, workspace: 'home' });
  });

  test('a missing parent is NOT_FOUND', async () => {
    expectError(await spawn({ agent: ['orphanage', 'orphan'] }), 'NOT_FOUND');
    await spawned({ agent: ['orphanage'] });
    expectError(await spawn({ agent: ['orphanage', 'gap', 'orphan'] }), 'NOT_FOUND');
  });

  test('a terminal parent is FAILED_PRECONDITION', async () => {
    await spawned({ agent: ['late-parent'] });
    await kill({ agent: ['late-parent'] });
    expectError(await spawn({ agent: ['late-parent', 'child'] }), 'FAILED_PRECONDITION');
    expectError(
      await spawn({ workspace: 'default', agent: ['late-parent', 'child'] }),
      'FAILED_PRECONDITION',
    );
  });
});

describe('other tenants', () => {
  let operator: Api;
  let foreign: { tenant: Id; admin: Api };
  beforeAll(async () => {
    operator = await operatorOf(server);
    const made = await newTenant(operator);
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
            agentId: { ...caller, tenant: foreign.tenant, workspace: 'default', agent: [name] },
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
      await api.post('/v1/agents', { tenant: { provider: 'PROVIDER_IDP_OIDC', org: 'local' } }),
      'PERMISSION_DENIED',
    );
  });

  test('the same names in two tenants are two agents', async () => {
    const mine = await spawned({ agent: ['common'] });
    const theirs = await spawned({ agent: ['common'] }, foreign.admin);
    expect(mine.tenant).toEqual(tenant);
    expect(theirs.tenant).toEqual(foreign.tenant);
    await kill(mine as Id);
    expect((await status(theirs as Id, foreign.admin)).body.phase).toBe('PHASE_PENDING');
  });

  test('an operator may use every tenant', async () => {
    const { body: whole } = await status({ agent: ['theirs'] }, foreign.admin);
    const { status: http, body } = await status(whole.agentId as Id, operator);
    expect({ http, id: body.agentId }).toEqual({ http: 200, id: whole.agentId });
  });
});

describe('reuse of an identity', () => {
  test('spawning onto a live agent is ALREADY_EXISTS', async () => {
    await spawned({ agent: ['taken'] });
    expectError(await spawn({ agent: ['taken'] }), 'ALREADY_EXISTS');
    expectError(await spawn({ ...caller, workspace: 'default', agent: ['taken'] }), 'ALREADY_EXISTS');
  });

  test('one of two concurrent spawns succeeds', async () => {
    const answers = await Promise.all([1, 2, 3, 4].map(() => spawn({ agent: ['contested'] })));
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 409, 409, 409]);
  });

  test('a new agent may take the identity of an ended one; reads and lists show the newest', async () => {
    const t = await newTestTenant(api);
    await t.spawn('again', { description: 'first', tasks: [{ id: 'old', subject: 'old' }] });
    const first = await t.start('again');
    await t.report(first, { session: 'first-session', usage: { inputTokens: 5, costUsd: 1 } });
    await t.end(first, 'COMPLETED', { response: 'first' });
    await t.queue('again', { description: 'kept', deliverAt: inAnHour() });
    await t.kill('again');
    expect(await t.spawn('again', { description: 'second' })).toMatchObject({ runCount: '0' });
    expect(await t.status('again')).toMatchObject({
      phase: 'PHASE_PENDING',
      description: 'second',
      response: '',
      runCount: '0',
      run: null,
      tasks: [],
      followUps: [],
      cost: 0,
      inputTokens: '0',
      endedAt: null,
    });
    expect(await t.timeline('again', 'AGENT_SPAWNED', 'RUN_STARTED')).toHaveLength(1);
    const { body } = await api.post<{ entries: AgentEntry[] }>('/v1/agents', {
      workspace: t.workspace,
      includeTerminal: true,
    });
    expect(body.entries.map(({ phase }) => phase)).toEqual(['PHASE_PENDING']);
    const second = await t.claim('again');
    expect(second.agentKey).not.toBe(first.agentKey);
    expect(second).toMatchObject({ runId: 1, session: '', attempt: 1 });
  });

  test('an identity is taken while a descendant of its ended agent lives', async () => {
    const t = await newTestTenant(api);
    await t.spawn('elder');
    await t.spawn('elder/young');
    const elder = await t.start('elder');
    await t.turn('elder/young');
    await t.end(elder, 'COMPLETED');
    await t.turn('elder', { finished: true });
    expect(await t.phase('elder')).toBe('COMPLETED/FINISHED');
    expect(await t.phase('elder/young')).toBe('WAITING_FOR_INPUT/RESTING');
    expectError(await spawn(t.id('elder')), 'ALREADY_EXISTS');
    await t.kill('elder/young');
    expect((await spawn(t.id('elder'))).status).toBe(200);
    expect((await t.status('elder')).children).toEqual([]);
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

import { randomUUID } from 'node:crypto';
import { networkInterfaces } from 'node:os';
import type { AgentId, AgentStatus, Caller, Claim } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type Api, agent, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import {
  createKey,
  createShareLink,
  decode,
  encode,
  postResource,
  readDocument,
  readResource,
  uniqueName,
} from '../support/catalog.ts';
import { routeEntries } from '../support/contract-schemas.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { newFakeRunner } from '../support/fake-runner.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { type Server, startServer } from '../support/server.ts';
import { openRequest } from '../support/streams.ts';
import { newTenant, operatorOf, tenantOf } from '../support/tenants.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

let server: Server;
let admin: Api;
let operator: Api;
let member: Api;
let viewer: Api;
let t: TestTenant;

const local = { provider: 'PROVIDER_CODEHOST_APP', org: 'local' } as const;

beforeAll(async () => {
  server = await startServer({ runner: false });
  admin = apiOf(server);
  operator = await operatorOf(server);
  member = (await createKey(admin, { role: 'member', account: 'mia' })).api;
  viewer = (await createKey(admin, { role: 'viewer', account: 'vic' })).api;
  t = await newTestTenant(admin);
});
afterAll(() => server?.close());

const whoami = async (caller: Api): Promise<Caller> => expectOk(await caller.get<Caller>('/v1/whoami'));

/** A pending agent of this account, with one task. */
async function agentOf(account: string, ownerProvider = 'PROVIDER_CODEHOST_OAUTH'): Promise<AgentId> {
  const body = {
    agentId: { ownerProvider, account, agent: [uniqueName('agent')] },
    description: 'work',
    tasks: [{ id: 't', subject: 'one' }],
  };
  return expectOk(await admin.post<{ agentId: AgentId }>('/v1/agent/spawn', body)).agentId;
}

const untilRefused = async (caller: Api): Promise<void> => {
  const refused = await until(
    'the key refused',
    () => caller.get('/v1/whoami'),
    ({ status }) => status !== 200,
  );
  expectError(refused, 'UNAUTHENTICATED');
};

describe('credentials', () => {
  test('every request has a bearer key of the form <key_prefix>_<key_id>.<secret>', async () => {
    const { key, api } = await createKey(admin, {});
    expect(key).toMatch(/^mst_[^_.]+\.[^.]+$/);
    expect((await whoami(api)).keyId).toBe(/^mst_([^.]+)\./.exec(key)?.[1]);
    const secret = key.slice(key.indexOf('.') + 1);
    expect(secret.length * Math.log2(64), 'at least 160 random bits').toBeGreaterThanOrEqual(160);
  });

  /** Routes without a key are tested in sign-in.test.ts. */
  const keyed = routeEntries.filter(([, { access }]) => access !== 'own-page');

  test.each(keyed)('%s without a credential is UNAUTHENTICATED', async (_, route) => {
    const path = route.path.replace('{ref.kind}', 'persona').replace('{ref.name}', 'default');
    const answer = await sendRaw(server.url, { method: route.method, path });
    expectError(answer, 'UNAUTHENTICATED');
  });

  test.each<[what: string, header: (key: string) => string]>([
    ['empty', () => ''],
    ['a scheme without a key', () => 'Bearer'],
    ['a scheme and a space', () => 'Bearer '],
    ['a key without a scheme', (key) => key],
    ['another scheme', (key) => `Basic ${Buffer.from(`x:${key}`).toString('base64')}`],
    ['a word', () => 'Bearer secret'],
    ['another prefix', (key) => `Bearer ${key.replace('mst_', 'key_')}`],
    ['no prefix', (key) => `Bearer ${key.replace('mst_', '')}`],
    ['no secret', (key) => `Bearer ${key.split('.')[0]}`],
    ['an empty secret', (key) => `Bearer ${key.split('.')[0]}.`],
    ['no key id', (key) => `Bearer mst_.${key.split('.')[1]}`],
    ['a beginning of the secret', (key) => `Bearer ${key.slice(0, -1)}`],
    ['the secret and one character more', (key) => `Bearer ${key}x`],
    ['the secret twice', (key) => `Bearer ${key}.${key.split('.')[1]}`],
    ['another last character', (key) => `Bearer ${key.slice(0, -1)}${key.endsWith('a') ? 'b' : 'a'}`],
    ['the secret in another case', (key) => `Bearer ${flip(key)}`],
    ['an unknown key id', (key) => `Bearer mst_unknown.${key.split('.')[1]}`],
    ['a wrong secret', (key) => `Bearer ${key.split('.')[0]}.${'wrong'.repeat(8)}`],
    ['SQL', (key) => `Bearer ${key.split('.')[0]}' or '1'='1.x`],
    ['ten thousand characters long', () => `Bearer mst_${'x'.repeat(5_000)}.${'x'.repeat(5_000)}`],
  ])('an Authorization header that is %s is UNAUTHENTICATED', async (_, header) => {
    const { key } = await createKey(admin, {});
    const headers = { authorization: header(key) };
    const answer = await sendRaw(server.url, { method: 'GET', path: '/v1/whoami', headers });
    expectError(answer, 'UNAUTHENTICATED');
    expect(answer.text).not.toContain(key.split('.')[1]);
  });

  const flip = (key: string): string => {
    const dot = key.indexOf('.');
    const tail = key
      .slice(dot + 1)
      .replace(/[a-z]/i, (letter) =>
        letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
      );
    return `${key.slice(0, dot)}.${tail}`;
  };

  test('a key in the query or in the body is not a credential', async () => {
    const { key } = await createKey(admin, {});
    const path = `/v1/agents?access_token=${key}&key=${key}`;
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ key, authorization: `Bearer ${key}` });
    expectError(await sendRaw(server.url, { path, headers, body }), 'UNAUTHENTICATED');
  });

  test('one key id with the secret of another is UNAUTHENTICATED', async () => {
    const [one, two] = [await createKey(admin, {}), await createKey(admin, {})];
    const mixed = `${one.key.split('.')[0]}.${two.key.split('.')[1]}`;
    expectError(await admin.as(mixed).get('/v1/whoami'), 'UNAUTHENTICATED');
  });

  test('tenant and account of an agent are the caller’s when omitted', async () => {
    const name = uniqueName('derived');
    const body = { agentId: agent(name), description: 'x' };
    const { agentId } = expectOk(await member.post<{ agentId: AgentId }>('/v1/agent/spawn', body));
    expect(agentId).toEqual({
      tenant: local,
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'mia',
      agent: [name],
      workspace: 'default',
    });
  });

  test('whoami returns tenant, owner, key id, role and expiry, and nothing else', async () => {
    expect(await whoami(admin)).toEqual({
      tenant: local,
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'admin',
      keyId: /^mst_([^.]+)\./.exec(server.key)?.[1],
      role: 'admin',
      expiresAt: null,
    });
    const expiresAt = '2099-01-01T00:00:00.000Z';
    const document = {
      role: 'viewer',
      ownerProvider: 'PROVIDER_SERVICE_PROFILE',
      account: 'robot',
      expiresAt,
    };
    const { api } = await createKey(admin, document);
    const seen = await whoami(api);
    expect(seen).toMatchObject({
      role: 'viewer',
      ownerProvider: 'PROVIDER_SERVICE_PROFILE',
      account: 'robot',
    });
    expect(new Date(seen.expiresAt ?? 0)).toEqual(new Date(expiresAt));
  });

  test('the bootstrap key is an admin of the first tenant', async () => {
    const first = await whoami(admin);
    expect(first.tenant).toEqual({ provider: 'PROVIDER_CODEHOST_APP', org: 'local' });
    expect([first.ownerProvider, first.account, first.role]).toEqual([
      'PROVIDER_CODEHOST_OAUTH',
      'admin',
      'admin',
    ]);
  });
});

describe('roles', () => {
  type Role = 'viewer' | 'member' | 'admin' | 'operator';
  const roles: readonly Role[] = ['viewer', 'member', 'admin', 'operator'];
  const callers = (): Record<Role, Api> => ({ viewer, member, admin, operator });
  /** The account of each role. */
  const accountOf: Record<Role, string> = { viewer: 'vic', member: 'mia', admin: 'admin', operator: 'opal' };
  const yes = 200;
  const no = 403;

  const expectCell = (answer: Answer<unknown>, cell: number): void => {
    if (cell === yes) expectOk(answer);
    else expectError(answer, 'PERMISSION_DENIED');
  };
  /** The fields that a catalog write of this role needs besides the document. */
  const moreFor = (role: Role) =>
    role === 'operator' ? { ref: { tenant: local }, justification: 'a test' } : {};

  const inTenant = (path: string, role: Role): string =>
    role === 'operator' ? `${path}?provider=${local.provider}&org=${local.org}` : path;

  type Act = (caller: Api, role: Role) => Promise<Answer<unknown>>;
  const onAgent =
    (route: string, whose: (role: Role) => string, more: Record<string, unknown> = {}): Act =>
    async (caller, role) =>
      caller.post(`/v1/agent/${route}`, { agentId: await agentOf(whose(role)), ...more });
  const own = (role: Role) => accountOf[role];
  const others = () => 'max';

  const reads: [string, Act][] = [
    ['read the status of an agent', onAgent('status', others)],
    ['read its timeline', onAgent('timeline', others)],
    ['read its runs', onAgent('runs', others)],
    ['read its tasks', onAgent('tasks', others)],
    ['read its diff', onAgent('diff', others)],
    ['list every account', (caller) => caller.post('/v1/agents', { account: '*', tenant: local })],
    ['read a resource', (caller, role) => caller.get(inTenant('/v1/catalog/persona/default', role))],
    ['list resources', (caller, role) => caller.get(inTenant('/v1/catalog/token', role))],
    [
      'read a history',
      async (caller, role) => {
        const name = uniqueName('audited');
        expectOk(await postResource(admin, 'profile', name, {}));
        return caller.get(inTenant(`/v1/catalog/profile/${name}/history`, role));
      },
    ],
  ];
  test.each(reads.flatMap(([what, act]) => roles.map((role) => [role, what, act] as const)))(
    '%s of the tenant may %s',
    async (role, _, act) => {
      expectCell(await act(callers()[role], role), yes);
    },
  );

  test('a viewer may wait, which is a read', async () => {
    const agentId = await agentOf('max');
    expectOk(await admin.post('/v1/agent/kill', { agentId }));
    expectOk(await viewer.post('/v1/agent/wait', { agentId }));
    expectOk(await viewer.post('/v1/agents/wait', { agentIds: [agentId] }));
  });

  test('an operator reads every tenant, the others only their own', async () => {
    const away = await newTenant(operator);
    const body = { agentId: agent(uniqueName('away')), description: 'x' };
    const { agentId } = expectOk(await away.admin.post<{ agentId: AgentId }>('/v1/agent/spawn', body));
    const query = `?ref.tenant.provider=${away.tenant.provider}&ref.tenant.org=${away.tenant.org}`;
    for (const role of roles) {
      const cell = role === 'operator' ? yes : no;
      const caller = callers()[role];
      expectCell(await caller.post('/v1/agent/status', { agentId }), cell);
      expectCell(await caller.post('/v1/agent/timeline', { agentId }), cell);
      expectCell(await caller.post('/v1/agents', { tenant: away.tenant, account: '*' }), cell);
      expectCell(await caller.get(`/v1/catalog/persona/default${query}`), cell);
      expectCell(await caller.get(`/v1/catalog/persona${query}`), cell);
    }
  });

  const commands: [route: string, more: Record<string, unknown>][] = [
    ['queue', { description: 'more' }],
    ['queue/remove', { followUpId: 'none' }],
    ['clear-follow-ups', {}],
    ['kill', {}],
    ['tasks/create', { tasks: [{ subject: 'two' }] }],
    ['tasks/update', { id: 't', subject: 'changed' }],
  ];
  const ownCells: Record<Role, number> = { viewer: no, member: yes, admin: yes, operator: yes };
  const otherCells: Record<Role, number> = { viewer: no, member: no, admin: yes, operator: yes };

  test.each(
    commands.flatMap(([route, more]) => roles.map((role) => [role, ownCells[role], route, more] as const)),
  )('%s, %i: %s on an agent of its own', async (role, cell, route, more) => {
    expectCell(await onAgent(route, own, more)(callers()[role], role), cell);
  });

  test.each(
    commands.flatMap(([route, more]) => roles.map((role) => [role, otherCells[role], route, more] as const)),
  )("%s, %i: %s on another account's agent", async (role, cell, route, more) => {
    expectCell(await onAgent(route, others, more)(callers()[role], role), cell);
  });

  test.each(roles)('stop-turn is a command to a %s', async (role) => {
    for (const [whose, cells] of [
      [own, ownCells],
      [others, otherCells],
    ] as const) {
      const answer = await onAgent('stop-turn', whose, { runId: '1' })(callers()[role], role);
      // A caller with permission is told that no turn is running.
      if (cells[role] === yes) expectError(answer, 'INVALID_ARGUMENT', 'runId');
      else expectError(answer, 'PERMISSION_DENIED');
    }
  });

  test('a member does not own the agents of the same account of another provider', async () => {
    const agentId = await agentOf('mia', 'PROVIDER_IDP_OIDC');
    expectError(await member.post('/v1/agent/kill', { agentId }), 'PERMISSION_DENIED');
  });

  test.each<[what: string, owner: Record<string, string>, cells: Record<Role, number>]>([
    ['for itself', {}, { viewer: no, member: yes, admin: yes, operator: yes }],
    ['for another account', { account: 'max' }, { viewer: no, member: no, admin: yes, operator: yes }],
    [
      'for another provider',
      { ownerProvider: 'PROVIDER_SERVICE_PROFILE', account: 'mia' },
      { viewer: no, member: no, admin: yes, operator: yes },
    ],
  ])('spawn %s', async (_, owner, cells) => {
    for (const role of roles) {
      const agentId = { tenant: local, ...owner, agent: [uniqueName('spawn')] };
      const answer = await callers()[role].post<{ agentId: AgentId }>('/v1/agent/spawn', {
        agentId,
        description: 'x',
      });
      expectCell(answer, cells[role]);
      if (cells[role] === yes) expect(answer.body.agentId).toMatchObject(agentId);
    }
  });

  test('a member may not spawn below another account, an admin may', async () => {
    const parent = await agentOf('max');
    for (const [caller, cell] of [
      [member, no],
      [admin, yes],
    ] as const) {
      const agentId = { ...parent, agent: [...parent.agent, uniqueName('child')] };
      expectCell(await caller.post('/v1/agent/spawn', { agentId, description: 'x' }), cell);
    }
  });

  test('an operator commands every tenant, the others only their own', async () => {
    const away = await newTenant(operator);
    for (const role of roles) {
      const cell = role === 'operator' ? yes : no;
      const agentId = { tenant: away.tenant, account: 'chief', agent: [uniqueName('away')] };
      expectOk(await away.admin.post('/v1/agent/spawn', { agentId, description: 'x' }));
      const caller = callers()[role];
      expectCell(await caller.post('/v1/agent/queue', { agentId, description: 'x' }), cell);
      expectCell(await caller.post('/v1/agent/kill', { agentId }), cell);
      const spawn = { agentId: { ...agentId, agent: [uniqueName('away')] }, description: 'x' };
      expectCell(await caller.post('/v1/agent/spawn', spawn), cell);
    }
  });

  const byMembers: Record<Role, number> = { viewer: no, member: yes, admin: yes, operator: yes };
  const byAdmins: Record<Role, number> = { viewer: no, member: no, admin: yes, operator: yes };

  type Write = readonly [what: string, kind: string, document: (role: Role) => unknown | Promise<unknown>];
  const memberWrites: Write[] = [
    ['a persona', 'persona', () => ({ instructions: 'x' })],
    ['a share link of an own agent', 'share-link', async (role) => ({ agentId: await agentOf(own(role)) })],
    ['a token of the own account', 'token', (role) => (role === 'operator' ? { account: 'opal' } : {})],
  ];
  const adminWrites: Write[] = [
    ['a workspace', 'workspace', () => ({})],
    ['an environment', 'environment', () => ({})],
    ['a profile', 'profile', () => ({})],
    ['a vm-profile', 'vm-profile', () => ({})],
    ['a pool', 'pool', () => ({})],
    ['an integration', 'integration', () => ({})],
    ["another account's token", 'token', () => ({ account: 'max' })],
    ['a token of another provider', 'token', () => ({ ownerProvider: 'PROVIDER_SERVICE_PROFILE' })],
    ["a runner's token", 'token', () => ({ role: 'runner', pool: 'default' })],
    [
      "a share link of another account's agent",
      'share-link',
      async () => ({ agentId: await agentOf('max') }),
    ],
  ];

  test.each([
    ...memberWrites.map((write) => [...write, byMembers] as const),
    ...adminWrites.map((write) => [...write, byAdmins] as const),
  ])('who writes %s', async (_, kind, document, cells) => {
    for (const role of roles) {
      const name = uniqueName('row');
      const answer = await postResource(callers()[role], kind, name, await document(role), moreFor(role));
      expectCell(answer, cells[role]);
      if (cells[role] === no) expectError(await readResource(admin, kind, name), 'NOT_FOUND');
    }
  });

  test.each([
    ...memberWrites.map(([what, kind]) => [what, kind, byMembers] as const),
    ...adminWrites.slice(0, 6).map(([what, kind]) => [what, kind, byAdmins] as const),
  ])('who deletes %s', async (_, kind, cells) => {
    for (const role of roles) {
      const name = uniqueName('row');
      const agentId = await agentOf(own(role));
      const document = kind === 'share-link' ? { agentId } : kind === 'token' ? { account: own(role) } : {};
      const creator = kind === 'persona' && role === 'member' ? member : admin;
      expectOk(await postResource(creator, kind, name, document));
      const path = inTenant(`/v1/catalog/${kind}/${name}`, role);
      const reason = role === 'operator' ? '&justification=a+test' : '';
      expectCell(await callers()[role].del(path + reason), cells[role]);
    }
  });

  test.each(
    [...memberWrites, ...adminWrites].map(([what, kind, document]) => [what, kind, document] as const),
  )('an operator writes %s only with a justification', async (_, kind, document) => {
    const more = { ref: { tenant: local } };
    const answer = await postResource(operator, kind, uniqueName('row'), await document('operator'), more);
    expectError(answer, 'INVALID_ARGUMENT', 'justification');
  });

  test('only an operator creates tokens for another tenant, which creates the tenant', async () => {
    const tenant = tenantOf(uniqueName('created'), 'PROVIDER_IDP_OIDC');
    const document = { role: 'admin', ownerProvider: 'PROVIDER_IDP_OIDC', account: 'ada@example.org' };
    for (const caller of [viewer, member, admin]) {
      const more = { ref: { tenant }, justification: 'please' };
      expectError(await postResource(caller, 'token', 'first', document, more), 'PERMISSION_DENIED');
    }
    const without = await postResource(operator, 'token', 'first', document, { ref: { tenant } });
    expectError(without, 'INVALID_ARGUMENT', 'justification');
    const { api } = await createKey(
      operator,
      document,
      { ref: { tenant }, justification: 'a customer' },
      'first',
    );
    expect(await whoami(api)).toMatchObject({
      tenant,
      ownerProvider: 'PROVIDER_IDP_OIDC',
      account: 'ada@example.org',
      role: 'admin',
    });
    expectOk(await readResource(api, 'token', 'first'));
    expectError(await readResource(admin, 'token', 'first'), 'NOT_FOUND');
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent('hello'), description: 'x' }));
    expectOk(await postResource(api, 'workspace', 'ours', {}));
  });

  test("a member may not take another account's token or share link by overwriting it", async () => {
    const token = uniqueName('takeover');
    const { api } = await createKey(admin, { role: 'admin', account: 'max' }, {}, token);
    const link = (await createShareLink(admin, await agentOf('max'))).name;
    const mine = { agentId: await agentOf('mia'), rotate: true };
    for (const [kind, name, document, updateMask] of [
      ['token', token, { role: 'member', rotate: true }, ''],
      ['token', token, { rotate: true }, 'rotate'],
      ['token', token, { account: 'mia' }, 'account'],
      ['share-link', link, mine, ''],
      ['share-link', link, { rotate: true }, 'rotate'],
    ] as const) {
      expectError(await postResource(member, kind, name, document, { updateMask }), 'PERMISSION_DENIED');
    }
    expectError(await member.del(`/v1/catalog/token/${token}`), 'PERMISSION_DENIED');
    expectError(await member.del(`/v1/catalog/share-link/${link}`), 'PERMISSION_DENIED');
    expect(await whoami(api)).toMatchObject({ role: 'admin', account: 'max' });
  });

  test('a member may not raise or give away its own token by patching it', async () => {
    const { name, api } = await createKey(member, {});
    for (const [field, value] of [
      ['role', 'admin'],
      ['role', 'operator'],
      ['role', 'runner'],
      ['account', 'admin'],
      ['ownerProvider', 'PROVIDER_SERVICE_PROFILE'],
    ] as const) {
      const more = { updateMask: field };
      expectError(await postResource(member, 'token', name, { [field]: value }, more), 'PERMISSION_DENIED');
    }
    expect(await whoami(api)).toMatchObject({ role: 'member', account: 'mia' });
  });

  /** Every way to write or delete a resource of this name, each with what it would change. */
  const writesTo = (kind: string, name: string, fields: Record<string, unknown>) => {
    const [field = ''] = Object.keys(fields);
    const path = `/v1/catalog/${kind}/${name}`;
    return [
      ['a full replace', (by: Api) => postResource(by, kind, name, fields)],
      ['a full replace by *', (by: Api) => postResource(by, kind, name, fields, { updateMask: '*' })],
      ['a patch', (by: Api) => postResource(by, kind, name, fields, { updateMask: field })],
      ['a patch that clears', (by: Api) => postResource(by, kind, name, {}, { updateMask: field })],
      ['a create', (by: Api) => postResource(by, kind, name, fields, { ifGenerationMatch: 0 })],
      ['a stale write', (by: Api) => postResource(by, kind, name, fields, { ifGenerationMatch: 77 })],
      ['a delete', (by: Api) => by.del(path)],
      ['a stale delete', (by: Api) => by.del(`${path}?ifGenerationMatch=77`)],
    ] as const;
  };

  test('a member writes the personas that its account created, and no others', async () => {
    const ofOthers = {
      'of an admin': admin,
      'of another member': (await createKey(admin, { role: 'member', account: 'max' })).api,
      'of the same account of another provider': (
        await createKey(admin, { ownerProvider: 'PROVIDER_IDP_OIDC', account: 'mia' })
      ).api,
    };
    for (const [whose, creator] of Object.entries(ofOthers)) {
      const name = uniqueName('persona');
      const forged = { instructions: 'x', createdBy: 'codehost_oauth/mia', updatedBy: 'codehost_oauth/mia' };
      expectOk(await postResource(creator, 'persona', name, forged));
      const before = await readDocument(admin, 'persona', name);
      for (const [how, write] of writesTo('persona', name, { instructions: 'taken over' }))
        expect((await write(member)).status, `${how} ${whose}`).toBe(403);
      const forge = { updateMask: 'createdBy' };
      expect((await postResource(creator, 'persona', name, forged, forge)).status).toBe(200);
      expectError(await member.del(`/v1/catalog/persona/${name}`), 'PERMISSION_DENIED');
      const after = await readDocument(admin, 'persona', name);
      expect(after.document).toMatchObject({ instructions: 'x', createdBy: before.document.createdBy });
    }
    const name = uniqueName('persona');
    const second = (await createKey(admin, { role: 'member', account: 'mia' })).api;
    expectOk(await postResource(member, 'persona', name, { instructions: 'one' }));
    expectOk(await postResource(admin, 'persona', name, { instructions: 'by an admin' }));
    expectOk(await postResource(second, 'persona', name, { instructions: 'two' }));
    expectOk(await second.del(`/v1/catalog/persona/${name}`));
    // A deleted name is free. The persona belongs to the account that creates it again.
    expectOk(await postResource(admin, 'persona', name, { instructions: 'created again' }));
    expectError(await postResource(member, 'persona', name, {}), 'PERMISSION_DENIED');
  });

  test.each(['default', 'planner', 'reviewer'])(
    'the name of the builtin persona %s is for admins',
    async (name) => {
      for (const [how, write] of writesTo('persona', name, { instructions: 'taken over' }))
        expect((await write(member)).status, how).toBe(403);
      expectOk(await postResource(admin, 'persona', name, { instructions: 'ours' }));
      for (const [how, write] of writesTo('persona', name, { instructions: 'taken over' }))
        expect((await write(member)).status, how).toBe(403);
      expectOk(await admin.del(`/v1/catalog/persona/${name}`));
    },
  );

  test('a member may not take a share link without an agent that another account created', async () => {
    const name = uniqueName('empty-link');
    expectOk(await postResource(admin, 'share-link', name, {}));
    const agentId = await agentOf('mia');
    expectError(await postResource(member, 'share-link', name, { agentId }), 'PERMISSION_DENIED');
    expectError(await member.del(`/v1/catalog/share-link/${name}`), 'PERMISSION_DENIED');
  });

  test.each<[caller: Role, role: string, account: string, cell: number]>([
    ['member', 'viewer', 'mia', yes],
    ['member', 'member', 'mia', yes],
    ['member', 'admin', 'mia', no],
    ['member', 'runner', 'mia', no],
    ['member', 'operator', 'mia', no],
    ['member', 'viewer', 'max', no],
    ['admin', 'admin', 'max', yes],
    ['admin', 'runner', 'max', yes],
    ['admin', 'operator', 'max', no],
    ['admin', 'operator', 'admin', no],
  ])('%s rotates, changes or deletes a token of role %s of %s: %i', async (caller, role, account, cell) => {
    const by = callers()[caller];
    const make = () => {
      const ownerProvider = 'PROVIDER_CODEHOST_OAUTH';
      return createKey(operator, { role, account, ownerProvider }, moreFor('operator'));
    };
    for (const [at, [how]] of writesTo('token', '', { rotate: true }).entries()) {
      const { name, api } = await make();
      const isStale = /stale|create/.test(how);
      const fields = at % 2 === 0 ? { rotate: true } : { role: 'viewer' };
      const answer = await writesTo('token', name, fields)[at]?.[1](by);
      expect(answer?.status, how).toBe(cell === no ? 403 : isStale ? 400 : 200);
      if (cell === no) expect(await whoami(api)).toMatchObject({ role, account });
    }
    const { name, api } = await make();
    const more = { updateMask: 'expiresAt' };
    const expiry = { expiresAt: '2001-01-01T00:00:00Z' };
    expectCell(await postResource(by, 'token', name, expiry, more), cell);
    if (cell === no) expectOk(await api.get('/v1/whoami'));
  });

  test.each<[maker: Role, role: string, cell: number]>([
    ['viewer', 'viewer', no],
    ['member', 'viewer', yes],
    ['member', 'member', yes],
    ['member', 'admin', no],
    ['member', 'operator', no],
    ['admin', 'viewer', yes],
    ['admin', 'member', yes],
    ['admin', 'admin', yes],
    ['admin', 'operator', no],
    ['admin', 'runner', yes],
    ['operator', 'admin', yes],
    ['operator', 'runner', yes],
  ])("a token's role is at most its creator's: %s creates %s: %i", async (maker, role, cell) => {
    const document = { role, ...(maker === 'operator' && { account: 'opal' }) };
    const answer = await postResource(
      callers()[maker],
      'token',
      uniqueName('rank'),
      document,
      moreFor(maker),
    );
    expectCell(answer, cell);
    if (cell === yes) {
      const made = admin.as(String(decode(answer.body.payload).key));
      expect((await whoami(made)).role).toBe(role);
    }
  });

  test.each(['agent', 'share'])('nobody creates a token of the machine role %s', async (role) => {
    for (const caller of [member, admin]) {
      const answer = await postResource(caller, 'token', uniqueName('machine'), { role });
      expect([400, 403]).toContain(answer.status);
    }
  });

  test('a token has its creator’s account and the role member by default', async () => {
    for (const [caller, account] of [
      [admin, 'admin'],
      [member, 'mia'],
    ] as const) {
      expect(await whoami((await createKey(caller, {})).api)).toMatchObject({
        tenant: local,
        ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
        account,
        role: 'member',
      });
    }
  });

  test('muster operator create creates an operator', async () => {
    expect((await whoami(operator)).role).toBe('operator');
  });
});

describe('machine roles', () => {
  const fill = (path: string) => path.replace('{ref.kind}', 'persona').replace('{ref.name}', 'default');
  const agentRoutesOf = routeEntries.filter(
    ([, { access }]) => !['runner', 'self', 'own-page'].includes(access),
  );

  test('a runner key may use the runner routes and whoami', async () => {
    const { api } = await createKey(admin, { role: 'runner', pool: 'default' });
    expect((await whoami(api)).role).toBe('runner');
    const runner = await newFakeRunner(admin);
    expectOk(await runner.poll());
  });

  test.each(agentRoutesOf)('a runner key may not %s', async (name, route) => {
    const { api } = await createKey(admin, { role: 'runner', pool: 'default' });
    const agentId = await agentOf('admin');
    const body = {
      agentId: name === 'spawn' ? agent(uniqueName('spawn')) : agentId,
      ...(name === 'waitMany' && { agentIds: [agentId] }),
      ...(name === 'stopTurn' && { runId: '1' }),
      ...((name === 'removeFollowUp' || name === 'followUp') && { followUpId: 'x' }),
      ...(name === 'updateTask' && { id: 't' }),
      ...(name === 'revokeSession' && { id: randomUUID() }),
      ...((name === 'queue' || name === 'spawn') && { description: 'x' }),
    };
    const answer =
      route.method === 'POST'
        ? await api.post(fill(route.path), route.access.startsWith('catalog') ? {} : body)
        : await api[route.method === 'GET' ? 'get' : 'del'](fill(route.path));
    expectError(answer, 'PERMISSION_DENIED');
  });

  test('only a runner key may use the runner routes', async () => {
    const body = {
      runnerId: '00000000-0000-4000-8000-000000000001',
      name: 'pretender',
      poll: 1,
      free: { real: 1, rehearsed: 1 },
      runs: [],
    };
    const report = { ...body, agentKey: body.runnerId, runId: 1, report: 1 };
    for (const caller of [viewer, member, admin, operator]) {
      expectError(await caller.post('/v1/runner/poll', body), 'PERMISSION_DENIED');
      expectError(await caller.post('/v1/runner/report', report), 'PERMISSION_DENIED');
    }
  });

  test('a runner key serves one pool', async () => {
    const name = uniqueName('pooled');
    await t.spawn(name);
    const elsewhere = await newFakeRunner(admin, 'default');
    const { claims } = expectOk(await elsewhere.poll());
    expect(claims.map(({ agentId }) => agentId.agent[0])).not.toContain(name);
    const claim = await t.claim(name);
    expect(claim.agentId.agent).toEqual([name]);
    // Nor may it report for a run that another pool's runner holds.
    const forged = await elsewhere.report(claim, { end: { outcome: 'COMPLETED' } });
    expect([403, 404, 409]).toContain(forged.status);
    expect((await t.status(name)).run?.state).not.toBe('ENDED');
    await t.end(claim);
  });

  test('a runner key serves one tenant', async () => {
    const away = await newTenant(operator);
    const name = uniqueName('away');
    expectOk(await away.admin.post('/v1/agent/spawn', { agentId: agent(name), description: 'x' }));
    const ours = await newFakeRunner(admin, 'default');
    const { claims } = expectOk(await ours.poll());
    expect(claims.map(({ agentId }) => agentId.tenant.org)).not.toContain(away.tenant.org);
    const theirs = await newFakeRunner(away.admin, 'default');
    expect((await theirs.claim()).agentId).toMatchObject({ tenant: away.tenant, agent: [name] });
  });

  describe('an agent key', () => {
    let self: Api;
    let claim: Claim;
    let child: AgentId;
    let stranger: AgentId;

    beforeAll(async () => {
      const name = uniqueName('self');
      await t.spawn(name, { tasks: [{ id: 't', subject: 'one' }] });
      claim = await t.start(name);
      self = admin.as(claim.token);
      stranger = await agentOf('admin');
      // The agent has ended, so that a wait that is wrongly accepted does not block.
      expectOk(await admin.post('/v1/agent/kill', { agentId: stranger }));
    });

    const childId = () => ({ ...claim.agentId, agent: [...claim.agentId.agent, uniqueName('child')] });

    test('has the form of a key, and whoami describes it', async () => {
      expect(claim.token).toMatch(/^mst_[^.]+\.[^.]+$/);
      expect(await whoami(self)).toMatchObject({ role: 'agent', tenant: local, account: 'admin' });
    });

    test.each(['status', 'timeline', 'runs', 'tasks', 'diff'])('reads %s of its own agent', async (route) => {
      expectOk(await self.post(`/v1/agent/${route}`, { agentId: claim.agentId }));
    });

    test('creates and updates its own tasks', async () => {
      const { agentId } = claim;
      expectOk(await self.post('/v1/agent/tasks/create', { agentId, tasks: [{ id: 'u', subject: 'two' }] }));
      const update = { agentId, id: 'u', status: 'TASK_STATUS_COMPLETED' };
      expectOk(await self.post('/v1/agent/tasks/update', update));
    });

    test('spawns children, and queues to, stops and kills its descendants', async () => {
      child = childId() as AgentId;
      expectOk(await self.post('/v1/agent/spawn', { agentId: child, description: 'help' }));
      const grandchild = { ...child, agent: [...child.agent, 'grand'] };
      expectOk(await self.post('/v1/agent/spawn', { agentId: grandchild, description: 'help' }));
      for (const agentId of [child, grandchild]) {
        expectOk(await self.post('/v1/agent/queue', { agentId, description: 'more' }));
        const stop = await self.post('/v1/agent/stop-turn', { agentId, runId: '1' });
        expectError(stop, 'INVALID_ARGUMENT', 'runId');
        expectOk(await self.post('/v1/agent/status', { agentId }));
      }
      expectOk(await self.post('/v1/agent/kill', { agentId: child }));
      expectOk(await self.post('/v1/agent/wait', { agentId: child }));
    });

    const commands: [route: string, more: Record<string, unknown>][] = [
      ['queue', { description: 'x' }],
      ['queue/remove', { followUpId: 'x' }],
      ['clear-follow-ups', {}],
      ['stop-turn', { runId: '1' }],
      ['kill', {}],
    ];
    test.each(commands)('may not %s its own agent or an unrelated one', async (route, more) => {
      for (const agentId of [claim.agentId, stranger]) {
        expectError(await self.post(`/v1/agent/${route}`, { agentId, ...more }), 'PERMISSION_DENIED');
      }
    });

    test.each(['status', 'timeline', 'runs', 'tasks', 'diff', 'wait'])(
      'may not read %s of an unrelated agent, even of its account',
      async (route) => {
        expectError(await self.post(`/v1/agent/${route}`, { agentId: stranger }), 'PERMISSION_DENIED');
      },
    );

    test('may not change the tasks of an unrelated agent', async () => {
      const create = { agentId: stranger, tasks: [{ subject: 'x' }] };
      expectError(await self.post('/v1/agent/tasks/create', create), 'PERMISSION_DENIED');
      const update = { agentId: stranger, id: 't', subject: 'x' };
      expectError(await self.post('/v1/agent/tasks/update', update), 'PERMISSION_DENIED');
    });

    test('may not spawn a root, or below an unrelated agent', async () => {
      for (const agentId of [
        { ...claim.agentId, agent: [uniqueName('root')] },
        agent(uniqueName('root')),
        { ...stranger, agent: [...stranger.agent, 'x'] },
      ]) {
        expectError(await self.post('/v1/agent/spawn', { agentId, description: 'x' }), 'PERMISSION_DENIED');
      }
    });

    test('an empty path is generated below its own agent', async () => {
      const body = { agentId: {}, description: 'help' };
      const { agentId } = expectOk(await self.post<{ agentId: AgentId }>('/v1/agent/spawn', body));
      expect(agentId.agent.slice(0, -1)).toEqual(claim.agentId.agent);
    });

    test('may neither write the catalog nor create keys', async () => {
      for (const kind of ['persona', 'token', 'share-link', 'workspace']) {
        expectError(await postResource(self, kind, uniqueName('x'), {}), 'PERMISSION_DENIED');
      }
      expectError(await self.del('/v1/catalog/persona/default'), 'PERMISSION_DENIED');
    });

    test('lists its own children and nothing else', async () => {
      const childOf = childId();
      expectOk(await self.post('/v1/agent/spawn', { agentId: childOf, description: 'help' }));
      const { entries } = expectOk(
        await self.post<{ entries: { agentId: AgentId }[] }>('/v1/agents', { parentId: claim.agentId }),
      );
      expect(entries.map(({ agentId }) => agentId.agent)).toContainEqual(childOf.agent);
      const roots = await self.post<{ entries?: { agentId: AgentId }[] }>('/v1/agents', { account: '*' });
      const seen = (roots.body.entries ?? []).map(({ agentId }) => agentId.agent.join('/'));
      expect(seen).not.toContain(stranger.agent.join('/'));
    });

    test('expires with its run', async () => {
      const held = openRequest(self, '/v1/agent/timeline/stream', { agentId: claim.agentId });
      expect(await held.opened).toBe(200);
      await t.end(claim);
      await untilRefused(self);
      await held.ended;
      const again = await self.post('/v1/agent/tasks/create', { agentId: claim.agentId, tasks: [{}] });
      expectError(again, 'UNAUTHENTICATED');
    });

    test('of a killed run expires too', async () => {
      const name = uniqueName('killed');
      await t.spawn(name);
      const killed = await t.start(name);
      expectOk(await admin.as(killed.token).get('/v1/whoami'));
      await t.kill(name);
      await untilRefused(admin.as(killed.token));
    });
  });

  describe('a share link', () => {
    let visitor: Api;
    let shared: AgentId;
    let stranger: AgentId;
    beforeAll(async () => {
      shared = await agentOf('mia');
      stranger = await agentOf('mia');
      visitor = (await createShareLink(member, shared)).api;
    });

    test('has a secret that is a bearer key of role share', async () => {
      expect((await whoami(visitor)).role).toBe('share');
    });

    test.each(['status', 'timeline', 'runs', 'tasks', 'diff'])('reads %s of one agent', async (route) => {
      expectOk(await visitor.post(`/v1/agent/${route}`, { agentId: shared }));
      expectError(await visitor.post(`/v1/agent/${route}`, { agentId: stranger }), 'PERMISSION_DENIED');
      const absent = { ...shared, agent: [uniqueName('absent')] };
      expectError(await visitor.post(`/v1/agent/${route}`, { agentId: absent }), 'PERMISSION_DENIED');
    });

    test('may wait for its agent and stream its timeline', async () => {
      const stream = openRequest(visitor, '/v1/agent/timeline/stream', { agentId: shared });
      expect(await stream.opened).toBe(200);
      stream.abort();
      const done = await agentOf('mia');
      const { api } = await createShareLink(member, done);
      expectOk(await member.post('/v1/agent/kill', { agentId: done }));
      expectOk(await api.post('/v1/agent/wait', { agentId: done }));
    });

    test.each<[route: string, more: Record<string, unknown>]>([
      ['queue', { description: 'x' }],
      ['queue/remove', { followUpId: 'x' }],
      ['clear-follow-ups', {}],
      ['stop-turn', { runId: '1' }],
      ['kill', {}],
      ['tasks/create', { tasks: [{}] }],
      ['tasks/update', { id: 't' }],
      ['spawn', { description: 'x' }],
    ])('may not %s', async (route, more) => {
      const answer = await visitor.post(`/v1/agent/${route}`, { agentId: shared, ...more });
      expectError(answer, 'PERMISSION_DENIED');
    });

    test('reaches neither the catalog nor a list of agents', async () => {
      expectError(await readResource(visitor, 'persona', 'default'), 'PERMISSION_DENIED');
      expectError(await visitor.get('/v1/catalog/token'), 'PERMISSION_DENIED');
      expectError(await postResource(visitor, 'persona', uniqueName('x'), {}), 'PERMISSION_DENIED');
      const listed = await visitor.post<{ entries?: { agentId: AgentId }[] }>('/v1/agents', { account: '*' });
      const seen = (listed.body.entries ?? []).map(({ agentId }) => agentId.agent.join('/'));
      expect(seen).not.toContain(stranger.agent.join('/'));
    });

    test('that names its agent only in part means the creator’s', async () => {
      const { api } = await createShareLink(member, { agent: shared.agent });
      expectOk(await api.post('/v1/agent/status', { agentId: shared }));
    });

    test('stops working when deleted or expired', async () => {
      const deleted = await createShareLink(member, shared);
      const expiring = await createShareLink(member, shared, {
        expiresAt: new Date(Date.now() + 1_500).toISOString(),
      });
      expectOk(await deleted.api.post('/v1/agent/status', { agentId: shared }));
      expectOk(await member.del(`/v1/catalog/share-link/${deleted.name}`));
      await untilRefused(deleted.api);
      await untilRefused(expiring.api);
    });
  });
});

describe('revocation and expiry', () => {
  const revocations: [how: string, revoke: (name: string) => Promise<unknown>][] = [
    ['deleted', (name) => admin.del(`/v1/catalog/token/${name}`)],
    ['rotated', (name) => postResource(admin, 'token', name, { role: 'member', rotate: true })],
    [
      'given an expiry in the past',
      (name) =>
        postResource(
          admin,
          'token',
          name,
          { expiresAt: '2020-01-01T00:00:00Z' },
          { updateMask: 'expiresAt' },
        ),
    ],
  ];

  test.each(revocations)('a key whose token was %s stops working within 5 s', async (_, revoke) => {
    const { name, api } = await createKey(admin, { role: 'member' });
    await whoami(api);
    await revoke(name);
    await untilRefused(api);
  });

  test.each(revocations)('a key whose token was %s loses its open wait and streams', async (_, revoke) => {
    const { name, api } = await createKey(admin, { role: 'member' });
    const agentId = await agentOf('admin');
    const wait = openRequest(api, '/v1/agent/wait', { agentId });
    const waitMany = openRequest(api, '/v1/agents/wait', { agentIds: [agentId] });
    const timeline = openRequest(api, '/v1/agent/timeline/stream', { agentId });
    const list = openRequest(api, '/v1/agents/stream', {});
    expect(await timeline.opened).toBe(200);
    expect(await list.opened).toBe(200);
    await revoke(name);
    for (const held of [wait, waitMany]) {
      const ending = await held.ended;
      if (!ending.cut && ending.status !== 200) expect(ending.status).toBe(401);
      expect(ending.text, 'no status reached the revoked key').not.toContain('"phase"');
    }
    await timeline.ended;
    await list.ended;
  });

  test('a key stops working when it expires, and so does its stream', async () => {
    const expiresAt = new Date(Date.now() + 2_000).toISOString();
    const { api } = await createKey(admin, { role: 'viewer', expiresAt });
    expect(new Date((await whoami(api)).expiresAt ?? 0)).toEqual(new Date(expiresAt));
    const stream = openRequest(api, '/v1/agents/stream', {});
    expect(await stream.opened).toBe(200);
    await untilRefused(api);
    await stream.ended;
  });

  test('revoking one key leaves the others of its account alone', async () => {
    const [one, two] = [await createKey(admin, {}), await createKey(admin, {})];
    expectOk(await admin.del(`/v1/catalog/token/${one.name}`));
    await untilRefused(one.api);
    await whoami(two.api);
  });

  test('a revoked runner key gets no more work', async () => {
    const { name, api } = await createKey(admin, { role: 'runner', pool: 'default' });
    expectOk(await admin.del(`/v1/catalog/token/${name}`));
    await untilRefused(api);
  });

  test('a token that is deleted and created again under its name does not revive the old key', async () => {
    const { name, api } = await createKey(admin, {});
    expectOk(await admin.del(`/v1/catalog/token/${name}`));
    const { api: fresh } = await createKey(admin, {}, {}, name);
    await untilRefused(api);
    await whoami(fresh);
  });

  test('a revocation reaches every node within 5 s', async () => {
    const node = await startServer({ runner: false, databaseUrl: server.databaseUrl });
    try {
      const { name, key } = await createKey(admin, {});
      const there = apiOf({ url: node.url, key });
      expectOk(await there.get('/v1/whoami'));
      const stream = openRequest(there, '/v1/agents/stream', {});
      expect(await stream.opened).toBe(200);
      expectOk(await admin.del(`/v1/catalog/token/${name}`));
      await untilRefused(there);
      await stream.ended;
    } finally {
      await node.close();
    }
  });
});

describe('metrics', () => {
  const metrics = async (url: string, key?: string) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    return sendRaw(url, { method: 'GET', path: '/metrics', headers });
  };

  test('from the loopback /metrics needs no key', async () => {
    const { status, text } = await metrics(server.url);
    expect(status).toBe(200);
    expect(text).toMatch(/^# (HELP|TYPE) /m);
  });

  test.each(['attacker.example', 'localhost.attacker.example:8420', '192.168.1.5'])(
    'at Host "%s" /metrics needs an operator’s key, also from the loopback',
    async (host) => {
      const read = (headers: Record<string, string>) =>
        sendRaw(server.url, { method: 'GET', path: '/metrics', headers });
      expectError(await read({ host }), 'UNAUTHENTICATED');
      const authorization = `Bearer ${operator.key}`;
      expect((await read({ host, authorization })).status).toBe(200);
      expect((await read({ host: 'localhost:9000' })).status).toBe(200);
    },
  );

  test('/metrics has no tenant labels', async () => {
    const { tenant, admin: chief } = await newTenant(operator);
    const account = uniqueName('chief');
    const { api } = await createKey(chief, { role: 'member', account });
    const name = uniqueName('measured');
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'x' }));
    expectOk(await api.post<AgentStatus>('/v1/agent/status', { agentId: agent(name) }));
    const { text } = await metrics(server.url);
    for (const word of [tenant.org, account, name, 'local"']) expect(text).not.toContain(word);
    expect(text).not.toMatch(/\b(tenant|org|account)=/);
  });

  const address = Object.values(networkInterfaces())
    .flat()
    .find((i) => i && !i.internal && i.family === 'IPv4')?.address;

  test.skipIf(address === undefined)('from elsewhere /metrics needs an operator’s key', async () => {
    const node = await startServer({
      runner: false,
      databaseUrl: server.databaseUrl,
      env: { MUSTER_HOST: '0.0.0.0' },
    });
    try {
      const url = `http://${address}:${new URL(node.url).port}`;
      expectError(await metrics(url), 'UNAUTHENTICATED');
      expectError(await metrics(url, 'mst_none.none'), 'UNAUTHENTICATED');
      for (const caller of [viewer, member, admin]) {
        expectError(await metrics(url, caller.key), 'PERMISSION_DENIED');
      }
      expect((await metrics(url, operator.key)).status).toBe(200);
      const forged = { 'x-forwarded-for': '127.0.0.1', host: 'localhost' };
      const sent = await sendRaw(url, { method: 'GET', path: '/metrics', headers: forged });
      expectError(sent, 'UNAUTHENTICATED');
    } finally {
      await node.close();
    }
  });
});

test('the document of a token shows role and owner, and never the key', async () => {
  const { name, key } = await createKey(admin, { role: 'viewer', account: 'ann' });
  const { document } = await readDocument(admin, 'token', name);
  expect(document).toMatchObject({ role: 'viewer', account: 'ann' });
  expect(encode(document)).not.toContain(key);
  expect(JSON.stringify(document)).not.toContain(key.split('.')[1]);
});

test('no reply below /v1 may be cached, one-time secrets included', async () => {
  const agentId = await agentOf('mia');
  const answers = [
    await postResource(admin, 'token', uniqueName('key'), {}),
    await postResource(admin, 'share-link', uniqueName('link'), { agentId }),
    await postResource(admin, 'integration', uniqueName('integration'), {}),
    await admin.get('/v1/whoami'),
    await admin.post('/v1/agent/status', { agentId }),
    await admin.as('mst_none.none').get('/v1/whoami'),
    await member.get('/v1/catalog/persona/none'),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 401, 404]);
  expect(answers.map(({ headers }) => headers.get('cache-control'))).toEqual(answers.map(() => 'no-store'));
});

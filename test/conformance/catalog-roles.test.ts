import { describe, expect, test } from 'vitest';
import { type Api, agent } from '../support/api.ts';
import {
  createKey,
  createShareLink,
  decode,
  postResource,
  readDocument,
  readResource,
  uniqueName,
} from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { tenantOf } from '../support/tenants.ts';
import {
  accountOf,
  agentOf,
  callersOfEachRole,
  expectCell,
  no,
  type Role,
  roles,
  whoami,
  yes,
} from './role-callers.ts';

const { server, callers, admin, operator, member, viewer } = await callersOfEachRole();

/** The fields that a catalog write of this role needs besides the document. */
const moreFor = (role: Role) =>
  role === 'operator' ? { ref: { tenant: server.tenant }, justification: 'a test' } : {};

const inTenant = (path: string, role: Role): string =>
  role === 'operator' ? `${path}?provider=${server.tenant.provider}&org=${server.tenant.org}` : path;

const own = (role: Role) => accountOf[role];

describe('roles: catalog and tokens', () => {
  const byMembers: Record<Role, number> = { viewer: no, member: yes, admin: yes, operator: yes };
  const byAdmins: Record<Role, number> = { viewer: no, member: no, admin: yes, operator: yes };

  type Write = readonly [what: string, kind: string, document: (role: Role) => unknown | Promise<unknown>];
  const memberWrites: Write[] = [
    ['a persona', 'persona', () => ({ instructions: 'x' })],
    [
      'a share link of an own agent',
      'share-link',
      async (role) => ({ agentId: await agentOf(admin, own(role)) }),
    ],
    ['a trigger', 'trigger', () => ({ agentId: { agent: ['own'] }, message: 'x' })],
    ['a notification', 'notification', () => ({})],
    ['a schedule', 'schedule', () => ({ cron: '0 7 1 1 *', agentId: { agent: ['own'] }, message: 'x' })],
    ['a token of the own account', 'token', (role) => (role === 'operator' ? { account: 'opal' } : {})],
  ];
  const adminWrites: Write[] = [
    ['a workspace', 'workspace', () => ({})],
    ['an environment', 'environment', () => ({})],
    ['a profile', 'profile', () => ({})],
    ['a vm-profile', 'vm-profile', () => ({})],
    ['a pool', 'pool', () => ({})],
    ['a policy', 'policy', () => ({})],
    ['a budget', 'budget', () => ({ amountUsd: 1, workspace: 'unused' })],
    ['an integration', 'integration', () => ({})],
    ["another account's token", 'token', () => ({ account: 'max' })],
    ['a token of another provider', 'token', () => ({ ownerProvider: 'PROVIDER_SERVICE_PROFILE' })],
    ["a runner's token", 'token', () => ({ role: 'runner', pool: 'default' })],
    [
      "a share link of another account's agent",
      'share-link',
      async () => ({ agentId: await agentOf(admin, 'max') }),
    ],
  ];

  test.each([
    ...memberWrites.map((write) => [...write, byMembers] as const),
    ...adminWrites.map((write) => [...write, byAdmins] as const),
  ])('who writes %s', async (_, kind, document, cells) => {
    for (const role of roles) {
      const name = uniqueName('row');
      const answer = await postResource(callers[role], kind, name, await document(role), moreFor(role));
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
      const agentId = await agentOf(admin, own(role));
      const document = kind === 'share-link' ? { agentId } : kind === 'token' ? { account: own(role) } : {};
      const creator =
        ['persona', 'schedule', 'trigger', 'notification'].includes(kind) && role === 'member'
          ? member
          : admin;
      expectOk(await postResource(creator, kind, name, document));
      const path = inTenant(`/v1/catalog/${kind}/${name}`, role);
      const reason = role === 'operator' ? '&justification=a+test' : '';
      expectCell(await callers[role].del(path + reason), cells[role]);
    }
  });

  test.each(
    [...memberWrites, ...adminWrites].map(([what, kind, document]) => [what, kind, document] as const),
  )('an operator writes %s only with a justification', async (_, kind, document) => {
    const more = { ref: { tenant: server.tenant } };
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
    const link = (await createShareLink(admin, await agentOf(admin, 'max'))).name;
    const mine = { agentId: await agentOf(admin, 'mia'), rotate: true };
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

  test('a member may not take the name of a persona that another account deleted', async () => {
    const others = (await createKey(admin, { role: 'member', account: 'max' })).api;
    for (const creator of [admin, others]) {
      const name = uniqueName('persona');
      expectOk(await postResource(creator, 'persona', name, { instructions: 'ours' }));
      expectOk(await admin.del(`/v1/catalog/persona/${name}`));
      for (const [how, write] of writesTo('persona', name, { instructions: 'taken over' }))
        if (how.includes('create') || how.includes('replace'))
          expect((await write(member)).status, how).toBe(403);
      expectOk(await postResource(creator, 'persona', name, { instructions: 'again' }));
    }
  });

  test.each(['workspace', 'integration'])('nor of one that a %s names', async (kind) => {
    const persona = uniqueName('persona');
    const own = uniqueName('persona');
    const name = uniqueName('user');
    expectOk(await postResource(member, 'persona', own, {}));
    for (const named of [persona, own]) {
      expectOk(await postResource(admin, kind, `${name}-${named}`, { persona: named }));
    }
    const refused = await postResource(member, 'persona', persona, { instructions: 'taken over' });
    expect(expectError(refused, 'PERMISSION_DENIED').message).toContain(`${kind} "${name}-${persona}"`);
    // Its own persona stays its own: an admin chose it.
    expectOk(await postResource(member, 'persona', own, { instructions: 'better' }));
    expectOk(await admin.del(`/v1/catalog/${kind}/${name}-${persona}`));
    expectOk(await postResource(member, 'persona', persona, { instructions: 'free' }));
  });

  test.each([
    ['persona', 'Default'],
    ['persona', 'PLANNER'],
    ['workspace', 'Default'],
    ['pool', 'DEFAULT'],
  ])('nobody creates the %s %s, which looks like a builtin', async (kind, name) => {
    for (const caller of kind === 'persona' ? [member, admin] : [admin])
      expectError(await postResource(caller, kind, name, {}), 'INVALID_ARGUMENT', 'ref.name');
    expectError(await readResource(admin, kind, name), 'NOT_FOUND');
  });

  test('a member may not take a share link without an agent that another account created', async () => {
    const name = uniqueName('empty-link');
    expectOk(await postResource(admin, 'share-link', name, {}));
    const agentId = await agentOf(admin, 'mia');
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
    const by = callers[caller];
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
    const answer = await postResource(callers[maker], 'token', uniqueName('rank'), document, moreFor(maker));
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
        tenant: server.tenant,
        ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
        account,
        role: 'member',
      });
    }
  });
});

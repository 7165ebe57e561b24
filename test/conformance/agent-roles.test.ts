import type { AgentId } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { type Answer, type Api, agent } from '../support/api.ts';
import { postResource, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { newTenant } from '../support/tenants.ts';
import {
  accountOf,
  agentOf,
  callersOfEachRole,
  expectCell,
  no,
  type Role,
  roles,
  yes,
} from './role-callers.ts';

const { server, callers, admin, operator, member, viewer } = await callersOfEachRole();

const inTenant = (path: string, role: Role): string =>
  role === 'operator' ? `${path}?provider=${server.tenant.provider}&org=${server.tenant.org}` : path;

const own = (role: Role) => accountOf[role];

describe('roles: agents', () => {
  type Act = (caller: Api, role: Role) => Promise<Answer<unknown>>;
  const onAgent =
    (route: string, whose: (role: Role) => string, more: Record<string, unknown> = {}): Act =>
    async (caller, role) =>
      caller.post(`/v1/agent/${route}`, { agentId: await agentOf(admin, whose(role)), ...more });
  const others = () => 'max';

  const reads: [string, Act][] = [
    ['read the status of an agent', onAgent('status', others)],
    ['read its timeline', onAgent('timeline', others)],
    ['read its runs', onAgent('runs', others)],
    ['read its tasks', onAgent('tasks', others)],
    ['read its diff', onAgent('diff', others)],
    ['list every account', (caller) => caller.post('/v1/agents', { account: '*', tenant: server.tenant })],
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
      expectCell(await act(callers[role], role), yes);
    },
  );

  test('a viewer may wait, which is a read', async () => {
    const agentId = await agentOf(admin, 'max');
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
      const caller = callers[role];
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
    ['queue/order', {}],
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
    expectCell(await onAgent(route, own, more)(callers[role], role), cell);
  });

  test.each(
    commands.flatMap(([route, more]) => roles.map((role) => [role, otherCells[role], route, more] as const)),
  )("%s, %i: %s on another account's agent", async (role, cell, route, more) => {
    expectCell(await onAgent(route, others, more)(callers[role], role), cell);
  });

  test.each(roles)('stop-turn is a command to a %s', async (role) => {
    for (const [whose, cells] of [
      [own, ownCells],
      [others, otherCells],
    ] as const) {
      const answer = await onAgent('stop-turn', whose, { runId: '1' })(callers[role], role);
      // A caller with permission is told that no turn is running.
      if (cells[role] === yes) expectError(answer, 'INVALID_ARGUMENT', 'runId');
      else expectError(answer, 'PERMISSION_DENIED');
    }
  });

  test('a member does not own the agents of the same account of another provider', async () => {
    const agentId = await agentOf(admin, 'mia', 'PROVIDER_IDP_OIDC');
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
      const agentId = { tenant: server.tenant, ...owner, agent: [uniqueName('spawn')] };
      const answer = await callers[role].post<{ agentId: AgentId }>('/v1/agent/spawn', {
        agentId,
        description: 'x',
      });
      expectCell(answer, cells[role]);
      if (cells[role] === yes) expect(answer.body.agentId).toMatchObject(agentId);
    }
  });

  test('a member may not spawn below another account, an admin may', async () => {
    const parent = await agentOf(admin, 'max');
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
      const caller = callers[role];
      expectCell(await caller.post('/v1/agent/queue', { agentId, description: 'x' }), cell);
      expectCell(await caller.post('/v1/agent/kill', { agentId }), cell);
      const spawn = { agentId: { ...agentId, agent: [uniqueName('away')] }, description: 'x' };
      expectCell(await caller.post('/v1/agent/spawn', spawn), cell);
    }
  });
});

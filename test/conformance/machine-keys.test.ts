import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { AgentId, Claim } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Api, agent } from '../support/api.ts';
import { createKey, createShareLink, postResource, readResource, uniqueName } from '../support/catalog.ts';
import { routeEntries } from '../support/contract-schemas.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { newFakeRunner } from '../support/fake-runner.ts';
import { openRequest } from '../support/streams.ts';
import { newTenant } from '../support/tenants.ts';
import { agentOf, callersOfEachRole, untilRefused, whoami } from './role-callers.ts';

const { server, admin, operator, member, viewer, t } = await callersOfEachRole();

describe('machine roles', () => {
  const fill = (path: string) =>
    path.replace('{pool}', 'default').replace('{ref.kind}', 'persona').replace('{ref.name}', 'default');
  const agentRoutesOf = routeEntries.filter(
    ([, { access }]) => !['runner', 'self', 'demand', 'own-page', 'anyone'].includes(access),
  );

  test('a runner key may use the runner routes and whoami', async () => {
    const { api } = await createKey(admin, { role: 'runner', pool: 'default' });
    expect((await whoami(api)).role).toBe('runner');
    const runner = await newFakeRunner(admin);
    expectOk(await runner.poll());
  });

  test.each(agentRoutesOf)('a runner key may not %s', async (name, route) => {
    const { api } = await createKey(admin, { role: 'runner', pool: 'default' });
    const agentId = await agentOf(admin, 'admin');
    const body = {
      agentId: name === 'spawn' ? agent(uniqueName('spawn')) : agentId,
      ...((name === 'waitMany' || name === 'retryMany') && { agentIds: [agentId] }),
      ...(name === 'markAgents' && { marks: [{ agentId }] }),
      ...(name === 'revokeKey' && { keyId: 'x' }),
      ...(name === 'updateMember' && { account: 'x', ownerProvider: 'PROVIDER_IDP_OIDC' }),
      ...(/^(show|answer)Login$/.test(name) && { userCode: 'x', approve: true }),
      ...(name === 'stopTurn' && { runId: '1' }),
      ...((name === 'removeFollowUp' || name === 'followUp') && { followUpId: 'x' }),
      ...(name === 'updateTask' && { id: 't' }),
      ...(['revokeSession', 'unsubscribePush', 'testPush'].includes(name) && { id: randomUUID() }),
      ...(name === 'subscribePush' && { endpoint: 'https://push.example/x', p256dh: 'x', auth: 'x' }),
      ...(name === 'createReview' && { comments: [{ path: 'a.ts', body: 'x' }] }),
      ...(name === 'replyToThread' && { threadId: randomUUID(), body: 'x' }),
      ...(name === 'resolveThread' && { threadId: randomUUID() }),
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

  test.each([
    'fail',
    'usage',
    'listDeliveries',
    'redeliver',
    'testIntegration',
    'runSchedule',
    'scheduleHistory',
    'listTriggerDeliveries',
    'redeliverToTrigger',
    'testTrigger',
    'listNotificationDeliveries',
    'redeliverNotification',
    'testNotification',
    'listSignIns',
    'testSignIn',
    'list',
    'listStream',
    'listStreamByGet',
  ])('the reference lists the roles that may %s', async (name) => {
    const reference = readFileSync(new URL('../../docs/reference.md', import.meta.url), 'utf8');
    const section = reference.split(`\n### ${name}\n`)[1] ?? '';
    const listed = /Roles: ([^.]*)\./.exec(section)?.[1]?.split(', ') ?? [];
    const route = routeEntries.find(([one]) => one === name)?.[1];
    const agentId = await agentOf(admin, 'mia');
    const share = (await createShareLink(admin, agentId)).api;
    const runner = (await createKey(admin, { role: 'runner', pool: 'default' })).api;
    const body = { agentId, message: 'x', name: 'absent', deliveryId: 'absent' };
    for (const [role, caller] of Object.entries({ viewer, member, admin, operator, share, runner })) {
      if (listed.includes(role)) continue;
      const path = route?.path ?? '';
      const answer = route?.method === 'GET' ? await caller.get(path) : await caller.post(path, body);
      expect([role, answer.status]).toEqual([role, 403]);
    }
    expect(listed).toContain(name === 'fail' ? 'agent' : 'admin');
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
      stranger = await agentOf(admin, 'admin');
      // The agent has ended, so that a wait that is wrongly accepted does not block.
      expectOk(await admin.post('/v1/agent/kill', { agentId: stranger }));
    });

    const childId = () => ({ ...claim.agentId, agent: [...claim.agentId.agent, uniqueName('child')] });

    test('has the form of a key, and whoami describes it', async () => {
      expect(claim.token).toMatch(/^mst_[^.]+\.[^.]+$/);
      expect(await whoami(self)).toMatchObject({ role: 'agent', tenant: server.tenant, account: 'admin' });
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
      // The timeline tells what agents sent from what people did.
      expectOk(await admin.post('/v1/agent/queue', { agentId: child, description: 'by a person' }));
      const types = ['FOLLOW_UP_QUEUED'];
      const { entries } = expectOk(
        await admin.post<{ entries: { text: string; data: { byAgent?: boolean } }[] }>('/v1/agent/timeline', {
          agentId: child,
          types,
        }),
      );
      expect(entries.map(({ text, data }) => [text, data.byAgent])).toEqual([
        ['more', true],
        ['by a person', undefined],
      ]);
      expectOk(await self.post('/v1/agent/kill', { agentId: child }));
      expectOk(await self.post('/v1/agent/wait', { agentId: child }));
    });

    const commands: [route: string, more: Record<string, unknown>][] = [
      ['queue', { description: 'x' }],
      ['queue/remove', { followUpId: 'x' }],
      ['queue/order', {}],
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

    test('means its own workspace when it names none, also where only another has the path', async () => {
      const elsewhere = { workspace: uniqueName('other') };
      const twin = { ...claim.agentId, ...elsewhere };
      const path = [...twin.agent, uniqueName('child')];
      for (const agentId of [twin, { ...twin, agent: path }])
        expectOk(await admin.post('/v1/agent/spawn', { agentId, description: 'secret plans' }));
      const below = { agent: path };
      for (const route of ['status', 'timeline', 'runs', 'wait', 'queue/list'])
        expectError(await self.post(`/v1/agent/${route}`, { agentId: below }), 'NOT_FOUND');
      for (const [route, more] of [...commands, ['labels', { labels: { a: 'b' } }] as const])
        expectError(await self.post(`/v1/agent/${route}`, { agentId: below, ...more }), 'NOT_FOUND');
      expectError(await self.post('/v1/agents/wait', { agentIds: [below] }), 'NOT_FOUND');
      expectError(await self.post('/v1/agents', { parentId: below }), 'NOT_FOUND');
      const { agentId } = expectOk(
        await self.post<{ agentId: AgentId }>('/v1/agent/status', { agentId: { agent: twin.agent } }),
      );
      expect(agentId).toEqual(claim.agentId);
    });

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
      shared = await agentOf(admin, 'mia');
      stranger = await agentOf(admin, 'mia');
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
      const done = await agentOf(admin, 'mia');
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

    test('shows no agent below its own', async () => {
      const child = { ...shared, agent: [...shared.agent, uniqueName('child')] };
      expectOk(await admin.post('/v1/agent/spawn', { agentId: child, description: 'secret plans' }));
      expectOk(await admin.post('/v1/agent/kill', { agentId: child }));
      for (const below of [shared, { agent: shared.agent }, {}, child])
        for (const all of [false, true])
          expectError(
            await visitor.post('/v1/agents/wait', { below, all, timeoutSeconds: 0 }),
            'PERMISSION_DENIED',
          );
      expectError(await visitor.post('/v1/agents', { parentId: shared }), 'PERMISSION_DENIED');
    });

    test('shows one agent where two workspaces have its path', async () => {
      const path = [uniqueName('twin')];
      const early = await createShareLink(member, { agent: path });
      const inWorkspace = (workspace: string) => ({ ...shared, workspace, agent: path });
      const [first, second] = [inWorkspace('default'), inWorkspace(uniqueName('other'))];
      for (const agentId of [second, first])
        expectOk(await admin.post('/v1/agent/spawn', { agentId, description: 'work' }));
      const late = await postResource(member, 'share-link', uniqueName('link'), { agentId: { agent: path } });
      expectError(late, 'INVALID_ARGUMENT', 'payload.agentId.workspace');
      const named = await createShareLink(member, first);
      for (const { api } of [early, named]) {
        for (const agentId of [undefined, { agent: path, account: 'mia' }, first]) {
          const { agentId: seen } = expectOk(
            await api.post<{ agentId: AgentId }>('/v1/agent/status', { agentId }),
          );
          expect(seen).toEqual(first);
        }
        expectError(await api.post('/v1/agent/status', { agentId: second }), 'PERMISSION_DENIED');
      }
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

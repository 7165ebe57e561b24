import { randomUUID } from 'node:crypto';
import type { Access, AgentEntry, AgentId, Role, Route, RouteName, Tenant } from '@muster/sdk/contract';
import { roles } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type Api, agent, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, createShareLink, decode, encode, postResource, uniqueName } from '../support/catalog.ts';
import { routeEntries } from '../support/contract-schemas.ts';
import { type ErrorCode, expectError, expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { type OpenRequest, openRequest } from '../support/streams.ts';
import { newTenant, tenantOf } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';

/**
 * Every route × every role × {own, another tenant's that exists, another tenant's that does not exist, one of no
 * tenant}. A new route is tested automatically; the expected reply follows from the tables below.
 */

/** Which roles may use a route of this access in their own tenant. */
const permitted: Record<Access, readonly Role[]> = {
  self: roles,
  person: ['viewer', 'member', 'admin', 'operator'],
  read: ['viewer', 'member', 'admin', 'operator', 'agent', 'share'],
  command: ['member', 'admin', 'operator', 'agent'],
  spawn: ['member', 'admin', 'operator', 'agent'],
  'catalog-read': ['viewer', 'member', 'admin', 'operator'],
  'catalog-write': ['member', 'admin', 'operator'],
  runner: ['runner'],
  // Everyone with a key, except the pages of the service.
  'own-page': [],
};

/** Not specified: may a share link list the children of its agent? */
const open = (role: Role, name: RouteName): boolean =>
  role === 'share' && ['list', 'listStream', 'listStreamByGet'].includes(name);

/** The reply to a permitted caller on a target that exists, where it is not 200. */
const answersToPermitted: Partial<Record<RouteName, ErrorCode>> = {
  session: 'NOT_FOUND', // a key has none
  signOut: 'NOT_FOUND',
  revokeSession: 'NOT_FOUND', // no such session
  stopTurn: 'INVALID_ARGUMENT', // no turn runs
  retry: 'FAILED_PRECONDITION', // neither blocked nor retrying
  runnerReport: 'NOT_FOUND', // no such agent
  checkpoint: 'NOT_FOUND', // nothing was saved
  runnerSaveCheckpoint: 'ABORTED', // no such run
  runnerCompleteCheckpoint: 'ABORTED',
  runnerCheckpoints: 'ABORTED',
  runnerLoadCheckpoint: 'ABORTED',
};
/** The reply to an operator in another tenant on a target that does not exist, where it is not NOT_FOUND. */
const absentToOperator: Partial<Record<RouteName, 200>> = {
  spawn: 200,
  writeResource: 200,
  listResources: 200,
};

type Target = 'own' | 'foreign existing' | 'foreign absent';

/** Commands that only the agent's own run may send. */
const isOwnWord = (name: RouteName): boolean => ['ask', 'finish', 'fail'].includes(name);

function expected(role: Role, name: RouteName, access: Access, target: Target): ErrorCode | 200 {
  if (!permitted[access].includes(role)) return 'PERMISSION_DENIED';
  if (isOwnWord(name) && role !== 'agent') return 'PERMISSION_DENIED';
  if (target === 'own') return answersToPermitted[name] ?? 200;
  if (role !== 'operator') return 'PERMISSION_DENIED';
  if (target === 'foreign absent') return absentToOperator[name] ?? 'NOT_FOUND';
  if (name === 'spawn') return 'ALREADY_EXISTS';
  return answersToPermitted[name] ?? 200;
}

let server: SharedServer;
let admin: Api;
let foreign: { tenant: Tenant; admin: Api };
let self: AgentId;
let shared: AgentId;
let callers: Record<Role, Api>;
/** The runner that the caller of role `runner` has registered. */
let registered: FakeRunner;

const accountOf: Partial<Record<Role, string>> = {
  viewer: 'vic',
  member: 'mia',
  admin: 'admin',
  operator: 'opal',
};

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  admin = apiOf(server);
  const { operator } = server;
  foreign = await newTenant(operator);
  const t = await newTestTenant(admin);
  await t.spawn('self', { tasks: [{ id: 't' }] });
  const claim = await t.start('self');
  self = claim.agentId;
  shared = await agentIn(admin, { account: 'mia' });
  expectOk(await admin.post('/v1/agent/queue', { agentId: shared, followUpId: 'x', description: 'x' }));
  expectOk(await admin.post('/v1/agent/kill', { agentId: shared }));
  callers = {
    viewer: (await createKey(admin, { role: 'viewer', account: 'vic' })).api,
    member: (await createKey(admin, { role: 'member', account: 'mia' })).api,
    admin,
    operator,
    runner: (await createKey(admin, { role: 'runner', pool: 'default' })).api,
    agent: admin.as(claim.token),
    share: (await createShareLink(admin, shared)).api,
  };
  registered = new FakeRunner(callers.runner);
  expectOk(await registered.poll({ free: { real: 0, rehearsed: 0 } }));
});
afterAll(async () => {
  await server?.close();
});

async function agentIn(chief: Api, id: Partial<AgentId>): Promise<AgentId> {
  const body = {
    agentId: { agent: [uniqueName('agent')], ...id },
    description: 'secret plans',
    tasks: [{ id: 't', subject: 'one' }],
  };
  return expectOk(await chief.post<{ agentId: AgentId }>('/v1/agent/spawn', body)).agentId;
}

interface Aim {
  readonly id: AgentId;
  /** The name of a persona. */
  readonly resource: string;
}

const waits = (name: RouteName): boolean => name === 'wait' || name === 'waitMany';
const isSelfTask = (name: RouteName): boolean => name === 'createTasks' || name === 'updateTask';

/** A message that can be read by its id. */
async function withMessage(chief: Api, name: RouteName, aim: Aim): Promise<Aim> {
  if (name !== 'followUp' || aim.id === shared) return aim;
  expectOk(await chief.post('/v1/agent/queue', { agentId: aim.id, followUpId: 'x', description: 'x' }));
  return aim;
}

/** A target of the caller's own that fits the route. */
async function ownAim(role: Role, name: RouteName, route: Route): Promise<Aim> {
  const resource = uniqueName('persona');
  const creator = role === 'member' ? callers.member : admin;
  if (route.access.startsWith('catalog')) expectOk(await postResource(creator, 'persona', resource, {}));
  if (role === 'share') return { id: shared, resource };
  if (role === 'agent') {
    const child = { ...self, agent: [...self.agent, uniqueName('child')] };
    if (name === 'spawn') return { id: child, resource };
    if (isSelfTask(name) || isOwnWord(name) || (route.access === 'read' && !waits(name)))
      return { id: self, resource };
    const id = await agentIn(admin, child);
    if (waits(name)) expectOk(await admin.post('/v1/agent/kill', { agentId: id }));
    return { id, resource };
  }
  const account = accountOf[role] ?? 'admin';
  if (name === 'spawn') {
    const ownerProvider = 'PROVIDER_CODEHOST_OAUTH';
    const id = {
      tenant: server.tenant,
      ownerProvider,
      account,
      agent: [uniqueName('agent')],
      workspace: 'default',
    } as const;
    return { id: { ...id, agent: [...id.agent] }, resource };
  }
  const id = await agentIn(admin, { account });
  if (waits(name)) expectOk(await admin.post('/v1/agent/kill', { agentId: id }));
  return { id, resource };
}

async function foreignAim(name: RouteName, exists: boolean): Promise<Aim> {
  const id: AgentId = {
    tenant: foreign.tenant,
    ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
    account: 'chief',
    agent: [uniqueName('agent')],
    workspace: 'default',
  };
  const resource = uniqueName('persona');
  if (!exists) return { id, resource };
  await agentIn(foreign.admin, id);
  if (waits(name)) expectOk(await foreign.admin.post('/v1/agent/kill', { agentId: id }));
  expectOk(await postResource(foreign.admin, 'persona', resource, { instructions: 'secret plans' }));
  return { id, resource };
}

/** The fields a route needs besides the one that names its target. */
const bodies: Partial<Record<RouteName, Record<string, unknown>>> = {
  spawn: { description: 'x' },
  queue: { description: 'x' },
  removeFollowUp: { followUpId: 'x' },
  followUp: { followUpId: 'x' },
  stopTurn: { runId: '1' },
  createTasks: { tasks: [{ subject: 'x' }] },
  updateTask: { id: 't', subject: 'x' },
  ask: { question: 'x' },
  fail: { message: 'x' },
  signIn: { code: 'x' },
  revokeSession: { id: '01890000-0000-7000-8000-000000000000' },
};

function bodyFor(name: RouteName, route: Route, aim: Aim): Record<string, unknown> {
  if (name === 'runnerPoll') {
    return {
      runnerId: randomUUID(),
      name: uniqueName('runner'),
      poll: 1,
      free: { real: 0, rehearsed: 0 },
      runs: [],
    };
  }
  const run = { runnerId: registered.runnerId, agentKey: randomUUID(), runId: 1 };
  if (name === 'runnerReport') return { ...run, report: 1 };
  const checkpoint = { ...run, checkpointId: randomUUID() };
  if (name === 'runnerSaveCheckpoint') return { ...checkpoint, part: 0, content: 'AAAA' };
  if (name === 'runnerCompleteCheckpoint') return { ...checkpoint, parts: 1, final: true };
  if (name === 'runnerCheckpoints') return run;
  if (name === 'runnerLoadCheckpoint') return { ...checkpoint, part: 0 };
  if (name === 'runnerEndedAgents') return { runnerId: run.runnerId, agentKeys: [run.agentKey] };
  if (name === 'waitMany') return { agentIds: [aim.id] };
  if (route.body?.properties?.parentId) return { parentId: aim.id, tenant: aim.id.tenant };
  if (route.access === 'catalog-write') {
    return {
      ref: { tenant: aim.id.tenant },
      payload: encode({ instructions: 'x' }),
      justification: 'a test',
    };
  }
  return { agentId: aim.id, ...bodies[name] };
}

async function use(caller: Api, name: RouteName, route: Route, aim: Aim): Promise<Answer<unknown>> {
  const { provider, org } = aim.id.tenant;
  if (route.stream && route.method === 'GET') {
    const { agent: path, workspace, ownerProvider, account } = aim.id;
    const id = name === 'timelineStreamByGet' ? 'agentId' : 'parentId';
    const fields = Object.entries({ workspace, ownerProvider, account, agent: path.join('/') });
    const query = new URLSearchParams([
      ...[...fields, ['tenant.provider', provider], ['tenant.org', org]].map(
        ([field = '', value = '']) => [`${id}.${field}`, value] as [string, string],
      ),
    ]);
    return opened(openRequest(caller, `${route.path}?${query}`, undefined));
  }
  const query = route.query
    ? `?ref.tenant.provider=${provider}&ref.tenant.org=${org}${name === 'deleteResource' ? '&justification=x' : ''}`
    : '';
  const path = route.path.replace('{ref.kind}', 'persona').replace('{ref.name}', aim.resource) + query;
  if (route.method === 'GET') return caller.get(path);
  if (route.method === 'DELETE') return caller.del(path);
  const body = bodyFor(name, route, aim);
  if (!route.stream) return caller.post(path, body);
  return opened(openRequest(caller, path, body));
}

/** The reply to a stream request; a stream that opens is closed again. */
async function opened(held: OpenRequest): Promise<Answer<unknown>> {
  if ((await held.opened) !== 200) {
    const { status, text } = await held.ended;
    const headers = new Headers({ 'content-type': 'application/json' });
    return { status, body: JSON.parse(text), headers };
  }
  held.abort();
  await held.ended;
  return { status: 200, body: {}, headers: new Headers() };
}

const expectCell = (answer: Answer<unknown>, cell: ErrorCode | 200): void => {
  if (cell === 200) expectOk(answer);
  else expectError(answer, cell);
};

/** A reply without the names that the request contained. */
const masked = (answer: Answer<unknown>, aim: Aim): string =>
  JSON.stringify([answer.status, answer.body])
    .replaceAll(aim.id.agent[0] ?? '', 'NAME')
    .replaceAll(aim.resource, 'NAME')
    .replaceAll(aim.id.tenant.org, 'ORG');

const cells = routeEntries.flatMap(([name, route]) => roles.map((role) => [role, name, route] as const));
const hasTarget = ({ access }: Route): boolean => !['self', 'person', 'runner', 'own-page'].includes(access);

describe('the matrix', () => {
  test.each(cells.filter(([role, name]) => !open(role, name)))(
    '%s on its own: %s',
    async (role, name, route) => {
      const aim = await withMessage(admin, name, await ownAim(role, name, route));
      expectCell(await use(callers[role], name, route, aim), expected(role, name, route.access, 'own'));
    },
  );

  const crossing = cells.filter(([role, , route]) => role === 'operator' && hasTarget(route));

  test.each(cells.filter(([role, , route]) => role !== 'operator' && hasTarget(route)))(
    "%s on another tenant's: %s, and no reply tells whether it exists",
    async (role, name, route) => {
      const existing = await withMessage(foreign.admin, name, await foreignAim(name, true));
      const absent = await foreignAim(name, false);
      const nowhere = { ...absent, id: { ...absent.id, tenant: tenantOf(uniqueName('nobody')) } };
      const toExisting = await use(callers[role], name, route, existing);
      const toAbsent = await use(callers[role], name, route, absent);
      const toNowhere = await use(callers[role], name, route, nowhere);
      expectCell(toExisting, expected(role, name, route.access, 'foreign existing'));
      expectCell(toAbsent, expected(role, name, route.access, 'foreign absent'));
      expectError(toNowhere, 'PERMISSION_DENIED');
      expect(masked(toExisting, existing)).toBe(masked(toAbsent, absent));
      expect(masked(toNowhere, nowhere)).toBe(masked(toAbsent, absent));
      expect(JSON.stringify(toExisting.body)).not.toContain('secret plans');
    },
  );

  test.each(crossing)("%s on another tenant's: %s", async (role, name, route) => {
    const toExisting = await use(
      callers[role],
      name,
      route,
      await withMessage(foreign.admin, name, await foreignAim(name, true)),
    );
    expectCell(toExisting, expected(role, name, route.access, 'foreign existing'));
    const toAbsent = await use(callers[role], name, route, await foreignAim(name, false));
    // A history stays after its resource is deleted, so an empty one counts as absent.
    if (name === 'resourceHistory') expect([200, 404]).toContain(toAbsent.status);
    else expectCell(toAbsent, expected(role, name, route.access, 'foreign absent'));
  });

  test.each(crossing)(
    '%s on a tenant that does not exist: %s is answered, not died of',
    async (role, name, route) => {
      const absent = await foreignAim(name, false);
      const nowhere = { ...absent, id: { ...absent.id, tenant: tenantOf(uniqueName('nobody')) } };
      expect((await use(callers[role], name, route, nowhere)).status).toBeLessThan(500);
    },
  );
});

describe('what no target names', () => {
  interface Page {
    readonly entries: AgentEntry[];
    readonly nextPageToken: string;
  }
  const orgs = (page: Page): string[] => [...new Set(page.entries.map(({ agentId }) => agentId.tenant.org))];

  test('a list of every account shows one tenant', async () => {
    expectOk(await foreign.admin.post('/v1/agent/kill', { agentId: await agentIn(foreign.admin, {}) }));
    await agentIn(foreign.admin, {});
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

  test('a wait for many with one of another tenant among them is refused whole', async () => {
    const mine = await agentIn(admin, {});
    expectOk(await admin.post('/v1/agent/kill', { agentId: mine }));
    const { id } = await foreignAim('waitMany', true);
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
      const aim = await foreignAim('status', exists);
      const answer = await postResource(admin, 'share-link', uniqueName('link'), { agentId: aim.id });
      expect([400, 403]).toContain(answer.status);
      replies.push(masked(answer, aim));
    }
    expect(replies[0]).toBe(replies[1]);
  });

  test("a child can't be spawned below another tenant's agent of the same path", async () => {
    const { id } = await foreignAim('spawn', true);
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

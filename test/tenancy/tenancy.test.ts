import { randomUUID } from 'node:crypto';
import type { Access, AgentId, Role, Route, RouteName } from '@muster/sdk/contract';
import { roles } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type Api, apiOf, postFields } from '../support/api.ts';
import { createKey, createShareLink, encode, postResource, uniqueName } from '../support/catalog.ts';
import { routeEntries } from '../support/contract-schemas.ts';
import { type ErrorCode, expectError, expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { gifText, png } from '../support/images.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { type OpenRequest, openRequest } from '../support/streams.ts';
import { metricsKey, newTenant, tenantOf } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { type Aim, agentIn, type ForeignTenant, foreignAim, masked, waits } from './foreign-targets.ts';

/**
 * Every route × every role × {own, another tenant's that exists, another tenant's that does not exist, one of no
 * tenant}. A new route is tested automatically; the expected reply follows from the tables below.
 */

/** Which roles may use a route of this access in their own tenant. */
const permitted: Record<Access, readonly Role[]> = {
  self: roles,
  person: ['viewer', 'member', 'admin', 'operator'],
  demand: ['viewer', 'member', 'admin', 'operator', 'runner'],
  read: ['viewer', 'member', 'admin', 'operator', 'agent', 'share'],
  command: ['member', 'admin', 'operator', 'agent'],
  spawn: ['member', 'admin', 'operator', 'agent'],
  'catalog-read': ['viewer', 'member', 'admin', 'operator'],
  'catalog-write': ['member', 'admin', 'operator'],
  runner: ['runner'],
  // Everyone with a key, except the pages of the service.
  'own-page': [],
  anyone: roles,
};

/** A share link shows one agent. */
const isList = (name: RouteName): boolean => ['list', 'listStream', 'listStreamByGet'].includes(name);

/** The reply to a permitted caller on a target that exists, where it is not 200. */
const answersToPermitted: Partial<Record<RouteName, ErrorCode>> = {
  session: 'NOT_FOUND', // a key has none
  signOut: 'NOT_FOUND',
  revokeSession: 'NOT_FOUND', // no such session
  revokeKey: 'NOT_FOUND', // no such key
  showLogin: 'NOT_FOUND', // no such code
  answerLogin: 'NOT_FOUND',
  subscribePush: 'FAILED_PRECONDITION', // a key has no browser
  unsubscribePush: 'NOT_FOUND', // no such subscription
  testPush: 'NOT_FOUND',
  stopTurn: 'INVALID_ARGUMENT', // no turn runs
  replyToThread: 'NOT_FOUND', // no such thread
  resolveThread: 'NOT_FOUND',
  retry: 'FAILED_PRECONDITION', // neither blocked nor retrying
  deleteAgent: 'FAILED_PRECONDITION', // it has not ended
  openChangeRequest: 'FAILED_PRECONDITION', // nothing was pushed
  listDeliveries: 'NOT_FOUND', // no such integration
  redeliver: 'NOT_FOUND',
  testIntegration: 'NOT_FOUND',
  listNotificationDeliveries: 'NOT_FOUND', // no such notification
  redeliverNotification: 'NOT_FOUND',
  testNotification: 'NOT_FOUND',
  listSignIns: 'NOT_FOUND', // no such sign-in
  testSignIn: 'NOT_FOUND',
  listTriggerDeliveries: 'NOT_FOUND', // no such trigger
  redeliverToTrigger: 'NOT_FOUND',
  testTrigger: 'NOT_FOUND',
  runSchedule: 'NOT_FOUND', // no such schedule
  scheduleHistory: 'NOT_FOUND',
  undrainRunners: 'NOT_FOUND', // no such runner
  updateMember: 'NOT_FOUND', // no such account
  runnerReport: 'NOT_FOUND', // no such agent
  runnerCredit: 'NOT_FOUND',
  checkpoint: 'NOT_FOUND', // nothing was saved
  attachment: 'NOT_FOUND', // no such attachment
  runnerSaveCheckpoint: 'ABORTED', // no such run
  runnerCompleteCheckpoint: 'ABORTED',
  runnerCheckpoints: 'ABORTED',
  runnerLoadCheckpoint: 'ABORTED',
  runnerAttachment: 'ABORTED',
  runnerSaveAttachment: 'ABORTED',
  runnerGitCredential: 'ABORTED',
};

/** The reply to an operator in another tenant on a target that does not exist, where it is not NOT_FOUND. */
const absentToOperator: Partial<Record<RouteName, 200>> = {
  spawn: 200,
  writeResource: 200,
  validateResource: 200,
  listResources: 200,
  listMembers: 200,
  syncChangeRequests: 200,
  retryMany: 200, // its reply says what became of each agent
};

type Target = 'own' | 'foreign existing' | 'foreign absent';

/** Commands that only the agent's own run may send. */
const isOwnWord = (name: RouteName): boolean => ['ask', 'finish', 'fail'].includes(name);

/** About schedules, triggers and notifications, which members may have. */
const isOfOwnDocument = (name: RouteName): boolean =>
  /^(runSchedule|scheduleHistory|(list|redeliver|test)(To)?(Trigger|Notification)(Deliveries)?)$/.test(name);

/** About integrations and sign-ins, which only admins administer. */
const isAdmins = (name: RouteName): boolean =>
  ['listDeliveries', 'redeliver', 'testIntegration', 'listSignIns', 'testSignIn'].includes(name);

/** About runners, the members of the tenant and what they did. */
const isOfAdmins = (name: RouteName): boolean =>
  ['audit', 'drainRunners', 'undrainRunners', 'listMembers', 'revokeKey', 'updateMember'].includes(name);

function expected(role: Role, name: RouteName, access: Access, target: Target): ErrorCode | 200 {
  if (!permitted[access].includes(role)) return 'PERMISSION_DENIED';
  if (isOwnWord(name) && role !== 'agent') return 'PERMISSION_DENIED';
  if (isOfAdmins(name) && (role === 'viewer' || role === 'member')) return 'PERMISSION_DENIED';
  // Without a name it is about all change requests.
  if ((isAdmins(name) || name === 'syncChangeRequests') && role === 'member') return 'PERMISSION_DENIED';
  if (role === 'share' && isList(name)) return 'PERMISSION_DENIED';
  if (name === 'markAgents' && (role === 'operator' || target !== 'own')) return 'PERMISSION_DENIED';
  if (target === 'own') return answersToPermitted[name] ?? 200;
  if (role !== 'operator') return 'PERMISSION_DENIED';
  if (target === 'foreign absent') return absentToOperator[name] ?? 'NOT_FOUND';
  if (name === 'spawn') return 'ALREADY_EXISTS';
  return answersToPermitted[name] ?? 200;
}

let server: SharedServer;
let admin: Api;
let foreign: ForeignTenant;
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
    metrics: (await metricsKey(operator, server.tenant)).api,
    agent: admin.as(claim.token),
    share: (await createShareLink(admin, shared)).api,
  };
  registered = new FakeRunner(callers.runner);
  expectOk(await registered.poll({ free: { real: 0, rehearsed: 0 } }));
});

afterAll(async () => {
  await server?.close();
});

const isSelfTask = (name: RouteName): boolean => name === 'createTasks' || name === 'updateTask';

/** A message that can be read by its id. */
async function withMessage(chief: Api, name: RouteName, aim: Aim): Promise<Aim> {
  if (name !== 'followUp' || aim.id === shared) return aim;
  expectOk(await chief.post('/v1/agent/queue', { agentId: aim.id, followUpId: 'x', description: 'x' }));
  return aim;
}

/** Targets of the callers' own, for requests that change nothing. */
const unchangedAims = new Map<Role, Promise<Aim>>();

/** A target of the caller's own that fits the route. */
function ownAim(role: Role, name: RouteName, route: Route): Promise<Aim> {
  const isRefused = expected(role, name, route.access, 'own') === 'PERMISSION_DENIED';
  const changes = ['command', 'spawn', 'catalog-write'].includes(route.access) && !isRefused;
  if (changes || waits(name)) return newOwnAim(role, name, route.access.startsWith('catalog'));
  const aim = unchangedAims.get(role) ?? newOwnAim(role, 'status', true);
  unchangedAims.set(role, aim);
  return aim;
}

async function newOwnAim(role: Role, name: RouteName, hasResource: boolean): Promise<Aim> {
  const resource = uniqueName('persona');
  const creator = role === 'member' ? callers.member : admin;
  if (hasResource) expectOk(await postResource(creator, 'persona', resource, {}));
  if (role === 'share') return { id: shared, resource };
  if (role === 'agent') {
    const child = { ...self, agent: [...self.agent, uniqueName('child')] };
    if (name === 'spawn') return { id: child, resource };
    if (isSelfTask(name) || isOwnWord(name) || name === 'status') return { id: self, resource };
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

/** The fields a route needs besides the one that names its target. */
const bodies: Partial<Record<RouteName, Record<string, unknown>>> = {
  spawn: { description: 'x' },
  queue: { description: 'x' },
  removeFollowUp: { followUpId: 'x' },
  followUp: { followUpId: 'x' },
  stopTurn: { runId: '1' },
  setBudget: { budgetUsd: 5 },
  createTasks: { tasks: [{ subject: 'x' }] },
  updateTask: { id: 't', subject: 'x' },
  createReview: { comments: [{ path: 'a.ts', body: 'x' }] },
  replyToThread: { threadId: '01890000-0000-7000-8000-000000000000', body: 'x' },
  resolveThread: { threadId: '01890000-0000-7000-8000-000000000000' },
  ask: { question: 'x' },
  fail: { message: 'x' },
  signIn: { code: 'x' },
  revokeSession: { id: '01890000-0000-7000-8000-000000000000' },
  revokeKey: { keyId: 'none' },
  startLogin: { client: 'muster' },
  pollLogin: { deviceCode: 'none' },
  showLogin: { userCode: 'none' },
  answerLogin: { userCode: 'none', approve: true },
  subscribePush: { endpoint: 'https://push.example/x', p256dh: 'x', auth: 'x' },
  unsubscribePush: { id: '01890000-0000-7000-8000-000000000000' },
  testPush: { id: '01890000-0000-7000-8000-000000000000' },
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
  if (name === 'runnerCredit') return { ...run, upToUsd: 1 };
  if (name === 'runnerPartials') return { runnerId: run.runnerId, partials: [] };
  const checkpoint = { ...run, checkpointId: randomUUID() };
  if (name === 'runnerSaveCheckpoint') return { ...checkpoint, part: 0, content: 'x' };
  if (name === 'runnerCompleteCheckpoint') return { ...checkpoint, parts: 1, final: true };
  if (name === 'runnerCheckpoints') return run;
  if (name === 'runnerLoadCheckpoint') return { ...checkpoint, part: 0 };
  if (name === 'runnerAttachment') return { ...run, attachmentId: 'x' };
  if (name === 'runnerSaveAttachment') return { ...run, content: png() };
  if (name === 'runnerGitCredential') return { ...run, repo: 'https://git.example/team/project.git' };
  if (name === 'runnerEndedAgents') return { runnerId: run.runnerId, agentKeys: [run.agentKey] };
  if (name === 'waitMany' || name === 'retryMany') return { agentIds: [aim.id] };
  if (name === 'markAgents') return { marks: [{ agentId: aim.id, seen: 1 }] };
  if (name === 'attachment') return { agentId: aim.id, attachmentId: 'x' };
  if (route.body?.properties?.parentId) return { parentId: aim.id, tenant: aim.id.tenant };
  if (name === 'drainRunners') return { pool: 'default' };
  if (name === 'undrainRunners') return { pool: 'default', runners: ['nobody'] };
  if (name === 'listMembers') return { tenant: aim.id.tenant };
  if (name === 'updateMember')
    return {
      tenant: aim.id.tenant,
      account: 'nobody',
      ownerProvider: 'PROVIDER_IDP_OIDC',
      justification: 'x',
    };
  if (isOfOwnDocument(name)) return { tenant: aim.id.tenant, name: aim.resource };
  if (isAdmins(name)) return { tenant: aim.id.tenant, name: aim.resource, deliveryId: 'x' };
  if (name === 'syncChangeRequests') return { tenant: aim.id.tenant };
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
  if (name === 'uploadAttachment' || (route.stream && route.method === 'GET')) {
    const { agent: path, workspace, ownerProvider, account } = aim.id;
    const id = name === 'listStreamByGet' ? 'parentId' : 'agentId';
    const fields = Object.entries({ workspace, ownerProvider, account, agent: path.join('/') });
    const query = new URLSearchParams([
      ...[...fields, ['tenant.provider', provider], ['tenant.org', org]].map(
        ([field = '', value = '']) => [`${id}.${field}`, value] as [string, string],
      ),
    ]);
    if (route.upload) return caller.post(`${route.path}?${query}`, gifText, { 'content-type': 'image/gif' });
    return opened(openRequest(caller, `${route.path}?${query}`, undefined));
  }
  const query = route.access.startsWith('catalog')
    ? `?ref.tenant.provider=${provider}&ref.tenant.org=${org}${name === 'deleteResource' ? '&justification=x' : ''}`
    : '';
  const path =
    route.path
      .replace('{pool}', 'default')
      .replace('{ref.kind}', 'persona')
      .replace('{ref.name}', aim.resource) + query;
  if (route.method === 'GET') return caller.get(path);
  if (route.method === 'DELETE') return caller.del(path);
  const body = bodyFor(name, route, aim);
  if (!route.stream) return postFields(caller, { ...route, path }, body);
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

const cells = routeEntries.flatMap(([name, route]) => roles.map((role) => [role, name, route] as const));
const hasTarget = ({ access }: Route): boolean =>
  !['self', 'person', 'demand', 'runner', 'own-page', 'anyone'].includes(access);

describe('the matrix', () => {
  test.each(cells)('%s on its own: %s', async (role, name, route) => {
    const aim = await withMessage(admin, name, await ownAim(role, name, route));
    expectCell(await use(callers[role], name, route, aim), expected(role, name, route.access, 'own'));
  });

  /** Another tenant's targets, by route. Every request but an operator's is refused and changes none of them. */
  const existingAims = new Map<RouteName, Promise<Aim>>();
  const existingAim = (name: RouteName): Promise<Aim> => {
    const aim =
      existingAims.get(name) ??
      foreignAim(foreign, name, true).then((created) => withMessage(foreign.admin, name, created));
    existingAims.set(name, aim);
    return aim;
  };

  const crossing = cells.filter(([role, , route]) => role === 'operator' && hasTarget(route));

  test.each(cells.filter(([role, , route]) => role !== 'operator' && hasTarget(route)))(
    "%s on another tenant's: %s, and no reply tells whether it exists",
    async (role, name, route) => {
      const existing = await existingAim(name);
      const absent = await foreignAim(foreign, name, false);
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
      await withMessage(foreign.admin, name, await foreignAim(foreign, name, true)),
    );
    expectCell(toExisting, expected(role, name, route.access, 'foreign existing'));
    const toAbsent = await use(callers[role], name, route, await foreignAim(foreign, name, false));
    // A history stays after its resource is deleted, so an empty one counts as absent.
    if (name === 'resourceHistory') expect([200, 404]).toContain(toAbsent.status);
    else expectCell(toAbsent, expected(role, name, route.access, 'foreign absent'));
  });

  test.each(crossing)('%s on a tenant that does not exist: %s gets a reply', async (role, name, route) => {
    const absent = await foreignAim(foreign, name, false);
    const nowhere = { ...absent, id: { ...absent.id, tenant: tenantOf(uniqueName('nobody')) } };
    expect((await use(callers[role], name, route, nowhere)).status).toBeLessThan(500);
  });
});

import { createHmac, randomUUID } from 'node:crypto';
import { type Claim, limits, type RouteName, routes, type Service } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type Api, apiOf, postFields } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, decode, postResource, uniqueName } from '../support/catalog.ts';
import { routeEntries } from '../support/contract-schemas.ts';
import { type ErrorCode, expectError, expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { png, uploadTo } from '../support/images.ts';
import { serviceSecret, startServer } from '../support/server.ts';
import { sharedServer, shortLease } from '../support/shared-server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { newTestTenant, TestTenant } from '../support/test-tenant.ts';

/**
 * A runner is identified by the key that registered it, not by the `runnerId` or the name in a request. Every route of
 * access `runner` × every other key that knows both: a new route needs a case here.
 */
const server = await startServer({ runner: false });
afterAll(() => server.close());
const admin = apiOf(server);
const operator = await operatorOf(server);
const { admin: foreignAdmin } = await newTenant(operator);
// The key of the service's own runner is an HMAC of its name with the service's secret and is not stored.
const serviceKey = `mst_service-runner.${createHmac('sha256', serviceSecret)
  .update(JSON.stringify(['service-runner']))
  .digest('base64url')}`;

interface Owner {
  readonly tenant: TestTenant;
  readonly runner: FakeRunner;
  readonly token: string;
  readonly claim: Claim;
  readonly checkpointId: string;
  readonly attachmentId: string;
}

/** A token with its own pool, and a runner that has a live run and a checkpoint. */
async function newOwner(): Promise<Owner> {
  const { workspace } = await newTestTenant(admin);
  const { name, api } = await createKey(admin, { role: 'runner', pool: workspace });
  const runner = new FakeRunner(api);
  const tenant = new TestTenant(admin, workspace, runner);
  await tenant.spawn('a');
  const claim = await tenant.start('a');
  const checkpointId = await runner.saveCheckpoint(claim, Buffer.from('own'));
  const { attachmentId } = expectOk(await uploadTo(admin, tenant.id('a'), png('own')));
  return { tenant, runner, token: name, claim, checkpointId, attachmentId };
}

const runnerKey = async (maker: Api, pool: string): Promise<Api> =>
  (await createKey(maker, { role: 'runner', pool })).api;

async function rotated({ token, tenant }: Owner): Promise<Api> {
  const document = { role: 'runner', pool: tenant.workspace, rotate: true };
  const { payload } = expectOk(await postResource(admin, 'token', token, document));
  return admin.as(decode<{ key: string }>(payload).key);
}

/** Callers that send the owner's `runnerId` and name, and the reply that each route must give. */
const callers: Record<string, { answer: ErrorCode | 200; as: (owner: Owner) => Promise<Api> }> = {
  'another key of the same pool': {
    answer: 'PERMISSION_DENIED',
    as: ({ tenant }) => runnerKey(admin, tenant.workspace),
  },
  'a key of another pool': { answer: 'PERMISSION_DENIED', as: () => runnerKey(admin, 'default') },
  'a key of another tenant': {
    answer: 'PERMISSION_DENIED',
    as: ({ tenant }) => runnerKey(foreignAdmin, tenant.workspace),
  },
  "the service's own runner": {
    answer: 'PERMISSION_DENIED',
    as: async () => admin.as(serviceKey),
  },
  'the same key, moved to another pool': {
    answer: 'PERMISSION_DENIED',
    as: async ({ token, tenant }) => {
      const key = await rotated({ token, tenant } as Owner);
      expectOk(await postResource(admin, 'token', token, { role: 'runner', pool: uniqueName('moved') }));
      return key;
    },
  },
  'a token of the same name, created again': {
    answer: 'PERMISSION_DENIED',
    as: async ({ token, tenant }) => {
      expectOk(await admin.del(`/v1/catalog/token/${token}`));
      return (await createKey(admin, { role: 'runner', pool: tenant.workspace }, {}, token)).api;
    },
  },
  'the key of a deleted token': {
    answer: 'UNAUTHENTICATED',
    as: async (owner) => {
      const key = await rotated(owner);
      expectOk(await admin.del(`/v1/catalog/token/${owner.token}`));
      return key;
    },
  },
  'the rotated key of the same token': { answer: 200, as: rotated },
};

type RunnerRoute = Extract<RouteName, `runner${string}`>;

const evilPart = { part: 0, content: 'evil' };
/** A request with the owner's id and name that changes as much as the route can. */
const bodies: Record<RunnerRoute, (owner: Owner) => Record<string, unknown>> = {
  runnerPoll: ({ runner }) => ({
    runnerId: runner.runnerId,
    name: runner.name,
    poll: 1000,
    free: { real: 1, rehearsed: 1 },
    runs: [],
    leaving: true,
  }),
  runnerReport: (owner) => ({ ...runOf(owner), report: 1000, end: { outcome: 'COMPLETED', finished: true } }),
  runnerCredit: (owner) => ({ ...runOf(owner), upToUsd: 1 }),
  runnerPartials: ({ runner, claim }) => ({
    runnerId: runner.runnerId,
    partials: [
      {
        agentKey: claim.agentKey,
        runId: claim.runId,
        key: 'evil',
        type: 'MESSAGE',
        offset: 0,
        text: 'evil',
      },
    ],
  }),
  runnerSaveCheckpoint: (owner) => ({ ...runOf(owner), checkpointId: randomUUID(), ...evilPart }),
  runnerCompleteCheckpoint: (owner) => ({ ...checkpointOf(owner), parts: 1, final: true }),
  runnerCheckpoints: (owner) => runOf(owner),
  runnerLoadCheckpoint: (owner) => ({ ...checkpointOf(owner), part: 0 }),
  runnerAttachment: (owner) => ({ ...runOf(owner), attachmentId: owner.attachmentId }),
  runnerSaveAttachment: (owner) => ({ ...runOf(owner), content: png('evil') }),
  runnerGitCredential: (owner) => ({ ...runOf(owner), repo: 'https://github.com/team/project.git' }),
  runnerEndedAgents: ({ runner, claim }) => ({ runnerId: runner.runnerId, agentKeys: [claim.agentKey] }),
};

const runOf = ({ runner, claim }: Owner) => ({
  runnerId: runner.runnerId,
  agentKey: claim.agentKey,
  runId: claim.runId,
});
const checkpointOf = (owner: Owner) => ({ ...runOf(owner), checkpointId: owner.checkpointId });

const runnerRoutes = routeEntries.filter(([, { access }]) => access === 'runner');

const expectAnswer = (answer: Answer<unknown>, expected: ErrorCode | 200): void => {
  if (expected === 200) expectOk(answer);
  else expectError(answer, expected);
};

describe('every runner route', () => {
  test('has a case', () => {
    expect(Object.keys(bodies).sort()).toEqual(runnerRoutes.map(([name]) => name).sort());
  });

  const cells = runnerRoutes.flatMap(([name]) =>
    Object.keys(callers).map((caller) => [name, caller] as const),
  );

  const attempts = new Map<string, Promise<{ readonly owner: Owner; readonly api: Api }>>();

  async function newAttempt(caller: string) {
    const owner = await newOwner();
    return { owner, api: await (callers[caller] as (typeof callers)[string]).as(owner) };
  }

  /** What is refused changes nothing, so a refused caller tries every route on the same owner. */
  function attemptBy(caller: string) {
    const attempt = attempts.get(caller) ?? newAttempt(caller);
    if (callers[caller]?.answer !== 200) attempts.set(caller, attempt);
    return attempt;
  }

  test.each(cells)("%s with a runner's id and name, by %s", async (name, caller) => {
    const { owner, api } = await attemptBy(caller);
    const { answer } = callers[caller] as (typeof callers)[string];
    const before = await owner.tenant.status('a');
    const reply = await postFields(api, routes[name], bodies[name as RunnerRoute](owner));
    expectAnswer(reply, answer);
    if (answer === 200) return;
    for (const own of ['b3du', owner.checkpointId]) expect(JSON.stringify(reply.body)).not.toContain(own);
    const { body: kept } = await owner.tenant.send('agent/checkpoint', 'a');
    expect(kept).toMatchObject({ checkpointId: owner.checkpointId, content: 'b3du' });
    const after = await owner.tenant.status('a');
    expect(after).toEqual(before);
    expect(after.run?.state).toBe('RUNNING');
  });

  test.each(runnerRoutes)("%s by a token that claims to be the service's own runner", async (name) => {
    const own = new FakeRunner(admin.as(serviceKey), uniqueName('service'));
    expectOk(await own.poll({ free: { real: 0, rehearsed: 0 } }));
    const claim = { agentKey: randomUUID(), runId: 1 } as Claim;
    const owner = { runner: own, claim, checkpointId: randomUUID(), attachmentId: 'x' } as Owner;
    for (const pool of ['default', uniqueName('pool')]) {
      const reply = await postFields(
        await runnerKey(admin, pool),
        routes[name],
        bodies[name as RunnerRoute](owner),
      );
      expectError(reply, 'PERMISSION_DENIED');
    }
  });
});

describe('a runner that has polled', () => {
  test('is known to the runner routes only after its first poll', async () => {
    const { tenant, claim } = await newOwner();
    const stranger = new FakeRunner(await runnerKey(admin, tenant.workspace));
    expectError(await stranger.checkpoints(claim), 'PERMISSION_DENIED');
    expectOk(await stranger.poll());
    expectError(await stranger.checkpoints(claim), 'ABORTED');
  });

  test("can't poll under another name", async () => {
    const { runner } = await newOwner();
    const { message } = expectError(await runner.poll({ name: 'other' }), 'PERMISSION_DENIED');
    expect(message).toContain(runner.name);
    expectOk(await runner.poll());
  });

  test('keeps its runs when its key is rotated', async () => {
    const owner = await newOwner();
    const same = new FakeRunner(await rotated(owner), owner.runner.name, owner.runner.runnerId);
    expect(expectOk(await same.poll({ poll: 1000, runs: owner.runner.runs })).claims).toEqual([]);
    expectOk(await same.report(owner.claim, { end: { outcome: 'COMPLETED' } }, 9));
    expect(await owner.tenant.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('is not moved with its token: a new process serves the new pool, and the old run goes elsewhere', async () => {
    const owner = await newOwner();
    const { tenant, token, runner } = owner;
    const key = await rotated(owner);
    const pool = uniqueName('moved');
    expectOk(await postResource(admin, 'token', token, { role: 'runner', pool }));
    const restarted = new FakeRunner(key, runner.name);
    expect(expectOk(await restarted.poll()).claims).toEqual([]);
    const next = await new FakeRunner(await runnerKey(admin, tenant.workspace)).claim();
    expect(next).toMatchObject({ agentKey: owner.claim.agentKey, runId: 2 });
  });

  test('learns only of ended agents of its own pool', async () => {
    const { tenant, claim } = await newOwner();
    await tenant.kill('a');
    expect((await tenant.runner.ended([claim.agentKey])).body).toEqual({ ended: [claim.agentKey] });
    const elsewhere = new FakeRunner(await runnerKey(admin, 'default'));
    expectOk(await elsewhere.poll({ free: { real: 0, rehearsed: 0 } }));
    expect((await elsewhere.ended([claim.agentKey])).body).toEqual({ ended: [] });
  });
});

describe('a name', () => {
  test("of another token's live runner is refused, in any pool, and says what to do", async () => {
    const { runner, tenant } = await newOwner();
    for (const pool of [tenant.workspace, 'default']) {
      const rival = new FakeRunner(await runnerKey(admin, pool), runner.name);
      const { message } = expectError(await rival.poll(), 'ALREADY_EXISTS');
      expect(message).toContain(runner.name);
      expect(message).toContain('MUSTER_RUNNER_NAME');
    }
    expect(await tenant.phase('a')).toBe('RUNNING/WORKING');
  });

  test('is free when that runner has left, and is then refused to that runner', async () => {
    const { workspace } = await newTestTenant(admin);
    const first = new FakeRunner(await runnerKey(admin, workspace));
    expectOk(await first.poll());
    expectOk(await first.poll({ leaving: true }));
    const second = new FakeRunner(await runnerKey(admin, workspace), first.name);
    expectOk(await second.poll());
    expectError(await first.poll(), 'ALREADY_EXISTS');
    expectOk(await second.poll());
  });

  test('is free when the lease of a deleted token has expired, and the agent continues there', async ({
    onTestFinished,
  }) => {
    const leased = await sharedServer(shortLease);
    onTestFinished(leased.close);
    const api = apiOf(leased);
    const { workspace } = await newTestTenant(api);
    const old = await createKey(api, { role: 'runner', pool: workspace });
    const tenant = new TestTenant(api, workspace, new FakeRunner(old.api));
    await tenant.spawn('a');
    const claim = await tenant.claim('a');
    expectOk(await api.del(`/v1/catalog/token/${old.name}`));
    const { api: again } = await createKey(api, { role: 'runner', pool: workspace }, {}, old.name);
    const heir = new FakeRunner(again, tenant.runner.name);
    await until(
      'the name to be free',
      () => heir.poll(),
      ({ status }) => status === 200,
    );
    const next = heir.runs.length > 0 ? heir.runs[0] : await heir.claim();
    expect(next).toMatchObject({ agentKey: claim.agentKey, runId: 2 });
  });

  test('belongs to one tenant: another may have it too', async () => {
    const { runner } = await newOwner();
    const twin = new FakeRunner(await runnerKey(foreignAdmin, 'default'), runner.name);
    expectOk(await twin.poll());
  });

  test("of the service's own runner is refused to every tenant, and never to the service", async () => {
    const service = () =>
      new FakeRunner(admin.as(serviceKey), name, undefined, { free: { real: 0, rehearsed: 0 } });
    const name = uniqueName('service');
    expectOk(await service().poll());
    for (const maker of [admin, foreignAdmin]) {
      const rival = new FakeRunner(await runnerKey(maker, 'default'), name);
      expectError(await rival.poll(), 'ALREADY_EXISTS');
    }
    expectOk(await service().poll());
    const { runner } = await newOwner();
    const same = new FakeRunner(admin.as(serviceKey), runner.name);
    expectOk(await same.poll({ free: { real: 0, rehearsed: 0 } }));
  });
});

test('the live runners of a token and of a tenant are limited', async () => {
  const { admin: api } = await newTenant(operator);
  const { name, api: key } = await createKey(api, { role: 'runner' });
  const first = new FakeRunner(key);
  expectOk(await first.poll());
  const client = new pg.Client({ connectionString: server.databaseUrl });
  await client.connect();
  const copies = (count: number, token: string) =>
    client.query(
      `INSERT INTO runners SELECT (json_populate_record(r, json_build_object(
         'id', gen_random_uuid(), 'name', 'copy-' || n, 'token', coalesce($3, r.token)))).*
       FROM runners r, generate_series(1, $2::int) n WHERE r.id = $1`,
      [first.runnerId, count, token || null],
    );
  await copies(limits.runnersPerToken - 1, '');
  const { message } = expectError(await new FakeRunner(key).poll(), 'RESOURCE_EXHAUSTED');
  expect(message).toContain(String(limits.runnersPerToken));
  expectOk(await first.poll());
  await copies(limits.runnersPerTenant - limits.runnersPerToken, `${name}@other`);
  const { api: other } = await createKey(api, { role: 'runner' });
  expectError(await new FakeRunner(other).poll(), 'RESOURCE_EXHAUSTED');
  await client.end();
});

test('a run shows the name of its runner, and no reply to people has an internal id', async () => {
  const { tenant, runner, claim } = await newOwner();
  await tenant.end(claim);
  expect((await tenant.status('a')).run?.runnerId).toBe(runner.name);
  expect((await tenant.runs('a')).map(({ runnerId }) => runnerId)).toEqual([runner.name]);
  const shown = await Promise.all([
    ...['agent/status', 'agent/runs', 'agent/timeline', 'agent/diff', 'agent/tasks'].map((route) =>
      tenant.send(route, 'a'),
    ),
    admin.post('/v1/agents', { account: '*', allDepths: true }),
    admin.get('/v1/catalog/token'),
  ]);
  const text = JSON.stringify(shown.map((answer) => expectOk(answer)));
  for (const internal of [runner.runnerId, claim.agentKey]) expect(text).not.toContain(internal);
});

describe('a page token', () => {
  interface Page {
    readonly entries: readonly Record<string, unknown>[];
    readonly nextPageToken: string;
  }

  const plain = (token: string): string =>
    ['base64url', 'base64', 'hex', 'latin1']
      .map((encoding) => Buffer.from(token, encoding as BufferEncoding).toString('latin1'))
      .join('\n');

  /** Lists with more than one page, and what an unencrypted token would reveal. */
  const lists: Record<string, (token: string) => Promise<Answer<Page>>> = {
    agents: (pageToken) => admin.post('/v1/agents', { account: '*', pageSize: 1, pageToken }),
    catalog: (pageToken) => admin.get(`/v1/catalog/profile?pageSize=1&pageToken=${pageToken}`),
    history: (pageToken) =>
      admin.get(`/v1/catalog/profile/paged-0/history?pageSize=1&pageToken=${pageToken}`),
  };

  beforeAll(async () => {
    for (const name of ['paged-0', 'paged-0', 'paged-1', 'paged-2'])
      expectOk(await postResource(admin, 'profile', name, {}));
    const tenant = await newTestTenant(admin);
    for (const path of ['a', 'b', 'c']) await tenant.spawn(path);
  });

  test.each(Object.keys(lists))('of %s reveals nothing, and is refused when it was changed', async (name) => {
    const read = lists[name] as (typeof lists)[string];
    const { nextPageToken: token } = expectOk(await read(''));
    expect(token).toMatch(/^[\w-]{20,}$/);
    expect(plain(token)).not.toMatch(/paged|[0-9a-f]{8}-[0-9a-f]{4}-/);
    expect(expectOk(await read(token)).entries).toHaveLength(1);
    const changed = `${token.slice(0, -1)}${token.endsWith('A') ? 'Q' : 'A'}`;
    const bad = [
      changed,
      token.slice(1),
      'AAAA',
      Buffer.from(randomUUID()).toString('base64url'),
      'paged-0',
      '1',
    ];
    for (const text of bad) expectError(await read(text), 'INVALID_ARGUMENT', 'pageToken');
  });

  test('works only for its own list', async () => {
    for (const [name, read] of Object.entries(lists)) {
      const { nextPageToken } = expectOk(await read(''));
      for (const [other, open] of Object.entries(lists)) {
        const answer = await open(nextPageToken);
        if (other === name) expectOk(answer);
        else expectError(answer, 'INVALID_ARGUMENT', 'pageToken');
      }
    }
  });
});

describe('the list of runners', () => {
  test('has live runners of the tenant and the service, and is refused to machines', async () => {
    const serviceOf = async (api: Api) => expectOk(await api.get<Service>('/v1/service'));
    const pool = uniqueName('shown');
    const maker = await runnerKey(foreignAdmin, pool);
    const runner = new FakeRunner(maker, uniqueName('shown'), undefined, {
      rehearses: false,
      capabilities: [],
    });
    expectOk(await runner.poll({ backends: ['BACKEND_B'], build: '99.0.0' }));
    const { api: viewer } = await createKey(foreignAdmin, { role: 'viewer', account: 'vic' });
    const shown = await serviceOf(viewer);
    expect(shown.runners).toContainEqual({
      name: runner.name,
      pool,
      backends: ['BACKEND_B'],
      rehearses: false,
      ...{ sandboxed: false, diskFull: false, draining: false, accounts: [], version: '99.0.0' },
      versionWarning: expect.stringContaining('Upgrade the service.'),
    });
    expect(shown.backends).toContainEqual({
      backend: 'BACKEND_B',
      ready: true,
      rehearsed: expect.any(Boolean),
    });
    expect(JSON.stringify(shown)).not.toContain(runner.runnerId);
    expect(JSON.stringify(await serviceOf(admin))).not.toContain(runner.name);
    expectError(await maker.get('/v1/service'), 'PERMISSION_DENIED');
    expectOk(await runner.poll({ leaving: true }));
    expect(JSON.stringify(await serviceOf(viewer))).not.toContain(runner.name);
  });
});

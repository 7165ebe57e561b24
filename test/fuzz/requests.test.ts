import { text } from 'node:stream/consumers';
import { kinds, limits, type ReplyOf, type RouteName, routes } from '@muster/sdk/contract';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Api, agent, apiOf, sendRequest } from '../support/api.ts';
import { runConcurrently } from '../support/async.ts';
import { createKey, postResource } from '../support/catalog.ts';
import { type HttpOutcome, replyProblem } from '../support/contract-schemas.ts';
import { expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { type Caller, type GeneratedRequest, generatedRequest } from '../support/generated-requests.ts';
import type { KnownValues } from '../support/generated-values.ts';
import { type Server, startServer } from '../support/server.ts';
import { codeOf } from '../support/sign-in.ts';

/**
 * Generated requests over HTTP, half of them invalid: none causes a 5xx or a hang, every reply matches its schema, and
 * no known field with a wrong value is accepted.
 *
 * `MUSTER_FUZZ_REQUESTS` sets their number, `MUSTER_FUZZ_SEED` repeats a failure.
 */
const count = Number(process.env.MUSTER_FUZZ_REQUESTS ?? 1_500);
const seed = Number(process.env.MUSTER_FUZZ_SEED ?? 20_260_131);
const atOnce = 16;
const chunkSize = 500;
const hangMs = 10_000;
/** How long the client reads a wait or a stream before it disconnects. */
const listenMs = 200;

let server: Server;
let admin: Api;
let keys: Record<Caller, string>;
let known: KnownValues;

beforeAll(async () => {
  server = await startServer({ runner: false });
  admin = apiOf(server);
  const runnerKey = await createKey(admin, { role: 'runner', pool: 'default' });
  const runner = new FakeRunner(runnerKey.api);
  const holder = new FakeRunner(runnerKey.api);
  const paths = Array.from({ length: 20 }, (_, i) => [`a${i}`]);
  for (const path of [['blocked'], ['held'], ['stoppable'], ...paths, ['a0', 'b'], ['a0', 'b', 'c']]) {
    const tasks = [{ id: 't', subject: 'one' }];
    expectOk(await admin.post('/v1/agent/spawn', { agentId: agent(...path), description: 'x', tasks }));
    expectOk(
      await admin.post('/v1/agent/queue', { agentId: agent(...path), description: 'x', followUpId: 'f' }),
    );
  }
  // One is blocked, two run on a runner that no request uses, one starts, one works, one is idle, one has ended, the others wait.
  const blocked = await holder.claim({ free: { real: 1, rehearsed: 1 } });
  await holder.started(blocked);
  await holder.end(blocked, 'FAILED', { error: { code: 'PROVIDER_KEY_REFUSED', message: 'no' } });
  const held = await holder.claim({ free: { real: 1, rehearsed: 1 } });
  await holder.started(held);
  const checkpointId = await holder.saveCheckpoint(held, Buffer.from('work'));
  await holder.started(await holder.claim({ free: { real: 1, rehearsed: 1 } }));
  const { claims } = expectOk(await runner.poll({ free: { real: 3, rehearsed: 3 } }));
  const [, working, resting] = claims;
  if (!working || !resting) throw new Error('nothing was claimed');
  await runner.started(working);
  await runner.started(resting);
  await runner.end(resting);
  expectOk(await admin.post('/v1/agent/kill', { agentId: agent('a4') }));
  const comments = [{ path: 'src/login.ts', line: 1, body: 'Why?' }];
  const review = { agentId: agent('reviewed'), comments };
  expectOk(await admin.post('/v1/agent/spawn', { agentId: agent('reviewed'), description: 'x' }));
  const { threads } = expectOk(await admin.post<ReplyOf<'createReview'>>('/v1/agent/threads/create', review));
  for (const kind of kinds.filter((one) => one !== 'change-request')) {
    for (const name of ['other', 'new']) expectOk(await postResource(admin, kind, name, {}));
  }
  keys = {
    admin: admin.key,
    member: (await createKey(admin, { role: 'member', account: 'mia' })).key,
    viewer: (await createKey(admin, { role: 'viewer', account: 'vic' })).key,
    runner: runnerKey.key,
    agent: held.token,
    nobody: 'mst_nobody.0123456789abcdef0123456789abcdef',
  };
  const { api: guest } = await createKey(admin, { role: 'viewer', account: 'gus' });
  const codes = await Promise.all(Array.from({ length: limits.signInCodesPerKey }, () => codeOf(guest)));
  known = {
    agents: [...paths, ['a0', 'b'], ['a0', 'b', 'c'], ['new'], ['a1', 'new'], ['absent']],
    names: ['a0', 'a1', 'default', 'planner', 'new', 'other', 'new', 'other'],
    agentKeys: claims.map(({ agentKey }) => agentKey),
    runnerIds: [runner.runnerId, '00000000-0000-4000-8000-000000000001'],
    runnerNames: { [runner.runnerId]: runner.name, '00000000-0000-4000-8000-000000000001': 'generated' },
    held: { runnerId: holder.runnerId, agentKey: held.agentKey, runId: held.runId, checkpointId },
    heldAgent: ['held'],
    stoppable: ['stoppable'],
    blocked: ['blocked'],
    thread: { agent: ['reviewed'], threadId: threads[0]?.threadId ?? '' },
    codes,
    origin: server.url,
  };
});
afterAll(async () => {
  await server?.close();
});

const isHeld = (route: RouteName): boolean =>
  route === 'wait' || route === 'waitMany' || 'stream' in routes[route];

/** All callers use keys, so these routes find no session to show or end. */
const needsSession: readonly RouteName[] = [
  'session',
  'signOut',
  'revokeSession',
  'subscribePush',
  'unsubscribePush',
  'testPush',
];

/** Bodies are JSON, so nothing is ever uploaded. */
const needsUpload: readonly RouteName[] = [
  'attachment',
  'runnerAttachment',
  'runnerSaveAttachment',
  'runnerSaveCheckpoint',
  'uploadAttachment',
];

/** The reply, or undefined when the client disconnected from a wait or a stream that was rightly open. */
async function send(request: GeneratedRequest): Promise<HttpOutcome | undefined> {
  const held = isHeld(request.route);
  const signal = AbortSignal.timeout(held ? listenMs : hangMs);
  let status = 0;
  try {
    const response = await sendRequest(`${server.url}${request.path}`, {
      method: request.method,
      headers: {
        authorization: `Bearer ${keys[request.caller]}`,
        ...(request.body !== undefined && { 'content-type': 'application/json' }),
        ...request.headers,
      },
      body: request.body,
      signal,
    });
    status = response.statusCode ?? 0;
    const contentType = response.headers['content-type'] ?? '';
    return { status, text: await text(response), contentType };
  } catch (error) {
    if (held && signal.aborted && (status === 0 || status === 200)) return undefined;
    throw error;
  }
}

const shown = ({ method, path, caller, headers, body }: GeneratedRequest): string =>
  `${method} ${path.slice(0, 300)} as ${caller} ${JSON.stringify(headers).slice(0, 100)} ${(body ?? '').slice(0, 600)}`;

test(
  `${count} generated requests: no 5xx, no hang, every reply matches its schema, no invalid request is accepted`,
  async () => {
    const complaints: string[] = [];
    const seen = new Map<string, number>();
    for (let done = 0; done < count && complaints.length < 20; done += chunkSize) {
      const numRuns = Math.min(chunkSize, count - done);
      const requests = fc.sample(generatedRequest(known), { seed: seed + done, numRuns });
      await runConcurrently(numRuns, atOnce, async (i) => {
        const request = requests[i];
        if (!request || complaints.length >= 20) return;
        const outcome = await send(request).catch((error: Error) => error);
        if (outcome === undefined) return;
        if (outcome instanceof Error) {
          const cause = outcome.cause instanceof Error ? `: ${outcome.cause.message}` : '';
          complaints.push(`${outcome.name} ${outcome.message}${cause}\n  ${shown(request)}`);
          return;
        }
        const kind = `${request.route} ${outcome.status}`;
        seen.set(kind, (seen.get(kind) ?? 0) + 1);
        const wrong = replyProblem(request, outcome);
        if (wrong) complaints.push(`${wrong}\n  ${shown(request)}`);
      });
    }
    expect(complaints, `MUSTER_FUZZ_SEED=${seed}\n${complaints.join('\n')}`).toEqual([]);
    expect(server.process.exitCode, 'the service is alive').toBeNull();
    expectOk(await admin.get('/v1/whoami'));
    // The generator is useful only if requests get through: every route was both accepted and refused.
    if (count < 5_000) return;
    for (const route of Object.keys(routes) as RouteName[]) {
      const accepted = seen.get(`${route} 200`) ?? 0;
      if (!isHeld(route) && !needsSession.includes(route) && !needsUpload.includes(route))
        expect(accepted, `${route} was never accepted`).toBeGreaterThan(0);
      if ('body' in routes[route]) expect(seen.get(`${route} 400`) ?? 0, `${route} 400`).toBeGreaterThan(0);
    }
  },
  600_000 + count * 20,
);

/** What the generator found before: the request, and what was wrong with the reply. */
const found: readonly (readonly [what: string, request: Omit<GeneratedRequest, 'wrong' | 'headers'>])[] = [
  [
    '500 at more free places than the store counts (seed 1, 15,000 requests)',
    {
      route: 'runnerPoll',
      method: 'POST',
      path: routes.runnerPoll.path,
      caller: 'runner',
      body: JSON.stringify({
        runnerId: 'a1597604-fc00-430c-b55b-14a57a621f45',
        name: 'd1',
        poll: 77,
        free: { real: 77, rehearsed: 2 ** 53 },
        runs: [],
        waitMs: 0,
      }),
    },
  ],
  [
    '500 at a poll number that the store does not count to',
    {
      route: 'runnerPoll',
      method: 'POST',
      path: routes.runnerPoll.path,
      caller: 'runner',
      body: JSON.stringify({
        runnerId: '00000000-0000-4000-8000-000000000001',
        name: 'generated',
        poll: 1e308,
        free: { real: 0, rehearsed: 0 },
        runs: [],
      }),
    },
  ],
  [
    '500 at a run number that the store does not count to',
    {
      route: 'runnerCheckpoints',
      method: 'POST',
      path: routes.runnerCheckpoints.path,
      caller: 'runner',
      body: JSON.stringify({
        runnerId: 'a1597604-fc00-430c-b55b-14a57a621f45',
        agentKey: 'a1597604-fc00-430c-b55b-14a57a621f45',
        runId: 1e308,
      }),
    },
  ],
];

test.each(found)('found before: %s', async (_, request) => {
  const generated = { ...request, headers: {}, wrong: undefined };
  const outcome = await send(generated);
  expect(outcome && replyProblem(generated, outcome)).toBeUndefined();
});

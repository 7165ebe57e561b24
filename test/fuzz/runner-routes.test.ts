import { createHash, randomUUID } from 'node:crypto';
import { text as readText } from 'node:stream/consumers';
import { type PollReply, type Route, type RouteName, routes } from '@muster/sdk/contract';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Api, agent, apiOf, sendRequest, uploadOf } from '../support/api.ts';
import { runConcurrently } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import { type HttpOutcome, replyProblem, routeEntries } from '../support/contract-schemas.ts';
import { expectOk } from '../support/expect-reply.ts';
import { generatedRequest } from '../support/generated-requests.ts';
import type { KnownValues } from '../support/generated-values.ts';
import { png, uploadTo } from '../support/images.ts';
import { type Server, startServer } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';

/**
 * Generated requests to the runner routes. Half are generated from the schemas, most of these invalid in one place. Half
 * are plausible: real runners, real runs and rising numbers, with values that a faulty or hostile runner would send, and
 * often with another token's key. None causes a crash, a hang or a 5xx, every reply matches its schema, and no key gets
 * a reply for a runner of another token.
 *
 * `MUSTER_FUZZ_RUNNER_REQUESTS` sets their number, `MUSTER_FUZZ_SEED` repeats a failure.
 */
const count = Number(process.env.MUSTER_FUZZ_RUNNER_REQUESTS ?? 3_000);
const seed = Number(process.env.MUSTER_FUZZ_SEED ?? 20_260_131);
const atOnce = 16;
const chunkSize = 500;
const hangMs = 10_000;
const agents = 24;
const imageId = createHash('sha256').update(png()).digest('hex').slice(0, 32);

const runnerRoutes = routeEntries.filter(([, { access }]) => access === 'runner');

interface Token {
  readonly key: string;
  /** Runners by id: those that this token has registered. */
  readonly runners: readonly { readonly runnerId: string; readonly name: string }[];
}

let server: Server;
let admin: Api;
let tokens: Token[];
let known: KnownValues;
const runs = new Map<string, { agentKey: string; runId: number }>();
/** By the id of the runner. */
const claimedLast = new Map<string, { agentKey: string; runId: number }>();
let polls = 1;

beforeAll(async () => {
  server = await startServer({ runner: false });
  admin = apiOf(server);
  const foreign = await newTenant(await operatorOf(server));
  const made = [
    await createKey(admin, { role: 'runner' }),
    await createKey(admin, { role: 'runner' }),
    await createKey(admin, { role: 'runner', pool: 'elsewhere' }),
    await createKey(foreign.admin, { role: 'runner' }),
  ];
  tokens = made.map(({ key }, i) => ({
    key,
    runners: [0, 1].map((n) => ({ runnerId: randomUUID(), name: `runner-${i}-${n}` })),
  }));
  for (let i = 0; i < agents; i += 1) {
    const body = { agentId: agent(`a${i}`), description: 'x', model: 'rehearsal-a' };
    expectOk(await admin.post('/v1/agent/spawn', body));
    // Its id derives from the content, so every agent has the same.
    const { attachmentId: uploaded } = expectOk(await uploadTo(admin, agent(`a${i}`), png()));
    expect(uploaded).toBe(imageId);
  }
  for (const { key, runners } of tokens) {
    for (const { runnerId, name } of runners) {
      const free = { real: 0, rehearsed: 3 };
      const poll = { runnerId, name, poll: 1, rehearses: true, free, runs: [] };
      note(expectOk(await admin.as(key).post<PollReply>('/v1/runner/poll', poll)), runnerId);
    }
  }
  const registered = tokens.flatMap(({ runners }) => runners);
  known = {
    agents: [['a0']],
    names: ['a0', 'default'],
    agentKeys: [...runs.values()].map(({ agentKey }) => agentKey),
    runnerIds: registered.map(({ runnerId }) => runnerId),
    runnerNames: Object.fromEntries(registered.map(({ runnerId, name }) => [runnerId, name])),
  };
});
afterAll(async () => {
  await server?.close();
});

function note({ claims }: PollReply, runnerId: string): void {
  for (const { agentKey, runId } of claims) {
    runs.set(`${agentKey}/${runId}`, { agentKey, runId });
    claimedLast.set(runnerId, { agentKey, runId });
  }
}

interface Sent {
  readonly route: RouteName;
  readonly key: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | Buffer | undefined;
  readonly wrong: string | undefined;
  /** The runner is one that another token has registered. */
  readonly isForeign: boolean;
}

const mostly = <T>(usual: T, other: fc.Arbitrary<T>): fc.Arbitrary<T> =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: other });
const text = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.constantFrom('\u0000', '\ud800', 'x'.repeat(70_000), '../..'),
);
const integer = fc.oneof(
  fc.integer({ min: 0, max: 40 }),
  fc.constantFrom(-1, 1.5, 2 ** 31 - 1, 2 ** 31, Number.MAX_SAFE_INTEGER, 2 ** 53, 1e308),
);
/** Of a report, which has many texts. */
const reported = mostly('text', text);
const item = fc.record({
  type: fc.constantFrom('MESSAGE', 'WARNING', 'TOOL_CALL', 'NONE'),
  text: reported,
  data: fc.oneof(
    fc.constant({}),
    fc.dictionary(reported, reported, { maxKeys: 3 }),
    fc.constant({ __proto__: null }),
  ),
});
const push = fc.record({
  repo: reported,
  ref: reported,
  commits: fc.array(reported, { maxLength: 2 }),
  files: fc.array(reported, { maxLength: 3 }),
});
const end = fc.record(
  {
    outcome: fc.constantFrom('COMPLETED', 'INTERRUPTED', 'FAILED', 'PARKED', 'HANDED_BACK', 'LOST'),
    response: reported,
    structuredOutput: fc.jsonValue({ maxDepth: 3 }),
    question: reported,
    finished: fc.boolean(),
    error: fc.record({ code: reported, message: reported }),
    limitUntil: fc.constantFrom('2020-01-01T00:00:00Z', '9999-12-31T23:59:59Z', 'soon'),
  },
  { requiredKeys: ['outcome'] },
);

/** Mostly the same one, of one part, so that it is completed and loaded. */
const checkpointId = mostly<string>(randomUUID(), fc.constantFrom(randomUUID(), 'none'));
const part = mostly(0, integer);

/** Fields of a report besides its run; most of them rare, so that enough reports are accepted. */
const fields: Record<string, fc.Arbitrary<Record<string, unknown>>> = {
  runnerPoll: fc.record(
    {
      free: fc.record({ real: fc.constant(0), rehearsed: fc.constantFrom(0, 1, 3) }),
      capabilities: fc.array(text, { maxLength: 3 }),
      leaving: fc.boolean(),
      waitMs: fc.constantFrom(0, 1),
      // Only numbers that are refused: after a very large one every later poll is outdated.
      poll: fc.constantFrom(0, -1, 1.5, 2 ** 53, 1e308),
    },
    { requiredKeys: ['free'] },
  ),
  runnerReport: fc.record(
    {
      report: integer,
      started: fc.boolean(),
      currentAction: reported,
      session: reported,
      items: fc.array(item, { maxLength: 3 }),
      usage: fc.record(
        { inputTokens: mostly(1, integer), costUsd: mostly(0.1, fc.oneof(fc.double(), integer)) },
        { requiredKeys: [] },
      ),
      pushes: fc.array(push, { maxLength: 2 }),
      diff: fc.record(
        {
          repo: reported,
          files: mostly(1, integer),
          insertions: mostly(1, integer),
          deletions: mostly(1, integer),
          text: reported,
          workingTree: fc.boolean(),
        },
        { requiredKeys: ['repo', 'files', 'insertions', 'deletions', 'text'] },
      ),
      unpushed: fc.record({ commits: mostly(1, integer), files: mostly(1, integer), isSaved: fc.boolean() }),
      steers: fc.array(
        fc.record({ followUpId: reported, sequence: mostly(1, integer), taken: fc.boolean() }),
        {
          maxLength: 3,
        },
      ),
      end,
      gone: fc.boolean(),
    },
    { requiredKeys: ['report'] },
  ),
  runnerCredit: fc.record(
    { upToUsd: mostly(0.5, fc.double({ noNaN: true })), unpricedModel: text },
    { requiredKeys: ['upToUsd'] },
  ),
  runnerPartials: fc.record({
    key: mostly('k', text),
    type: fc.constantFrom('MESSAGE', 'THINKING', 'TOOL_RESULT', 'NONE'),
    offset: mostly(0, integer),
    text,
  }),
  runnerSaveCheckpoint: fc.record({
    checkpointId,
    part,
    content: text,
  }),
  runnerCompleteCheckpoint: fc.record({ checkpointId, parts: mostly(1, integer), final: fc.boolean() }),
  runnerCheckpoints: fc.constant({}),
  runnerLoadCheckpoint: fc.record({ checkpointId, part }),
  runnerAttachment: fc.record({ attachmentId: mostly(imageId, text) }),
  runnerSaveAttachment: fc.record({
    content: fc.oneof(text.map(png), text),
  }),
  runnerGitCredential: fc.record(
    { repo: mostly('https://github.com/team/project.git', text), refused: fc.boolean() },
    { requiredKeys: ['repo'] },
  ),
  runnerEndedAgents: fc.constant({}),
};

const plausible: fc.Arbitrary<Sent> = fc
  .record({
    route: fc.constantFrom(...runnerRoutes.map(([name]) => name)),
    owner: fc.nat(3),
    runner: fc.nat(1),
    run: fc.nat(10_000),
    caller: fc.nat(7),
    runId: fc.option(integer),
  })
  .chain(({ route, owner, runner, run, caller, runId }) =>
    (fields[route] as (typeof fields)[string]).map((more): Sent => {
      const own = tokens[owner] as Token;
      const { runnerId, name } = own.runners[runner] as Token['runners'][number];
      const all = [...runs.values()];
      const named = all[run % all.length];
      // Half of them with the runner's own token.
      const token = tokens[caller] ?? own;
      const isForeign = token !== own;
      polls += 1;
      const body: Record<string, unknown> = {
        runnerId,
        ...(route === 'runnerPoll' && { name, poll: polls, rehearses: true, runs: named ? [named] : [] }),
        ...(route === 'runnerEndedAgents' && { agentKeys: all.map(({ agentKey }) => agentKey) }),
        ...(route !== 'runnerPoll' && route !== 'runnerEndedAgents' && named),
        ...(runId !== null && route !== 'runnerPoll' && route !== 'runnerEndedAgents' && { runId }),
        // Most of these requests are about a run that the runner may hold.
        ...(/Report|Credit|Checkpoint|Credential|Attachment/.test(route) &&
          run % 4 > 0 &&
          claimedLast.get(runnerId)),
        ...(route === 'runnerPartials' ? { partials: [{ ...named, ...more }] } : more),
      };
      const about = { route, key: token.key, wrong: undefined, isForeign };
      const { path, upload }: Route = routes[route];
      if (!upload) return { ...about, path, body: JSON.stringify(body) };
      return { ...about, ...uploadOf(path, body), body: body.content as string | Buffer };
    }),
  );

const bySchema = (): fc.Arbitrary<Sent> =>
  generatedRequest(known, runnerRoutes).map(({ route, path, body, wrong, caller }): Sent => {
    const key = caller === 'runner' ? (tokens[0] as Token).key : admin.key;
    return { route, path, key, body, wrong, isForeign: false };
  });

async function send({ key, path, headers, body }: Sent): Promise<HttpOutcome> {
  const response = await sendRequest(`${server.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body,
    signal: AbortSignal.timeout(hangMs),
  });
  const contentType = response.headers['content-type'] ?? '';
  return { status: response.statusCode ?? 0, text: await readText(response), contentType };
}

/** What is wrong with the reply, or undefined. */
async function judged(sent: Sent, seen: Map<string, number>): Promise<string | undefined> {
  const outcome = await send(sent).catch((error: Error) => error);
  if (outcome instanceof Error) return `${outcome.name} ${outcome.message}: ${String(outcome.cause ?? '')}`;
  const kind = `${sent.route} ${outcome.status}`;
  seen.set(kind, (seen.get(kind) ?? 0) + 1);
  if (sent.isForeign && outcome.status < 400)
    return `another token's key was answered with ${outcome.status}`;
  if (sent.route === 'runnerPoll' && outcome.status === 200)
    note(JSON.parse(outcome.text) as PollReply, JSON.parse(String(sent.body ?? '{}')).runnerId);
  return replyProblem(sent, outcome);
}

test(
  `${count} generated requests to the runner routes: no crash, no hang, no 5xx, nothing for another token's key`,
  async () => {
    const complaints: string[] = [];
    const seen = new Map<string, number>();
    for (let done = 0; done < count && complaints.length < 20; done += chunkSize) {
      const numRuns = Math.min(chunkSize, count - done);
      const requests = fc.sample(fc.oneof(plausible, bySchema()), { seed: seed + done, numRuns });
      await runConcurrently(numRuns, atOnce, async (i) => {
        const sent = requests[i];
        if (!sent || complaints.length >= 20) return;
        const wrong = await judged(sent, seen);
        if (wrong) complaints.push(`${wrong}\n  ${sent.path} ${String(sent.body ?? '').slice(0, 600)}`);
      });
      // Runs end, so new ones are needed.
      for (let i = 0; i < agents; i += 4)
        await admin.post('/v1/agent/queue', { agentId: agent(`a${i}`), description: 'more' });
    }
    expect(complaints, `MUSTER_FUZZ_SEED=${seed}\n${complaints.join('\n')}`).toEqual([]);
    expect(server.process.exitCode, 'the service is alive').toBeNull();
    expectOk(await admin.get('/v1/whoami'));
    if (count < 2_000) return;
    for (const [name] of runnerRoutes) {
      for (const status of [200, 400, 403])
        expect(seen.get(`${name} ${status}`) ?? 0, `${name} ${status}`).toBeGreaterThan(0);
    }
  },
  600_000 + count * 20,
);

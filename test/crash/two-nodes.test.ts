import type { AgentEntry, AgentStatus, SpawnReply, TimelinePartial } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Random } from '../simulation/random.ts';
import { Agents } from '../support/agents.ts';
import { type Answer, type Api, apiOf } from '../support/api.ts';
import { runConcurrently, until } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { openRequest, openStream } from '../support/streams.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { Node } from './node.ts';
import { runnerKey } from './runner-process.ts';
import { Store } from './store.ts';
import { printFigures, randomOf, times, withinMs } from './tier.ts';

/** How often each race between the nodes is tried. */
const rounds = times('MUSTER_CRASH_RACES', 4);

let nodes: Node[] = [];
let store: Store;
let a: Api;
let b: Api;
beforeAll(async () => {
  const one = await Node.start({ runner: false });
  const other = await Node.start({ runner: false, databaseUrl: await one.databaseUrl() });
  nodes = [one, other];
  store = await Store.open(await one.databaseUrl());
  a = one.api;
  b = apiOf({ url: other.url, key: one.key });
});
afterAll(async () => {
  await store?.close();
  for (const node of nodes.reverse()) await node.close();
});

/** A test tenant on node A, and the same workspace seen through node B with a runner that polls there. */
async function bothSides(): Promise<{ here: TestTenant; there: Agents; runnerThere: FakeRunner }> {
  const here = await newTestTenant(a);
  const key = await runnerKey(a, here.workspace);
  return { here, there: new Agents(b, here.workspace), runnerThere: new FakeRunner(b.as(key)) };
}

test('a wait on one node is woken by a run that ended through the other', async () => {
  const { here, runnerThere } = await bothSides();
  await here.spawn('agent');
  const claim = await runnerThere.claim();
  const waiting = openRequest(a, '/v1/agent/wait', { agentId: here.id('agent') });
  await runnerThere.started(claim);
  await runnerThere.end(claim, 'COMPLETED', { response: 'through B' });
  const { text, cut } = await waiting.ended;
  expect(cut).toBe(false);
  expect(JSON.parse(text) as AgentStatus).toMatchObject({
    phase: 'PHASE_WAITING_FOR_INPUT',
    response: 'through B',
  });
});

test('what an agent produces reaches streams on both nodes, also with characters that take many bytes', async () => {
  const { here, runnerThere } = await bothSides();
  await here.spawn('agent');
  const claim = await runnerThere.claim();
  await runnerThere.started(claim);
  const open = (api: Api) =>
    openStream<TimelinePartial>(api, '/v1/agent/timeline/stream', { agentId: here.id('agent') });
  const one = await open(a);
  const since = await runnerThere.watched(claim);
  const other = await open(b);
  await runnerThere.watched(claim, since);
  const text = '\u0007'.repeat(1_990);
  await runnerThere.say(claim, text);
  await runnerThere.say(claim, ' done', { offset: text.length });
  for (const stream of [one, other]) {
    const isLast = ({ type, data }: { type: string; data: TimelinePartial }) =>
      type === 'partial' && data.text.endsWith('done');
    expect(await stream.until(isLast)).toBe(true);
    stream.close();
    const partials = stream.seen.filter(({ type }) => type === 'partial').map(({ data }) => data);
    expect(partials.map((partial) => partial.text).join('')).toBe(`${text} done`);
    for (const partial of partials)
      expect(`${text} done`.startsWith(partial.text, partial.offset)).toBe(true);
  }
});

test('a runner on one node gets work that was queued on the other', async () => {
  const { here, there } = await bothSides();
  await here.rested('agent');
  const polling = here.runner.poll({ waitMs: 10_000 });
  await there.queue('agent', { followUpId: 'through-b', description: 'go on' });
  const { body } = await polling;
  expect(body.claims.flatMap(({ messages }) => messages.map(({ followUpId }) => followUpId))).toEqual([
    'through-b',
  ]);
});

test('runners that poll two nodes at the same time keep to the maxRunsTotal of their pool', async () => {
  const maxRunsTotal = 3;
  const here = await newTestTenant(a, { maxRunsTotal });
  const key = await runnerKey(a, here.workspace);
  // Each node has runners for other agents: only the limit keeps them from claiming six.
  const models = { BACKEND_A: 'claude-opus-4-8', BACKEND_B: 'gpt-5.2' };
  const runners = [a, b].map((api, i) => {
    const backend = i === 0 ? 'BACKEND_A' : 'BACKEND_B';
    return new FakeRunner(api.as(key), undefined, undefined, { rehearses: false, backends: [backend] });
  });
  await runConcurrently(40, 8, (i) =>
    here.spawn(`agent-${i}`, { model: i % 2 === 0 ? models.BACKEND_A : models.BACKEND_B }),
  );
  for (let round = 0; round < 6; round += 1) {
    const answers = await Promise.all(runners.map((runner) => runner.poll()));
    const claims = answers.map(({ body }) => body.claims);
    expect(claims.flat()).toHaveLength(maxRunsTotal);
    for (const [i, runner] of runners.entries())
      for (const claim of claims[i] ?? []) await runner.end(claim, 'COMPLETED');
  }
});

test('a stop on one node reaches a runner that polls the other', async () => {
  const { here, there } = await bothSides();
  await here.spawn('agent');
  const claim = await here.start('agent');
  const polling = here.runner.poll({ waitMs: 10_000 });
  await there.stop('agent', claim.runId);
  const { body } = await polling;
  expect(body.stops).toEqual([{ agentKey: claim.agentKey, runId: claim.runId, kind: 'INTERRUPT' }]);
  await here.end(claim, 'INTERRUPTED');
  expect(await there.phase('agent')).toBe('WAITING_FOR_INPUT/INTERRUPTED');
});

test('a kill on one node reaches a runner that polls the other', async () => {
  const { here, there } = await bothSides();
  await here.spawn('agent');
  const claim = await here.start('agent');
  const polling = here.runner.poll({ waitMs: 10_000 });
  await there.kill('agent');
  expect((await polling).body.stops).toEqual([
    { agentKey: claim.agentKey, runId: claim.runId, kind: 'KILL' },
  ]);
});

test('a token revoked on one node stops on both within five seconds, and its waits are cut', async () => {
  const { here } = await bothSides();
  await here.spawn('agent');
  const revoked = await createKey(a, { role: 'member' });
  const statusesOf = () =>
    Promise.all([a, b].map(async (api) => (await api.as(revoked.key).get('/v1/whoami')).status));
  expect(await statusesOf()).toEqual([200, 200]);
  const waits = [a, b].map((api) =>
    openRequest(api.as(revoked.key), '/v1/agent/wait', { agentId: here.id('agent') }),
  );
  expect((await b.del(`/v1/catalog/token/${revoked.name}`)).status).toBe(200);
  await until('the key refused by both nodes', statusesOf, (seen) => seen.every((t) => t === 401), 5_000);
  expect((await Promise.all(waits.map(({ ended }) => ended))).map(({ status }) => status)).toEqual([
    401, 401,
  ]);
});

test('a stream of a list on one node shows a large tree that is killed through the other', async () => {
  const { here, there } = await bothSides();
  await here.spawn('root');
  // More than one notification can name.
  const children = Array.from({ length: 150 }, (_, i) => `root/child-${i}`);
  await runConcurrently(children.length, 16, (i) => here.spawn(children[i] ?? ''));
  const filter = { workspace: here.workspace, allDepths: true, includeTerminal: true };
  const stream = await openStream<AgentEntry>(a, '/v1/agents/stream', filter);
  expect(await stream.until(({ type }) => type === 'whole')).toBe(true);
  await there.kill('root');
  const ended = new Set<string>();
  const isLast = ({ type, data }: { type: string; data: AgentEntry }) => {
    if (type === 'entry' && data.phase === 'PHASE_CANCELED') ended.add(data.agentId.agent.join('/'));
    return ended.size > children.length;
  };
  expect(await stream.until(isLast)).toBe(true);
  stream.close();
});

test('a follow-up id that is sent to both nodes at the same time is one message', async () => {
  const { here, there } = await bothSides();
  await here.spawn('agent');
  for (let round = 0; round < rounds; round += 1) {
    const message = { followUpId: `once-${round}`, description: `message ${round}` };
    await Promise.all(
      [here, there].flatMap((side) => [side.queue('agent', message), side.queue('agent', message)]),
    );
  }
  const queued = await here.timeline('agent', 'FOLLOW_UP_QUEUED');
  expect(queued.map(({ followUpId }) => followUpId)).toEqual(queued.map((_, i) => `once-${i}`));
  expect(queued).toHaveLength(rounds);
});

test.for([
  ['a child', (round: number) => ['above', `child-${round}`]],
  ['a root', (round: number) => [`root-${round}`]],
  ['an agent whose name is minted', () => []],
] as const)(
  'a spawn of %s that is sent to both nodes at the same time under one key is one agent',
  async ([what, path]) => {
    const above = { agentId: { agent: ['above'] }, description: 'above', model: 'rehearsal-a' };
    await a.post('/v1/agent/spawn', above, { 'idempotency-key': 'above' });
    for (let round = 0; round < rounds; round += 1) {
      const key = `${what} ${round}`;
      const body = { agentId: { agent: path(round) }, description: key, model: 'rehearsal-a' };
      const answers = await Promise.all(
        [a, b, a, b].map((api) => api.post<SpawnReply>('/v1/agent/spawn', body, { 'idempotency-key': key })),
      );
      expect(
        answers.map(({ status }) => status),
        JSON.stringify(answers.map((x) => x.body)),
      ).toEqual([200, 200, 200, 200]);
      expect(new Set(answers.map((answer) => JSON.stringify(answer.body.agentId))).size).toBe(1);
      expect(await store.count('SELECT FROM agent_briefs WHERE description = $1', [key])).toBe(1);
    }
  },
);

test('of spawns of the same agents that are sent to both nodes at the same time, in any order, one each is accepted', async () => {
  for (let round = 0; round < rounds; round += 1) {
    const names = Array.from({ length: 12 }, (_, i) => `contested-${round}-${i}`);
    const spawnAll = (api: Api, order: string[], by: string) =>
      order.map(async (name) => {
        const body = { agentId: { agent: [name] }, description: 'x', model: 'rehearsal-a' };
        const { status } = await api.post('/v1/agent/spawn', body, { 'idempotency-key': `${name} ${by}` });
        return `${name} ${status}`;
      });
    const seen = await Promise.all([...spawnAll(a, names, 'a'), ...spawnAll(b, names.toReversed(), 'b')]);
    expect(seen.sort()).toEqual(names.flatMap((name) => [`${name} 200`, `${name} 409`]).sort());
  }
});

test('of conditional writes that are sent to both nodes at the same time, one is accepted and the generation increases by one', async () => {
  for (let generation = 0; generation < rounds; generation += 1) {
    const write = (api: Api, by: string) =>
      api.post('/v1/catalog/persona/contested', {
        payload: Buffer.from(JSON.stringify({ instructions: by })).toString('base64'),
        ifGenerationMatch: String(generation),
      });
    const answers = await Promise.all([write(a, 'a'), write(b, 'b'), write(a, 'c'), write(b, 'd')]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400, 400, 400]);
    const { body } = await b.get<{ generation: string }>('/v1/catalog/persona/contested');
    expect(body.generation).toBe(String(generation + 1));
  }
});

test('waits on one node for a message, a run and the agents below an agent see changes made through the other', async () => {
  const { here, there, runnerThere } = await bothSides();
  await here.spawn('agent');
  await here.spawn('agent/child');
  const one = { free: { real: 1, rehearsed: 1 } };
  const first = await runnerThere.claim(one);
  const second = await runnerThere.claim(one);
  const [claim, child] = first.agentId.agent.length === 1 ? [first, second] : [second, first];
  await there.queue('agent', { followUpId: 'm', description: 'go on' });
  const agentId = here.id('agent');
  const waits = {
    run: openRequest(a, '/v1/agent/wait', { agentId, runId: 1 }),
    below: openRequest(a, '/v1/agents/wait', { below: agentId }),
    message: openRequest(a, '/v1/agent/wait', { agentId, followUpId: 'm' }),
  };
  const recordOf = async (wait: keyof typeof waits): Promise<AgentStatus> =>
    JSON.parse((await waits[wait].ended).text) as AgentStatus;
  await runnerThere.started(child);
  await runnerThere.end(child);
  expect((await recordOf('below')).agentId.agent).toEqual(['agent', 'child']);
  await runnerThere.started(claim);
  await runnerThere.end(claim);
  expect((await recordOf('run')).run?.runId).toBeDefined();
  await there.remove('agent', 'm');
  expect((await recordOf('message')).timedOut).toBe(false);
});

const trees = times('MUSTER_CRASH_TREES', 60);
const firstSeed = times('MUSTER_CRASH_SEED', 1);

type Path = readonly string[];

const spawn = (random: Random, path: Path): Promise<Answer<SpawnReply>> =>
  random.oneOf([a, b]).post<SpawnReply>('/v1/agent/spawn', {
    agentId: { workspace: 'default', agent: path },
    description: 'grow',
    model: 'rehearsal-a',
  });

const kill = (random: Random, path: Path): Promise<Answer> =>
  random.oneOf([a, b]).post('/v1/agent/kill', { agentId: { workspace: 'default', agent: path } });

const isBelow = (path: Path, above: Path): boolean =>
  path.length > above.length && above.every((element, i) => path[i] === element);

interface Counts {
  spawned: number;
  before: number;
  refused: number;
}

/** Grows a tree, then lets spawns at random places of it race the kill of its root or of an agent inside. */
async function race(seed: number, counts: Counts): Promise<void> {
  const random = randomOf(seed);
  const root = [`tree-${seed}`];
  const tree: Path[] = [root];
  expect((await spawn(random, root)).status).toBe(200);
  for (let i = random.below(6); i > 0; i -= 1) {
    const path = [...random.oneOf(tree.filter((p) => p.length < 7)), `old-${i}`];
    expect((await spawn(random, path)).status).toBe(200);
    tree.push(path);
  }
  const killed = random.below(4) === 0 ? random.oneOf(tree) : root;
  const racing = Array.from({ length: random.between(4, 8) }, (_, i) => [...random.oneOf(tree), `new-${i}`]);
  const killAt = random.below(racing.length + 1);

  let isKilled = false;
  const killing = async () => {
    expect((await kill(random, killed)).status).toBe(200);
    isKilled = true;
    // The kill is acknowledged: from now on every agent below has ended, whichever requests are still open.
    expect(await liveBelow(killed), `seed ${seed}`).toEqual([]);
  };
  const requests = racing.map((path) => async () => {
    const answer = await spawn(random, path);
    if (answer.status === 200 && isBelow(path, killed)) counts.before += 1;
    if (answer.status !== 200) {
      expect(isBelow(path, killed), `seed ${seed}: ${path.join('/')} ${JSON.stringify(answer.body)}`).toBe(
        true,
      );
      expectError(answer, 'FAILED_PRECONDITION');
      counts.refused += 1;
    }
  });
  await Promise.all([...requests.slice(0, killAt), killing, ...requests.slice(killAt)].map((send) => send()));

  expect(isKilled).toBe(true);
  expect(await liveBelow(killed), `seed ${seed}`).toEqual([]);
  const dead = tree.filter((path) => path === killed || isBelow(path, killed));
  expectError(await spawn(random, [...killed, 'late']), 'FAILED_PRECONDITION');
  expectError(await spawn(random, [...random.oneOf(dead), 'later']), 'FAILED_PRECONDITION');
  counts.spawned += tree.length + racing.length;
}

/** The paths of agents at or below this one that have not ended. */
async function liveBelow(path: Path): Promise<string[]> {
  const at = path.join('/');
  const rows = await store.rows<{ path: string }>(
    "SELECT path FROM agents WHERE (path = $1 OR path LIKE $1 || '/%') AND ended_at IS NULL",
    [at],
  );
  return rows.map((row) => row.path);
}

test('no descendant survives a kill that raced its spawn, on two nodes', withinMs(trees, 2_000), async () => {
  const counts: Counts = { spawned: 0, before: 0, refused: 0 };
  await runConcurrently(trees, 4, (index) => race(firstSeed * 1_000_000 + index, counts));
  expect(await store.violations()).toEqual([]);
  printFigures('spawn races kill', {
    trees,
    agents: counts.spawned,
    'spawned before the kill': counts.before,
    'refused after it': counts.refused,
  });
});

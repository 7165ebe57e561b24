import type { SpawnReply } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Random } from '../simulation/random.ts';
import { type Answer, type Api, apiOf } from '../support/api.ts';
import { runConcurrently } from '../support/async.ts';
import { expectError } from '../support/expect-reply.ts';
import { Node } from './node.ts';
import { Store } from './store.ts';
import { printFigures, randomOf, times, withinMs } from './tier.ts';

const trees = times('MUSTER_CRASH_TREES', 200);
const firstSeed = times('MUSTER_CRASH_SEED', 1);

let nodes: Node[] = [];
let apis: Api[] = [];
let store: Store;
beforeAll(async () => {
  const one = await Node.start({ runner: false });
  nodes = [one, await Node.start({ runner: false, databaseUrl: await one.databaseUrl() })];
  apis = nodes.map(({ url }) => apiOf({ url, key: one.key }));
  store = await Store.open(await one.databaseUrl());
});
afterAll(async () => {
  await store?.close();
  for (const node of nodes.reverse()) await node.close();
});

type Path = readonly string[];

const spawn = (random: Random, path: Path): Promise<Answer<SpawnReply>> =>
  random.oneOf(apis).post<SpawnReply>('/v1/agent/spawn', {
    agentId: { workspace: 'default', agent: path },
    description: 'grow',
    model: 'rehearsal-a',
  });

const kill = (random: Random, path: Path): Promise<Answer> =>
  random.oneOf(apis).post('/v1/agent/kill', { agentId: { workspace: 'default', agent: path } });

const isBelow = (path: Path, above: Path): boolean =>
  path.length > above.length && above.every((element, i) => path[i] === element);

interface Tally {
  spawned: number;
  before: number;
  refused: number;
}

/** Grows a tree, then lets spawns at random places of it race the kill of its root or of an agent inside. */
async function race(seed: number, tally: Tally): Promise<void> {
  const random = randomOf(seed);
  const root = [`tree-${seed}`];
  const tree: Path[] = [root];
  expect((await spawn(random, root)).status).toBe(200);
  for (let i = random.below(6); i > 0; i -= 1) {
    const path = [...random.oneOf(tree.filter((p) => p.length < 7)), `old-${i}`];
    expect((await spawn(random, path)).status).toBe(200);
    tree.push(path);
  }
  const doomed = random.below(4) === 0 ? random.oneOf(tree) : root;
  const racing = Array.from({ length: random.between(2, 6) }, (_, i) => [...random.oneOf(tree), `new-${i}`]);
  const killAt = random.below(racing.length + 1);

  let isKilled = false;
  const killing = async () => {
    expect((await kill(random, doomed)).status).toBe(200);
    isKilled = true;
    // The kill is acknowledged: from now on nothing below is alive, whatever is still on its way.
    expect(await liveBelow(doomed), `seed ${seed}`).toEqual([]);
  };
  const requests = racing.map((path) => async () => {
    const answer = await spawn(random, path);
    if (answer.status === 200 && isBelow(path, doomed)) tally.before += 1;
    if (answer.status !== 200) {
      expect(isBelow(path, doomed), `seed ${seed}: ${path.join('/')} ${JSON.stringify(answer.body)}`).toBe(
        true,
      );
      expectError(answer, 'FAILED_PRECONDITION');
      tally.refused += 1;
    }
  });
  await Promise.all([...requests.slice(0, killAt), killing, ...requests.slice(killAt)].map((send) => send()));

  expect(isKilled).toBe(true);
  expect(await liveBelow(doomed), `seed ${seed}`).toEqual([]);
  const dead = tree.filter((path) => path === doomed || isBelow(path, doomed));
  expectError(await spawn(random, [...doomed, 'late']), 'FAILED_PRECONDITION');
  expectError(await spawn(random, [...random.oneOf(dead), 'later']), 'FAILED_PRECONDITION');
  tally.spawned += tree.length + racing.length;
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
  const tally: Tally = { spawned: 0, before: 0, refused: 0 };
  await runConcurrently(trees, 4, (index) => race(firstSeed * 1_000_000 + index, tally));
  expect(await store.violations()).toEqual([]);
  printFigures('spawn races kill', {
    trees,
    agents: tally.spawned,
    'spawned before the kill': tally.before,
    'refused after it': tally.refused,
  });
});

import { expect, test } from 'vitest';
import { explore, type Walk } from './explore.ts';

const depth = Number(process.env.MUSTER_EXHAUSTIVE_DEPTH ?? 4);

/** States that are too many steps from the start; from these, two steps less, and only commands on the tree of `a`. */
const deepStates: readonly (readonly string[])[] = [
  ['spawn the child', 'claim a', 'claim a/c', 'started a/c', 'completed a'],
  ['spawn the child', 'claim a', 'started a', 'claim a/c', 'started a/c', 'queue with a task a/c'],
  ['claim a', 'started a', 'completed a', 'spawn the child', 'claim a/c', 'asked a/c', 'defer a'],
  ['queue a', 'claim a', 'lose a', 'claim a', 'lose a', 'queue with a setting a', 'queue a'],
  ['claim a', 'started a', 'parked a', 'queue a', 'defer a', 'create a task a'],
  ['spawn the child', 'claim a', 'finished a', 'claim a/c', 'defer a', 'queue a/c'],
  ['claim a', 'started a', 'stop-kill a', 'queue a', 'queue with a setting a'],
  ['spawn the child', 'queue with a task a', 'claim a', 'queue with a setting a', 'queue a', 'failed a'],
  ['claim a', 'started a', 'queue a', 'steer a', 'steer a'],
  ['queue with a task a', 'claim a', 'failed for now a', 'queue with a setting a', 'defer a'],
];

const walks: readonly Walk[] = [
  { from: [], depth, isCommanded: () => true },
  ...deepStates.map((from) => ({
    from,
    depth: depth - 2,
    isCommanded: ({ agent }: { agent: { path: readonly string[] } }) => agent.path[0] === 'a',
  })),
];

test(`every sequence of ${depth} commands on two agents and a child keeps every invariant`, {
  timeout: depth <= 4 ? 180_000 : 4 * 3_600_000,
}, () => {
  const startedMs = performance.now();
  const { states, steps, broken } = explore(walks);
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  process.stdout.write(
    `exhaustive: depth ${depth}, every command from ${states} distinct states, ${steps} steps, ${seconds} s\n`,
  );
  expect(broken.map((b) => `${b.message}\n    after: ${b.sequence.join(' → ')}`)).toEqual([]);
});

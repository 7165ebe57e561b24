import { expect, test } from 'vitest';
import { agentEntry } from '../../../../test/support/agent-entry.ts';
import { Kin } from './kin.ts';

const [root, rootEntry] = agentEntry('build', { cost: 1 });
const [child, childEntry] = agentEntry('build/web', { cost: 2 });
const [leaf, leafEntry] = agentEntry('build/web/css', { cost: 4 });

test('an agent has the children one level below it, and the cost of all levels', () => {
  const kin = new Kin();
  expect(kin.learn(leaf, undefined, leafEntry)).toEqual([child, root]);
  expect(kin.learn(child, undefined, childEntry)).toEqual([root]);
  expect(kin.learn(root, undefined, rootEntry)).toEqual([]);
  expect(kin.below(root)).toEqual({ children: 1, cost: 6 });
  expect(kin.below(child)).toEqual({ children: 1, cost: 4 });
  expect(kin.below(leaf)).toEqual({ children: 0, cost: 0 });
});

test('what one of them spends is added above it, and nobody is told of what changes no sum', () => {
  const kin = new Kin();
  kin.learn(leaf, undefined, leafEntry);
  expect(kin.learn(leaf, leafEntry, { ...leafEntry, cost: 5 })).toEqual([child, root]);
  expect(kin.below(root)).toEqual({ children: 0, cost: 5 });
  expect(kin.learn(leaf, leafEntry, { ...leafEntry })).toEqual([]);
});

test('one that goes takes its share along', () => {
  const kin = new Kin();
  kin.learn(child, undefined, childEntry);
  expect(kin.learn(child, childEntry, undefined)).toEqual([root]);
  expect(kin.below(root)).toEqual({ children: 0, cost: 0 });
});

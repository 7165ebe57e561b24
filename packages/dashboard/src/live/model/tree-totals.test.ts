import { expect, test } from 'vitest';
import { agentEntry } from '../../../../../test/support/samples.ts';
import { TreeTotals } from './tree-totals.ts';

const [root, rootEntry] = agentEntry('build', { cost: 1 });
const [child, childEntry] = agentEntry('build/web', { cost: 2 });
const [leaf, leafEntry] = agentEntry('build/web/css', { cost: 4 });

test('an agent has the children one level below it, and the cost of all levels', () => {
  const totals = new TreeTotals();
  expect(totals.update(leaf, undefined, leafEntry)).toEqual([child, root]);
  expect(totals.update(child, undefined, childEntry)).toEqual([root]);
  expect(totals.update(root, undefined, rootEntry)).toEqual([]);
  expect(totals.of(root)).toEqual({ children: 1, cost: 6 });
  expect(totals.of(child)).toEqual({ children: 1, cost: 4 });
  expect(totals.of(leaf)).toEqual({ children: 0, cost: 0 });
});

test('the cost of a descendant is added to its ancestors, and a change without cost changes no total', () => {
  const totals = new TreeTotals();
  totals.update(leaf, undefined, leafEntry);
  expect(totals.update(leaf, leafEntry, { ...leafEntry, cost: 5 })).toEqual([child, root]);
  expect(totals.of(root)).toEqual({ children: 0, cost: 5 });
  expect(totals.update(leaf, leafEntry, { ...leafEntry })).toEqual([]);
});

test('a removed agent is subtracted from its ancestors', () => {
  const totals = new TreeTotals();
  totals.update(child, undefined, childEntry);
  expect(totals.update(child, childEntry, undefined)).toEqual([root]);
  expect(totals.of(root)).toEqual({ children: 0, cost: 0 });
});

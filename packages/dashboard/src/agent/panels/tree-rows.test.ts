import type { Phase } from '@muster/sdk';
import { expect, it } from 'vitest';
import { isUnfolded, type TreeAgent, type TreeNode, treeOf } from './tree-rows.ts';

const agent = (path: string, phase: Phase = 'PHASE_RUNNING'): TreeAgent => ({
  agentId: {
    tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'local' },
    ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
    account: 'mia',
    workspace: 'default',
    agent: path.split('/'),
  },
  phase,
  phaseReason: 'WORKING',
  wakesAt: null,
  cost: 1,
  treeCost: 1,
});
const outline = ({ agent: { agentId }, children }: TreeNode): unknown =>
  children.length === 0 ? agentId.agent.at(-1) : [agentId.agent.at(-1), ...children.map(outline)];

it('the agents of a tree stand under their parents, the oldest first', () => {
  const tree = treeOf(agent('a'), [agent('a/c/x'), agent('a/c'), agent('a/b', 'PHASE_FAILED')]);
  expect(outline(tree)).toEqual(['a', 'b', ['c', 'x']]);
  expect(tree).toMatchObject({ below: 3, liveBelow: 2 });
});

it('a small tree is unfolded; of a large one the way to the agent that one looks at', () => {
  const small = treeOf(agent('a'), [agent('a/b/c'), agent('a/b')]);
  expect(isUnfolded(small, small.children[0] as TreeNode, ['a'])).toBe(true);

  const many = Array.from({ length: 60 }, (_, at) => agent(`a/n${at}`));
  const large = treeOf(agent('a'), [agent('a/n1/x'), agent('a/n2/x'), ...many]);
  const node = (name: string) => large.children.find(({ page }) => page.endsWith(`/${name}`)) as TreeNode;
  expect(isUnfolded(large, large, ['a', 'n1', 'x'])).toBe(true);
  expect(isUnfolded(large, node('n1'), ['a', 'n1', 'x'])).toBe(true);
  expect(isUnfolded(large, node('n2'), ['a', 'n1', 'x'])).toBe(false);
});

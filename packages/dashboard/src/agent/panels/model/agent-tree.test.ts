import type { Phase } from '@muster/sdk';
import { expect, it } from 'vitest';
import { isExpandedByDefault, type TreeAgent, type TreeNode, treeOf } from './agent-tree.ts';

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

it('agents are below their parents, the oldest first', () => {
  const tree = treeOf(agent('a'), [agent('a/c/x'), agent('a/c'), agent('a/b', 'PHASE_FAILED')]);
  expect(outline(tree)).toEqual(['a', 'b', ['c', 'x']]);
  expect(tree).toMatchObject({ below: 3, liveBelow: 2 });
});

it('a small tree is expanded, a large one only along the path to the current agent', () => {
  const small = treeOf(agent('a'), [agent('a/b/c'), agent('a/b')]);
  expect(isExpandedByDefault(small, small.children[0] as TreeNode, ['a'])).toBe(true);

  const many = Array.from({ length: 60 }, (_, at) => agent(`a/n${at}`));
  const large = treeOf(agent('a'), [agent('a/n1/x'), agent('a/n2/x'), ...many]);
  const node = (name: string) => large.children.find(({ page }) => page.endsWith(`/${name}`)) as TreeNode;
  expect(isExpandedByDefault(large, large, ['a', 'n1', 'x'])).toBe(true);
  expect(isExpandedByDefault(large, node('n1'), ['a', 'n1', 'x'])).toBe(true);
  expect(isExpandedByDefault(large, node('n2'), ['a', 'n1', 'x'])).toBe(false);
});

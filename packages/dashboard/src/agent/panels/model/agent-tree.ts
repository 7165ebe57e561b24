import type { AgentEntry, AgentStatus } from '@muster/sdk';
import { agentPage, isTerminal } from '@muster/sdk/contract';

/** The fields that the tree shows; both a status and a list entry have them. */
export type TreeAgent = Pick<
  AgentEntry & AgentStatus,
  'agentId' | 'phase' | 'phaseReason' | 'wakesAt' | 'cost' | 'treeCost'
>;

export interface TreeNode {
  readonly page: string;
  readonly agent: TreeAgent;
  /** Oldest first. */
  readonly children: readonly TreeNode[];
  readonly below: number;
  readonly liveBelow: number;
}

const nameOf = (path: readonly string[]): string => path.join('/');

/** Builds the tree. The entries are newest first, as in a list, without the root. */
export function treeOf(root: TreeAgent, entries: readonly TreeAgent[]): TreeNode {
  const childrenOf = new Map<string, TreeAgent[]>();
  for (const entry of entries.toReversed()) {
    const parent = nameOf(entry.agentId.agent.slice(0, -1));
    childrenOf.set(parent, [...(childrenOf.get(parent) ?? []), entry]);
  }
  const nodeOf = (agent: TreeAgent): TreeNode => {
    const children = (childrenOf.get(nameOf(agent.agentId.agent)) ?? []).map(nodeOf);
    return {
      page: agentPage(agent.agentId),
      agent,
      children,
      below: sum(children, (child) => child.below + 1),
      liveBelow: sum(children, (child) => child.liveBelow + (isTerminal(child.agent.phase) ? 0 : 1)),
    };
  };
  return nodeOf(root);
}

const sum = <T>(items: readonly T[], of: (item: T) => number): number =>
  items.reduce((total, item) => total + of(item), 0);

/** A tree with at least this many agents is collapsed. */
const largeTree = 40;

/** Whether a node is expanded by default: every node of a small tree, in a large one the path to this agent. */
export const isExpandedByDefault = (root: TreeNode, node: TreeNode, path: readonly string[]): boolean =>
  root.below < largeTree ||
  nameOf(path.slice(0, node.agent.agentId.agent.length)) === nameOf(node.agent.agentId.agent);

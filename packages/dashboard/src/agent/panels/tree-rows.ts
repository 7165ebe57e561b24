import type { AgentEntry, AgentStatus } from '@muster/sdk';
import { agentPage, isTerminal } from '@muster/sdk/contract';

/** What a tree shows of an agent; a status has it, and an entry of a list. */
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

/** The agents of a tree under each other. Entries come newest first, as lists have them, and without the root. */
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

/** More than this many, and one sees the wood only with branches folded. */
const fewAgents = 40;

/** Which nodes are unfolded before anybody said so: all of a small tree, in a large one the way to this agent. */
export const isUnfolded = (root: TreeNode, node: TreeNode, path: readonly string[]): boolean =>
  root.below < fewAgents ||
  nameOf(path.slice(0, node.agent.agentId.agent.length)) === nameOf(node.agent.agentId.agent);

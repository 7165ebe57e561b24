import type { AgentEntry } from '@muster/sdk';

export interface DescendantTotals {
  /** Direct children. */
  readonly children: number;
  /** Of all levels, in dollars. */
  readonly cost: number;
}

const noDescendants: DescendantTotals = { children: 0, cost: 0 };

type Member = Pick<AgentEntry, 'agentId' | 'cost'>;

/**
 * Totals over the descendants of each agent, updated with every change. The service sends an agent when that agent
 * changes, not when a descendant spends something, so the current cost of a tree is the sum over its members.
 */
export class TreeTotals {
  readonly #totals = new Map<string, DescendantTotals>();

  of(page: string): DescendantTotals {
    return this.#totals.get(page) ?? noDescendants;
  }

  /** Records that an agent was added, changed or removed. Returns the ancestors whose totals changed. */
  update(page: string, before: Member | undefined, after: Member | undefined): string[] {
    const cost = (after?.cost ?? 0) - (before?.cost ?? 0);
    const children = (after ? 1 : 0) - (before ? 1 : 0);
    const depth = (after ?? before)?.agentId.agent.length ?? 1;
    const changed: string[] = [];
    let ancestor = page;
    for (let level = 1; level < depth; level += 1) {
      ancestor = ancestor.slice(0, ancestor.lastIndexOf('/'));
      const added = level === 1 ? children : 0;
      if (added === 0 && cost === 0) continue;
      const totals = this.of(ancestor);
      this.#totals.set(ancestor, { children: totals.children + added, cost: totals.cost + cost });
      changed.push(ancestor);
    }
    return changed;
  }
}

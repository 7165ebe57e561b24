import type { AgentEntry } from '@muster/sdk';

/** What is known of those below an agent. */
export interface Below {
  /** One level down. */
  readonly children: number;
  /** Of all levels, in dollars. */
  readonly cost: number;
}

const nobody: Below = { children: 0, cost: 0 };

type Member = Pick<AgentEntry, 'agentId' | 'cost'>;

/**
 * The sums over the trees of the fleet, kept up to date by each change. The service tells of an agent when that agent
 * changes, not when one below it spends something; so what a tree costs now is known only from all of its members.
 */
export class Kin {
  readonly #below = new Map<string, Below>();

  below(page: string): Below {
    return this.#below.get(page) ?? nobody;
  }

  /** Takes in that an agent came, changed or went; hands back those above it whose sums that changes. */
  learn(page: string, before: Member | undefined, after: Member | undefined): string[] {
    const cost = (after?.cost ?? 0) - (before?.cost ?? 0);
    const children = (after ? 1 : 0) - (before ? 1 : 0);
    const depth = (after ?? before)?.agentId.agent.length ?? 1;
    const changed: string[] = [];
    let above = page;
    for (let level = 1; level < depth; level += 1) {
      above = above.slice(0, above.lastIndexOf('/'));
      const added = level === 1 ? children : 0;
      if (added === 0 && cost === 0) continue;
      const known = this.below(above);
      this.#below.set(above, { children: known.children + added, cost: known.cost + cost });
      changed.push(above);
    }
    return changed;
  }
}

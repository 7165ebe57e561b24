import type { AgentState, ChildView, Identity, Instant, Run } from './agent.ts';
import { type Budget, budgetAt, type StoredBudget } from './budget.ts';
import type { Draft } from './draft.ts';
import type { Policy } from './policy.ts';

/** One agent's change, from which the writes and the effects follow. */
export interface AgentChange {
  readonly before: AgentState | null;
  readonly after: AgentState;
  readonly brief: Draft['brief'];
  readonly entries: Draft['entries'];
  readonly admitted: Draft['admitted'];
  readonly diffs: Draft['diffs'];
  readonly threadChanges: Draft['threadChanges'];
  readonly events: Draft['events'];
  readonly runResult: Draft['runResult'];
  readonly olderRun: Draft['olderRun'];
}

/** A pool as one tenant uses it. */
export type PoolKey = Pick<AgentState['agent'], 'tenant' | 'pool'>;

export const poolId = ({ tenant, pool }: PoolKey): string => `${tenant}/${pool}`;

export const identityKey = ({ tenant, ownerProvider, account, workspace, path }: Identity): string =>
  `${tenant}\n${ownerProvider}\n${account}\n${workspace}\n${path.join('/')}`;

/** The agents that were loaded for a batch. `apply` updates them, so that each command sees what earlier ones decided. */
export class LoadedAgents {
  readonly now: Instant;
  readonly #states = new Map<string, AgentState>();
  readonly #holders = new Map<string, string>();
  readonly #children = new Map<string, readonly ChildView[]>();
  readonly #policies = new Map<string, readonly Policy[]>();
  readonly #budgets = new Map<string, readonly StoredBudget[]>();
  /** What this batch takes of budgets, by tenant and key. */
  readonly #taken = new Map<string, number>();
  readonly #liveDescendants = new Map<string, number>();
  readonly #olderRuns = new Map<string, Run>();
  readonly #freeRuns = new Map<string, number>();

  constructor(now: Instant) {
    this.now = now;
  }

  add(state: AgentState): void {
    const { id, current } = state.agent;
    if (current && !this.#states.get(id)?.agent.current) this.#holders.set(identityKey(state.agent), id);
    this.#states.set(id, state);
  }

  addChildren(parent: string, children: readonly ChildView[]): void {
    this.#children.set(parent, children);
  }

  addPolicies(id: string, policies: readonly Policy[]): void {
    this.#policies.set(id, policies);
  }

  addBudgets(id: string, budgets: readonly StoredBudget[]): void {
    this.#budgets.set(id, budgets);
  }

  addLiveDescendants(root: string, count: number): void {
    this.#liveDescendants.set(root, count);
  }

  addOlderRun(id: string, run: Run): void {
    this.#olderRuns.set(`${id}/${run.number}`, run);
  }

  addFreeRuns(pool: PoolKey, count: number): void {
    this.#freeRuns.set(poolId(pool), count);
  }

  get(id: string): AgentState | undefined {
    return this.#states.get(id);
  }

  /** A run that was not the newest when it was loaded. */
  olderRun(id: string, number: number): Run | undefined {
    return this.#olderRuns.get(`${id}/${number}`);
  }

  /** The newest agent of this identity. */
  holder(identity: Identity): AgentState | undefined {
    const id = this.#holders.get(identityKey(identity));
    return id === undefined ? undefined : this.#states.get(id);
  }

  /** The current children, with those that were spawned or changed in this batch. */
  children(parent: string): ChildView[] {
    const known = new Map((this.#children.get(parent) ?? []).map((child) => [child.id, child]));
    for (const state of this.#states.values()) {
      if (state.agent.parent === parent) known.set(state.agent.id, childView(state));
    }
    return [...known.values()];
  }

  /** Those of its tenant and of its workspace. */
  policies(id: string): readonly Policy[] {
    return this.#policies.get(id) ?? [];
  }

  /** All that limit the agent. */
  budgets(id: string): Budget[] {
    const tenant = this.#states.get(id)?.agent.tenant;
    return (this.#budgets.get(id) ?? []).map((stored) => {
      const budget = budgetAt(stored, this.now);
      const takenUsd = budget.takenUsd + (this.#taken.get(`${tenant}/${budget.key}`) ?? 0);
      return { ...budget, takenUsd };
    });
  }

  descendants(id: string): AgentState[] {
    return [...this.#states.values()].filter((state) => state.agent.ancestors.includes(id));
  }

  liveDescendants(root: string): number {
    return this.#liveDescendants.get(root) ?? 0;
  }

  /** How many more runs the tenant may have in the pool, on all runners. */
  freeRuns(pool: PoolKey): number {
    return this.#freeRuns.get(poolId(pool)) ?? Number.POSITIVE_INFINITY;
  }

  apply(changes: readonly AgentChange[]): void {
    for (const { before, after, olderRun, events } of changes) {
      this.add(after);
      for (const event of events) if (event.type === 'taken') this.#take(after.agent.tenant, event);
      if (olderRun) this.addOlderRun(after.agent.id, olderRun);
      const isLiveAgain = before !== null && before.agent.endedAt !== null && after.agent.endedAt === null;
      if ((!before || isLiveAgain) && after.agent.parent) {
        this.#liveDescendants.set(after.agent.root, this.liveDescendants(after.agent.root) + 1);
      }
      if (before && after.agent.runCount > before.agent.runCount)
        this.addFreeRuns(after.agent, this.freeRuns(after.agent) - 1);
    }
  }

  #take(tenant: number, { key, usd }: { readonly key: string; readonly usd: number }): void {
    const id = `${tenant}/${key}`;
    this.#taken.set(id, (this.#taken.get(id) ?? 0) + usd);
  }
}

export function childView({ agent }: AgentState): ChildView {
  return {
    id: agent.id,
    path: agent.path,
    phase: agent.phase,
    reason: agent.reason,
    since: agent.since,
    question: agent.memory.question,
    response: agent.result.response,
    error: agent.result.error?.message ?? '',
  };
}

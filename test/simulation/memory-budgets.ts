import type { BudgetDocument } from '@muster/sdk/contract';
import type { Agent } from '../../packages/service/src/domain/agent.ts';
import {
  budgetAt,
  budgetKeyOf,
  isSpent,
  type Ledger,
  type StoredBudget,
} from '../../packages/service/src/domain/budget.ts';
import type { DomainEvent } from '../../packages/service/src/domain/events.ts';
import type { AgentChange } from '../../packages/service/src/domain/loaded-agents.ts';
import { OverdrawnError } from '../../packages/service/src/store/agent-store.ts';
import type { BudgetRow, Uncounted } from '../../packages/service/src/store/statements/budgets.ts';
import type { AgentRows } from './memory-tables.ts';
import { holds } from './timeline-audit.ts';

type Agents = ReadonlyMap<string, AgentRows>;
type Taken = Extract<DomainEvent, { type: 'taken' }>;

const hourMs = 3_600_000;
const tolerance = 1e-6;

/** The budgets of the catalog, the ledgers and who waits, as the tables of the store have them. */
export class MemoryBudgets {
  /** One per tenant, of its name. */
  readonly catalog = new Map<number, BudgetDocument & { createdAt: string }>();
  readonly #ledgers = new Map<string, Ledger>();
  readonly #waits = new Map<string, { readonly key: string; readonly need: number }>();
  /** What runs spent, by tenant and hour. */
  readonly #spent = new Map<string, number>();
  /** Of that, what was reported after the credit of a lost run was returned, by tenant. */
  readonly #late = new Map<number, number>();
  readonly #agents: Agents;

  constructor(agents: Agents) {
    this.#agents = agents;
  }

  /** Those over an agent. */
  over(agent: Agent): StoredBudget[] {
    const { tenant } = agent;
    const document = this.catalog.get(tenant);
    const above = [...agent.ancestors, agent.id].map((id) => this.#agents.get(id)?.agent);
    const own = above.flatMap((one): Omit<StoredBudget, 'ledger'>[] =>
      one?.budgetUsd === null || !one
        ? []
        : [
            {
              key: budgetKeyOf(one.id),
              name: one.path.join('/'),
              document: { amountUsd: one.budgetUsd, createdAt: one.createdAt },
            },
          ],
    );
    const all = [...(document ? [{ key: 'budget/all', name: 'all', document }] : []), ...own];
    return all.map((budget) => ({ ...budget, ledger: this.#ledgers.get(`${tenant}/${budget.key}`) ?? null }));
  }

  areSpent(agent: Agent, now: string): boolean {
    return this.over(agent).some((stored) => isSpent(budgetAt(stored, now)));
  }

  rowsOver(agent: Agent): BudgetRow[] {
    return this.over(agent).map(({ key, name, document, ledger }) => ({
      ...{ key, name, document, created_at: null },
      starts_at: ledger?.startsAt ?? null,
      taken: ledger?.takenUsd ?? null,
    }));
  }

  /** The constraint `budget_kept`. */
  refuseOverdrawn(changes: readonly AgentChange[]): void {
    const after = new Map<string, { usd: number; within: Taken['within'] }>();
    for (const { id, event } of this.#takenIn(changes)) {
      const sum = after.get(id) ?? { usd: 0, within: null };
      after.set(id, { usd: sum.usd + event.usd, within: event.within ?? sum.within });
    }
    for (const [id, { usd, within }] of after) {
      const ledger = this.#ledgers.get(id);
      const isKept =
        within === null || (ledger?.startsAt === within.startsAt && ledger.takenUsd + usd <= within.mostUsd);
      if (!isKept) throw new OverdrawnError('another transaction took the rest of a budget');
    }
  }

  commit(changes: readonly AgentChange[]): void {
    for (const { id, event } of this.#takenIn(changes)) {
      const ledger = this.#ledgers.get(id);
      if (!ledger) continue;
      this.#ledgers.set(id, { ...ledger, takenUsd: Math.max(0, ledger.takenUsd + event.usd) });
    }
    for (const { after, events } of changes) {
      const { id, tenant } = after.agent;
      for (const event of events) {
        if (event.type === 'waitsForBudget') this.#waits.set(id, { key: event.key, need: event.needUsd });
        const hasLeft =
          event.type === 'phaseChanged' && event.fromReason === 'BUDGET' && event.reason !== 'BUDGET';
        if (hasLeft) this.#waits.delete(id);
        if (event.type !== 'spent') continue;
        if (event.isLate) this.#late.set(tenant, (this.#late.get(tenant) ?? 0) + event.usage.cost);
        const hour = `${tenant}/${Math.floor(Date.parse(event.at) / hourMs)}`;
        this.#spent.set(hour, (this.#spent.get(hour) ?? 0) + event.usage.cost);
      }
    }
  }

  *#takenIn(changes: readonly AgentChange[]) {
    for (const { after, events } of changes)
      for (const event of events)
        if (event.type === 'taken') yield { id: `${after.agent.tenant}/${event.key}`, event };
  }

  /** `add-ledgers` and `count-ledgers`. */
  count(rows: readonly Uncounted[]): void {
    for (const { tenant, key, starts_at: startsAt, agent } of rows) {
      const id = `${tenant}/${key}`;
      if (this.#ledgers.get(id)?.startsAt === startsAt) continue;
      const reserved = this.#under(tenant, null).reduce((sum, { run }) => {
        const covered = run && run.state !== 'ENDED' ? run.credits?.[key] : undefined;
        return sum + (covered === undefined || !run ? 0 : covered - run.usage.cost);
      }, 0);
      const spent =
        agent === null ? this.#spentSince(tenant, startsAt) : sumOf(this.#under(tenant, agent), costOf);
      this.#ledgers.set(id, { startsAt, takenUsd: Math.max(0, spent + reserved) });
    }
  }

  #spentSince(tenant: number, startsAt: string): number {
    const from = Date.parse(startsAt) / hourMs;
    const hours = [...this.#spent].filter(([id]) => {
      const [of, hour] = id.split('/');
      return of === String(tenant) && Number(hour) >= from;
    });
    return hours.reduce((sum, [, usd]) => sum + usd, 0);
  }

  /** The agents of a tenant, or of the tree below one of them. */
  #under(tenant: number, agent: string | null): AgentRows[] {
    return [...this.#agents.values()].filter(
      (rows) =>
        rows.agent.tenant === tenant &&
        (agent === null || rows.agent.id === agent || rows.agent.ancestors.includes(agent)),
    );
  }

  /** `find-funded`. */
  funded(): { tenant: number; id: string }[] {
    const used = new Map<string, number>();
    return [...this.#waits].flatMap(([id, { key, need }]) => {
      const agent = this.#agents.get(id)?.agent;
      if (!agent) return [];
      const { tenant } = agent;
      const ledger = this.#ledgers.get(`${tenant}/${key}`);
      const amount = this.#amountOf(tenant, key);
      const left = amount === null ? Number.POSITIVE_INFINITY : amount - (ledger?.takenUsd ?? 0);
      const wanted = (used.get(`${tenant}/${key}`) ?? 0) + Math.max(need, tolerance);
      if (wanted > left) return [];
      used.set(`${tenant}/${key}`, wanted);
      return [{ tenant, id }];
    });
  }

  #amountOf(tenant: number, key: string): number | null {
    if (key === 'budget/all') return this.catalog.get(tenant)?.amountUsd ?? null;
    return this.#agents.get(key.slice('agent/'.length))?.agent.budgetUsd ?? null;
  }

  get areAwaited(): boolean {
    return this.#waits.size > 0;
  }

  /** Nothing is overspent, nothing is returned twice or never, and who waits is known. */
  check(now: string): void {
    for (const rows of this.#agents.values()) {
      const waits = this.#waits.has(rows.agent.id);
      const isOut = rows.agent.reason === 'BUDGET';
      holds(
        waits === isOut,
        'BudgetWaits',
        () => `${rows.agent.path} is ${rows.agent.reason}, waits: ${waits}`,
      );
      if (rows.agent.budgetUsd !== null) this.#checkOne(rows.agent, budgetKeyOf(rows.agent.id), now);
    }
    for (const tenant of this.catalog.keys()) {
      const [any] = this.#under(tenant, null);
      if (any) this.#checkOne(any.agent, 'budget/all', now);
    }
  }

  #checkOne(agent: Agent, key: string, now: string): void {
    const stored = this.over(agent).find((budget) => budget.key === key);
    if (!stored?.ledger) return;
    const budget = budgetAt(stored, now);
    if (!budget.isCounted) return;
    const { amountUsd, takenUsd, startsAt, resetsAt } = budget;
    const under = this.#under(agent.tenant, key === 'budget/all' ? null : agent.id);
    const spent = resetsAt === null ? sumOf(under, costOf) : this.#spentSince(agent.tenant, startsAt);
    const what = `${key} since ${startsAt}`;
    const mostUsd = amountUsd + (this.#late.get(agent.tenant) ?? 0) + tolerance;
    holds(
      spent <= mostUsd && takenUsd <= mostUsd,
      'BudgetsHold',
      () => `${what}: ${spent} spent, ${takenUsd} taken of ${amountUsd}`,
    );
    if (resetsAt !== null) return;
    const taken = sumOf(under, ({ runs }) =>
      runs.reduce((sum, { state, credits, usage }) => {
        const covered = credits?.[key];
        return sum + (state === 'ENDED' || covered === undefined ? usage.cost : covered);
      }, 0),
    );
    holds(
      Math.abs(taken - takenUsd) < tolerance,
      'CreditReturnsOnce',
      () => `${what}: ${takenUsd} taken, ${taken} by its runs`,
    );
  }
}

const sumOf = (all: readonly AgentRows[], of: (rows: AgentRows) => number): number =>
  all.reduce((sum, rows) => sum + of(rows), 0);
const costOf = ({ agent }: AgentRows): number => agent.usage.cost;

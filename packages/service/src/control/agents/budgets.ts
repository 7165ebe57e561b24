import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { type Budget, budgetAt, isOfAgent, usualBudget } from '../../domain/budget.ts';
import { isRefusal } from '../../domain/refusal.ts';
import { type AgentKey, keyColumns } from '../../store/agent-store.ts';
import {
  type BudgetRow,
  budgetOf,
  readBudgets,
  readBudgetsOver,
  readReserved,
} from '../../store/statements/budgets.ts';
import type { Tenants } from '../access/tenants.ts';
import type { Operation } from '../operation.ts';
import type { BudgetCounts } from './budget-counts.ts';
import { agentIdOf, type ShownBudget } from './views.ts';

export interface BudgetedAgent extends AgentKey {
  readonly workspace: string;
  readonly account: string;
  readonly owner_provider: string;
}

/** The budgets of these agents, by the id of the agent. */
export async function readBudgetsOf(
  database: pg.Pool,
  agents: readonly BudgetedAgent[],
): Promise<Map<string, ShownBudget[]>> {
  if (agents.length === 0) return new Map();
  const scopes = new Map(agents.map((agent) => [agent.id, scopeOf(agent)]));
  // One agent of each scope, for the budgets of the catalog.
  const readers = new Set(new Map([...scopes].map(([id, scope]) => [scope, id])).values());
  const withCatalog = agents.map(({ id }) => readers.has(id));
  const rows = await readBudgetsOver(database, ...keyColumns(agents), withCatalog);
  const reserved = new Map<number, ReadonlyMap<string, number>>();
  for (const { tenant } of rows)
    if (!reserved.has(tenant)) reserved.set(tenant, await reservedOf(database, tenant));
  const found = new Map<string, ShownBudget[]>();
  for (const { tenant, agent, now, ...row } of rows) {
    const shown = shownOf(budgetAt(budgetOf(row), now), reserved.get(tenant));
    const of = shown.isOfAgent ? agent : (scopes.get(agent) ?? '');
    const others = found.get(of);
    if (others) others.push(shown);
    else found.set(of, [shown]);
  }
  return new Map([...scopes].map(([id, scope]) => [id, [id, scope].flatMap((of) => found.get(of) ?? [])]));
}

const scopeOf = ({ tenant, workspace, owner_provider, account }: BudgetedAgent): string =>
  JSON.stringify([tenant, workspace, owner_provider, account]);

const reservedOf = async (database: pg.Pool, tenant: number): Promise<ReadonlyMap<string, number>> =>
  new Map((await readReserved(database, tenant)).map(({ key, reserved }) => [key, reserved]));

function shownOf(budget: Budget, reserved: ReadonlyMap<string, number> = new Map()): ShownBudget {
  const { key, name, amountUsd, takenUsd, warnAt, resetsAt } = budget;
  const reservedUsd = amountOf(reserved.get(key) ?? 0);
  const spentUsd = amountOf(takenUsd - (reserved.get(key) ?? 0));
  return { name, isOfAgent: isOfAgent(budget), amountUsd, spentUsd, reservedUsd, warnAt, resetsAt };
}

/** Without the last digits, which are only left from adding and returning. */
const amountOf = (usd: number): number => Math.max(0, Number(usd.toFixed(9)));

export interface BudgetsOptions {
  readonly database: pg.Pool;
  readonly tenants: Tenants;
  readonly counts: BudgetCounts;
}

export class Budgets {
  readonly #options: BudgetsOptions;

  constructor(options: BudgetsOptions) {
    this.#options = options;
  }

  readonly budgets: Operation<'budgets'> = async (caller, request) => {
    const { database, tenants, counts } = this.#options;
    const tenant = await tenants.named(request.tenant, caller);
    if (isRefusal(tenant)) return tenant;
    const read = () => readBudgets(database, tenant, limits.budgetsPerList + 1);
    // No run may have asked one of them in its window yet.
    const rows = await counts.counted(tenant, read);
    const [reserved, tenantName] = await Promise.all([reservedOf(database, tenant), tenants.name(tenant)]);
    const ofAgents = rows.filter(({ agent }) => agent !== null);
    const shown = rows.slice(0, rows.length - Math.max(0, ofAgents.length - limits.budgetsPerList));
    return {
      budgets: shown.map((row) => {
        const budget = budgetAt(budgetOf(row), row.now);
        const { isOfAgent: hasAgent, ...fields } = shownOf(budget, reserved);
        return {
          ...fields,
          agentId: hasAgent ? agentIdOf(tenantName, row, row.name.split('/')) : null,
          startsAt: budget.startsAt,
          ...settingsOf(row),
          waiting: row.waiting,
        };
      }),
      more: shown.length < rows.length,
    };
  };
}

const settingsOf = ({ document }: Pick<BudgetRow, 'document'>) => ({
  window: document.window ?? usualBudget.window,
  zone: document.zone ?? usualBudget.zone,
  workspace: document.workspace ?? '',
  account: document.account ?? '',
});

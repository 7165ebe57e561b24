import type pg from 'pg';
import { budgetAt, isOfAgent } from '../../domain/budget.ts';
import {
  addLedgers,
  type BudgetRow,
  budgetOf,
  countLedgers,
  type Uncounted,
} from '../../store/statements/budgets.ts';

type Row = BudgetRow & { readonly now: string };

/**
 * Counts what was spent of budgets whose window has just begun, or that were changed. That adds up the usage of a whole
 * window, and then every live run asks: of each tenant, one count is made at a time, and the others wait for it.
 */
export class BudgetCounts {
  readonly #database: pg.Pool;
  readonly #counting = new Map<number, Promise<unknown>>();

  constructor(database: pg.Pool) {
    this.#database = database;
  }

  /** The budgets of a tenant as `read` returns them, after those that were not counted are. */
  async counted<R extends Row>(tenant: number, read: () => Promise<R[]>): Promise<R[]> {
    const rows = await read();
    const uncounted = uncountedOf(tenant, rows);
    if (uncounted.length === 0) return rows;
    const other = this.#counting.get(tenant);
    if (other) {
      await other.catch(() => {});
      return this.counted(tenant, read);
    }
    const count = this.#count(uncounted).finally(() => this.#counting.delete(tenant));
    this.#counting.set(tenant, count);
    await count;
    return read();
  }

  async #count(uncounted: readonly Uncounted[]): Promise<void> {
    const ledgers = JSON.stringify(uncounted);
    await addLedgers(this.#database, ledgers);
    await countLedgers(this.#database, ledgers);
  }
}

const uncountedOf = (tenant: number, rows: readonly Row[]): Uncounted[] =>
  rows.flatMap((row): Uncounted[] => {
    const budget = budgetAt(budgetOf(row), row.now);
    if (budget.isCounted) return [];
    const { workspace = '', account = '' } = row.document;
    const agent = isOfAgent(budget) ? budget.key.slice('agent/'.length) : null;
    return [{ tenant, key: budget.key, starts_at: budget.startsAt, agent, workspace, account }];
  });

import type { AgentChange } from '../domain/loaded-agents.ts';
import { type Connection, statement } from './connection.ts';
import { namesOf, rowsOf } from './tables.ts';

const columns = {
  tenant: 'int',
  key: 'text',
  usd: 'float8',
  most: 'float8',
  starts_at: 'timestamptz',
} as const;

interface TakenRow {
  tenant: number;
  key: string;
  usd: number;
  /** Null where nothing is reserved, as the beginning of the window. */
  most: number | null;
  starts_at: string | null;
}

/**
 * Changes the ledgers of budgets by what a batch takes and returns. It is the last statement that locks rows, and locks
 * them in the order of their keys, so that no two transactions wait for each other. What was read for the decision may be
 * outdated: if another transaction has taken the rest, or the ledger is of another window, the constraint `budget_kept`
 * undoes this one, and its commands are decided again.
 */
const changeLedgers = statement<[rows: string], never>(
  'change-ledgers',
  `WITH n AS MATERIALIZED (SELECT ${namesOf(columns, 'n')} FROM ${rowsOf(columns)}), locked AS MATERIALIZED (
     SELECT l.tenant, l.key FROM n JOIN budget_ledgers l ON l.tenant = n.tenant AND l.key = n.key
     ORDER BY l.tenant, l.key FOR UPDATE OF l
   ), missing AS (
     INSERT INTO budget_ledgers (tenant, key, starts_at, taken, is_kept)
     SELECT n.tenant, n.key, n.starts_at, 0, false FROM n
     WHERE n.most IS NOT NULL AND NOT EXISTS (SELECT FROM locked l WHERE l.tenant = n.tenant AND l.key = n.key)
   )
   UPDATE budget_ledgers l SET taken = greatest(0, l.taken + n.usd),
     is_kept = n.most IS NULL OR (l.starts_at = n.starts_at AND l.taken + n.usd <= n.most)
   FROM n WHERE l.tenant = n.tenant AND l.key = n.key
     AND (SELECT count(*) FROM locked) > 0`,
);

export function saveCredit(connection: Connection, changes: readonly AgentChange[]): Promise<unknown>[] {
  const rows = new Map<string, TakenRow>();
  for (const { events, after } of changes)
    for (const event of events) {
      if (event.type !== 'taken') continue;
      const { tenant } = after.agent;
      const { key, usd, within } = event;
      const id = `${tenant}/${key}`;
      const row = rows.get(id) ?? { tenant, key, usd: 0, most: null, starts_at: null };
      rows.set(id, {
        ...row,
        usd: row.usd + usd,
        ...(within && { most: within.mostUsd, starts_at: within.startsAt }),
      });
    }
  return rows.size > 0 ? [changeLedgers(connection, JSON.stringify([...rows.values()]))] : [];
}

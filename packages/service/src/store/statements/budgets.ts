import type { Provider } from '@muster/sdk/contract';
import type { StoredBudget } from '../../domain/budget.ts';
import { isoTime, statement } from '../connection.ts';
import { rowsOf } from '../tables.ts';
import { isBelow, ownerName } from './shared-sql.ts';

/** Budgets that limit an agent: those of the catalog that fit it, and the own ones of it and of the agents above it. */
const columns = `b.key, b.name, b.document, b.created_at, l.starts_at, l.taken`;

const withLedger = (tenant: string, budgets: string): string => `(${budgets}) b
     LEFT JOIN budget_ledgers l ON l.tenant = ${tenant} AND l.key = b.key`;

const ofCatalog = `SELECT r.tenant, 'budget/' || r.name AS key, r.name, r.document, NULL::timestamptz AS created_at, NULL::uuid AS agent
     FROM resources r WHERE r.kind = 'budget' AND r.document ->> 'amountUsd' IS NOT NULL`;

const ofAgents = `SELECT p.tenant, 'agent/' || p.id AS key, p.path AS name,
       json_build_object('amountUsd', p.budget_usd) AS document, p.created_at, p.id AS agent
     FROM agents p WHERE p.budget_usd IS NOT NULL`;

/** Of the agent `a`, as rows `b` with their ledgers `l`; those of the catalog under a condition. */
const budgetsOver = (condition: string): string =>
  withLedger(
    'a.tenant',
    `${ofCatalog} AND r.tenant = a.tenant AND ${condition}
       AND coalesce(r.document ->> 'workspace', '') IN ('', a.workspace)
       AND coalesce(r.document ->> 'account', '') IN ('', a.account, ${ownerName('a')})
     UNION ALL
     ${ofAgents} AND p.tenant = a.tenant AND p.id = ANY (a.ancestors || a.id)`,
  );

/** As one JSON list. Most agents have none: that takes one look into an index. */
export const budgetsPart = `CASE
     WHEN a.budget_usd IS NULL AND cardinality(a.ancestors) = 0
       AND NOT EXISTS (SELECT FROM resources r WHERE r.tenant = a.tenant AND r.kind = 'budget') THEN '[]'
     ELSE (SELECT coalesce(json_agg(b), '[]') FROM (SELECT ${columns} FROM ${budgetsOver('true')} ORDER BY b.key) b)
   END`;

export interface BudgetRow extends Pick<StoredBudget, 'key' | 'name' | 'document'> {
  created_at: string | null;
  starts_at: string | null;
  taken: number | null;
}

/** Times are in PostgreSQL's own form where they come as JSON. */
const timeOf = (time: string): string => (time.endsWith('Z') ? time : isoTime(time));

export const budgetOf = ({ key, name, document, created_at, starts_at, taken }: BudgetRow): StoredBudget => ({
  key,
  name,
  document: created_at === null ? document : { ...document, createdAt: timeOf(created_at) },
  ledger: starts_at === null ? null : { startsAt: timeOf(starts_at), takenUsd: taken ?? 0 },
});

/** Those of the catalog are the same for all agents of an account in a workspace, and read only where that is asked for. */
export const readBudgetsOver = statement<
  [tenants: number[], agents: string[], withCatalog: boolean[]],
  BudgetRow & { tenant: number; agent: string; now: string }
>(
  'read-budgets-over',
  `SELECT a.tenant, a.id AS agent, b.key, b.name, b.document, b.created_at, b.starts_at, b.taken,
     clock_timestamp() AS now
   FROM unnest($1::int[], $2::uuid[], $3::boolean[]) AS q (tenant, id, with_catalog)
   JOIN agents a ON a.tenant = q.tenant AND a.id = q.id
   CROSS JOIN LATERAL (SELECT ${columns} FROM ${budgetsOver('q.with_catalog')}) b
   ORDER BY b.key`,
);

/** Those of the catalog, then those of live agents. */
export const readBudgets = statement<
  [tenant: number, most: number],
  BudgetRow & {
    agent: string | null;
    owner_provider: Provider;
    account: string;
    workspace: string;
    waiting: number;
    now: string;
  }
>(
  'read-budgets',
  `SELECT ${columns}, a.id AS agent, a.owner_provider, a.account, a.workspace,
     clock_timestamp() AS now,
     (SELECT count(*)::int FROM budget_waits w WHERE w.tenant = $1 AND w.key = b.key) AS waiting
   FROM ${withLedger(
     '$1',
     `(${ofCatalog} AND r.tenant = $1)
     UNION ALL (${ofAgents} AND p.is_live AND p.tenant = $1 ORDER BY p.id DESC LIMIT $2)`,
   )}
   LEFT JOIN agents a ON a.tenant = $1 AND a.id = b.agent
   ORDER BY a.id DESC NULLS FIRST, b.name`,
);

/** What live runs of a tenant are covered for and have not spent, by budget. */
const reserved = `SELECT k.key, sum(k.value::float8 - r.cost) AS reserved
     FROM runs r CROSS JOIN LATERAL jsonb_each_text(r.credits) k
     WHERE r.state <> 'ENDED' AND r.credits IS NOT NULL`;

export const readReserved = statement<[tenant: number], { key: string; reserved: number }>(
  'read-reserved',
  `${reserved} AND r.tenant = $1 GROUP BY k.key`,
);

const countColumns = {
  tenant: 'int',
  key: 'text',
  starts_at: 'timestamptz',
  agent: 'uuid',
  workspace: 'text',
  account: 'text',
} as const;

/** A budget whose spending has to be counted. */
export interface Uncounted {
  tenant: number;
  key: string;
  starts_at: string;
  /** Of an agent's own budget. */
  agent: string | null;
  workspace: string;
  account: string;
}

/** Ledgers that nothing was taken of. */
export const addLedgers = statement<[rows: string], never>(
  'add-ledgers',
  `INSERT INTO budget_ledgers (tenant, key, starts_at, taken)
   SELECT n.tenant, n.key, '-infinity', 0 FROM ${rowsOf(countColumns)} ON CONFLICT DO NOTHING`,
);

const usageOf = (table: string, time: string): string => `coalesce((
       SELECT sum(u.cost) FROM ${table} u WHERE u.tenant = n.tenant AND u.${time} >= n.starts_at
         AND n.workspace IN ('', u.workspace) AND n.account IN ('', u.account, ${ownerName('u')})
     ), 0)`;

/**
 * Counts what was spent of budgets in windows that have just begun, or whose ledger is new. The own budget of an agent counts
 * from its beginning on, and agents keep what they have spent. A ledger that another transaction changes meanwhile is left as
 * it is (`xmin` is the transaction that wrote it): what was counted may or may not have the other change.
 */
export const countLedgers = statement<[rows: string], never>(
  'count-ledgers',
  `UPDATE budget_ledgers l SET starts_at = n.starts_at, taken = greatest(0, coalesce((
       SELECT o.reserved FROM (${reserved} AND r.tenant = n.tenant AND k.key = n.key GROUP BY k.key) o
     ), 0) + CASE WHEN n.agent IS NULL THEN ${usageOf('usage_hours', 'hour')} + ${usageOf('usage_days', 'day')}
     ELSE coalesce((
       SELECT sum(d.cost) FROM agents a JOIN agents d ON d.tenant = a.tenant AND d.root = a.root AND d.is_live IN (true, false)
       WHERE a.tenant = n.tenant AND a.id = n.agent AND (d.id = a.id OR ${isBelow('d', 'a.id')})
     ), 0) END)
   FROM ${rowsOf(countColumns)} JOIN budget_ledgers b ON b.tenant = n.tenant AND b.key = n.key
   WHERE l.tenant = n.tenant AND l.key = n.key AND l.starts_at <> n.starts_at AND l.xmin = b.xmin`,
);

/** Its document has changed, or it is gone: the next run that asks finds no ledger, and counts again. */
export const forgetLedger = statement<[tenant: number, key: string], never>(
  'forget-ledger',
  'DELETE FROM budget_ledgers WHERE tenant = $1 AND key = $2',
);

/**
 * Agents that wait for a budget which has enough left, or is gone: those that wait longest first, as many as it has money
 * for. What was not counted yet counts as nothing: the run that asks next finds out.
 */
export const findFunded = statement<[limit: number], { tenant: number; id: string }>(
  'find-funded',
  `SELECT f.tenant, f.agent AS id FROM (
     SELECT w.tenant, w.agent, b.left_usd, sum(greatest(w.need, 0.000001)) OVER (
       PARTITION BY w.tenant, w.key ORDER BY w.since, w.agent
     ) AS wanted
     FROM budget_waits w CROSS JOIN LATERAL (
       SELECT CASE WHEN o.amount IS NULL THEN 'infinity' ELSE o.amount - coalesce(l.taken, 0) END AS left_usd
       FROM (SELECT CASE WHEN w.key LIKE 'agent/%' THEN (
           SELECT p.budget_usd FROM agents p WHERE p.tenant = w.tenant AND p.id = substr(w.key, 7)::uuid
         ) ELSE (
           SELECT (r.document ->> 'amountUsd')::float8 FROM resources r
           WHERE r.tenant = w.tenant AND r.kind = 'budget' AND r.name = substr(w.key, 8)
         ) END AS amount) o
       LEFT JOIN budget_ledgers l ON l.tenant = w.tenant AND l.key = w.key
     ) b
     WHERE greatest(w.need, 0.000001) <= b.left_usd
   ) f WHERE f.wanted <= f.left_usd LIMIT $1`,
);

import { type Connection, type Statement, statement } from '../connection.ts';

/** The table has the columns `tenant`, `next_at` and `claims`. */
export interface DueTable {
  readonly table: string;
  readonly key: readonly string[];
  /** What a claimed row has. */
  readonly columns: readonly string[];
  /** A further condition on a row `d`. */
  readonly and?: string;
  /** What claiming changes beside the time. */
  readonly set?: string;
}

/** The tables with work whose time comes; the tick looks for it. */
export const dueTables = [
  'deliveries',
  'change_requests',
  'pushed_branches',
  'outbox',
  'hooks',
  'notification_targets',
  'schedules',
] as const;

export type Claimed<Row> = Row & {
  /** Earlier claims in a row that were recorded and never ended: the process was killed each time. */
  readonly claims: number;
};

export interface DueRows<Row> {
  readonly table: string;
  readonly key: readonly string[];
  /**
   * Claims rows whose time has come, up to a number per tenant, counting those that it is working on already. Tenants come
   * in random order, so that one with many rows does not delay the others. At most one row has earlier claims, and none
   * unless `withSuspect`.
   */
  readonly claim: Statement<
    [
      perTenant: number,
      most: number,
      leaseMs: number,
      busyTenants: readonly number[],
      busyCounts: readonly number[],
      withSuspect: boolean,
    ],
    Claimed<Row>
  >;
  /** Keeps a claimed row for longer. */
  readonly renew: (connection: Connection, row: Row, leaseMs: number) => Promise<unknown>;
  /** The process has survived the work on a row. */
  readonly end: (connection: Connection, row: Row) => Promise<unknown>;
}

/**
 * More than anyone claims at a time. Of a limit that is a parameter, PostgreSQL expects a tenth of all rows, and would read
 * the whole table to change them.
 */
const mostClaimed = 100;

/**
 * A claimed row is due again after the lease, if its node has not settled it by then. Nodes claim different rows. The claim
 * is counted before the work begins, and the count is cleared when the work has ended, in whichever way: so it says how
 * often the work has ended the process.
 */
export function dueRows<Row extends { readonly tenant: number }>(
  name: string,
  { table, key, columns, and = '', set = '' }: DueTable,
): DueRows<Row> {
  const same = key.map((column) => `t.${column} = q.${column}`).join(' AND ');
  const keyed = key.map((column) => `d.${column}`).join(', ');
  const old = [...columns, 'claims', 'next_at'].filter((column) => !key.includes(column));
  const read = [keyed, ...old.map((column) => `d.${column}`)].join(', ');
  const returned = [...columns, 'claims'].map((column) => `q.${column}`).join(', ');
  const due = 'd.next_at IS NOT NULL';
  const claim: DueRows<Row>['claim'] = statement(
    `claim-${name}`,
    `WITH RECURSIVE tenants_due AS (
       (SELECT d.tenant FROM ${table} d WHERE ${due} ORDER BY d.tenant LIMIT 1)
       UNION ALL
       SELECT (SELECT d.tenant FROM ${table} d WHERE ${due} AND d.tenant > t.tenant ORDER BY d.tenant LIMIT 1)
       FROM tenants_due t WHERE t.tenant IS NOT NULL
     ), q AS MATERIALIZED (
       SELECT ${read} FROM (
         SELECT ${read} FROM (SELECT tenant FROM tenants_due ORDER BY random()) t CROSS JOIN LATERAL (
           SELECT ${read} FROM ${table} d
           WHERE d.tenant = t.tenant AND d.next_at <= now() AND (d.claims = 0 OR $6)${and && ` AND ${and}`}
           ORDER BY d.next_at LIMIT greatest(0, $1 - coalesce(($5::int[])[array_position($4::int[], t.tenant)], 0))
           FOR UPDATE OF d SKIP LOCKED
         ) d LIMIT $2
       ) d LIMIT ${mostClaimed}
     )
     UPDATE ${table} t SET claims = t.claims + 1, next_at = now() + make_interval(secs => $3 / 1000.0)${set && `, ${set}`}
     FROM (SELECT ${returned}, row_number() OVER (PARTITION BY q.claims > 0 ORDER BY q.next_at) AS place FROM q) q
     WHERE ${same} AND (q.claims = 0 OR q.place = 1)
     RETURNING ${returned}`,
  );
  const renew = statement<unknown[], never>(
    `renew-${name}`,
    `UPDATE ${table} SET next_at = now() + make_interval(secs => $1::float8 / 1000)
     WHERE ${key.map((column, i) => `${column} = $${i + 2}`).join(' AND ')} AND next_at IS NOT NULL`,
  );
  const end = statement<unknown[], never>(
    `end-claim-of-${name}`,
    `UPDATE ${table} SET claims = 0
     WHERE ${key.map((column, i) => `${column} = $${i + 1}`).join(' AND ')} AND claims > 0`,
  );
  const keyOf = (row: Row) => key.map((column) => (row as Record<string, unknown>)[column]);
  return {
    table,
    key,
    claim,
    renew: (connection, row, leaseMs) => renew(connection, leaseMs, ...keyOf(row)),
    end: (connection, row) => end(connection, ...keyOf(row)),
  };
}

import pg from 'pg';

/** A node of `EXPLAIN (ANALYZE, FORMAT JSON)`. */
export interface PlanNode {
  readonly 'Relation Name'?: string;
  readonly 'Subplan Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly Plans?: readonly PlanNode[];
}

/** Rows of tables that were looked at: to find the page, and then for each row of it. */
export function rowsRead(node: PlanNode, isBeside = false): { found: number; beside: number } {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0);
  const own = node['Relation Name'] ? Math.round((node['Actual Rows'] + removed) * node['Actual Loops']) : 0;
  const isSubplan = isBeside || node['Subplan Name'] !== undefined;
  const sum = isSubplan ? { found: 0, beside: own } : { found: own, beside: 0 };
  for (const plan of node.Plans ?? []) {
    const { found, beside } = rowsRead(plan, isSubplan);
    sum.found += found;
    sum.beside += beside;
  }
  return sum;
}

/** A parameter as it is written into a statement. */
export const literal = (value: unknown): string =>
  pg.escapeLiteral(Array.isArray(value) ? `{${value.join(',')}}` : String(value));

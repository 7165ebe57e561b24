import { type Connection, sent } from '../connection.ts';
import type { AgentRow } from '../rows.ts';

export interface ListFilter {
  readonly tenant: number;
  /** Null: root agents. */
  readonly parent: string | null;
  /** Null: of every account. */
  readonly owner: { readonly provider: string; readonly account: string } | null;
  readonly includeTerminal: boolean;
  readonly workspace: string;
  readonly phases: readonly string[];
  readonly text: string;
  /** Only agents older than this one. */
  readonly before: string | null;
  /** Only these; for a stream that follows changes. */
  readonly ids: readonly string[] | null;
  readonly limit: number;
}

export interface ListRow
  extends Omit<AgentRow, 'description' | 'expected_output' | 'memory' | 'result' | 'settings' | 'ancestors'> {
  model: string;
  question: string;
  limit_until: string | null;
  child_count: number;
  children_cost: number | null;
}

/**
 * A page of agents, newest first. The conditions differ from call to call, and each combination is a statement of its
 * own with an index that fits it; the name is made from the combination, so each is still planned once.
 */
export async function readList(connection: Connection, filter: ListFilter): Promise<ListRow[]> {
  const values: unknown[] = [];
  const bind = (value: unknown): string => `$${values.push(value)}`;
  const isOwn = filter.owner !== null && filter.parent === null;
  // The expression is that of the indexes for the lists of one account.
  const tenant = isOwn ? `a.tenant + 0 = ${bind(filter.tenant)}` : `a.tenant = ${bind(filter.tenant)}`;
  const conditions: [name: string, sql: string][] = [['t', tenant]];
  const add = (name: string, wanted: boolean, sql: () => string) => {
    if (wanted) conditions.push([name, sql()]);
  };
  const { parent, owner, workspace, phases, text, before, ids } = filter;
  add('r', parent === null && ids === null, () => 'a.parent IS NULL');
  add('ri', parent === null && ids !== null, () => 'a.parent IS NULL');
  add('p', parent !== null, () => `a.parent = ${bind(parent)}`);
  add(
    'o',
    owner !== null,
    () => `a.owner_provider = ${bind(owner?.provider)} AND a.account = ${bind(owner?.account)}`,
  );
  add('l', !filter.includeTerminal, () => 'a.ended_at IS NULL');
  add('c', true, () => 'a.current');
  add('w', workspace !== '', () => `a.workspace = ${bind(workspace)}`);
  add('h', phases.length > 0, () => `a.phase = ANY (${bind(phases)}::text[])`);
  add('x', text !== '', () => {
    const pattern = bind(`%${text.replace(/[\\%_]/g, '\\$&')}%`);
    return `(a.path ILIKE ${pattern} OR a.description ILIKE ${pattern})`;
  });
  add('b', before !== null, () => `a.id < ${bind(before)}`);
  add('i', ids !== null, () => `a.id = ANY (${bind(ids)}::uuid[])`);
  const limit = bind(filter.limit);

  sent.statements += 1;
  const result = await connection.query({
    name: `read-list-${conditions.map(([name]) => name).join('')}`,
    text: `SELECT a.tenant, a.id, a.root, a.parent, a.owner_provider, a.account, a.workspace, a.path, a.pool, a.backend,
        a.repos, a.created_at, a.phase, a.reason, a.since, a.claimable_at, a.run_count, a.sequence, a.queued, a.deferred,
        a.next_deliver_at, a.progress_at, a.ended_at, a.cost, a.input_tokens, a.cached_tokens, a.output_tokens, a.home,
        a.rehearsed, a.settings ->> 'model' AS model, a.memory ->> 'question' AS question,
        a.memory ->> 'limitUntil' AS limit_until,
        (SELECT count(*)::int FROM agents k WHERE k.tenant = a.tenant AND k.parent = a.id AND k.current) AS child_count,
        (SELECT sum(d.cost) FROM agents d
         WHERE d.tenant = a.tenant AND d.root = a.root AND d.parent IS NOT NULL AND a.id = ANY (d.ancestors)
        ) AS children_cost
      FROM agents a WHERE ${conditions.map(([, sql]) => sql).join(' AND ')} ORDER BY a.id DESC LIMIT ${limit}`,
    values,
  });
  return result.rows as ListRow[];
}

import { limits } from '@muster/sdk/contract';
import type { Labels } from '../../domain/agent.ts';
import { type Connection, sent, statement } from '../connection.ts';
import type { AgentRow } from '../rows.ts';
import { agentColumns, needsInput } from './agent-columns.ts';
import { childrenCost } from './below.ts';
import { boundedPage } from './bounded-page.ts';
import { type Bind, type ListRange, listParts, ownerIs, partText } from './list-parts.ts';

export interface ListFilter extends Omit<ListRange, 'walkedLabel'> {
  readonly workspace: string;
  readonly phases: readonly string[];
  readonly text: string;
  /** All of them; empty for any. */
  readonly labels: Labels;
  /** Only agents older than this one. */
  readonly before: string | null;
  readonly limit: number;
}

/** The row itself, but for what a list cuts or leaves out. */
const columns = [
  ...agentColumns,
  'sequence',
  'queued',
  'deferred',
] as const satisfies readonly (keyof AgentRow)[];

export interface ListRow extends Pick<AgentRow, (typeof columns)[number]> {
  /** Its beginning. */
  description: string;
  model: string;
  persona: string;
  /** What it asked, or what has to be fixed, while it waits for that. */
  needs_input: string | null;
  /** Of one that failed, is blocked or is retried. */
  error: string;
  child_count: number;
  /** How many there are up to the limit; more than the rows when these ended early. */
  found: number;
  children_cost: number | null;
}

const shown = `${columns.map((column) => `a.${column}`).join(', ')},
  left(a.description, ${limits.listedDescriptionLength}) AS description,
  a.settings ->> 'model' AS model, a.settings ->> 'persona' AS persona,
  ${needsInput} AS needs_input,
  CASE WHEN a.reason IN ('ERROR', 'BLOCKED', 'RETRYING') THEN coalesce(a.result -> 'error' ->> 'message', '') ELSE '' END AS error,
  (SELECT count(*)::int FROM agents k WHERE k.tenant = a.tenant AND k.parent = a.id AND k.current) AS child_count,
  ${childrenCost} AS children_cost`;

/** Of what may be large in a row. */
const bytes = ['path', 'repos::text', 'labels::text', 'description', 'needs_input', 'error']
  .map((column) => `coalesce(octet_length(${column}), 0)`)
  .join(' + ');

/**
 * A page of agents, newest first. The conditions differ from call to call, and each combination is a statement of its
 * own with indexes that fit it; the name is made from the combination, so each is still planned once.
 */
export async function readList(connection: Connection, filter: ListFilter): Promise<ListRow[]> {
  const walkedLabel = await rarestLabel(connection, filter);
  const { name, text, values } = statementOf({ ...filter, walkedLabel });
  sent.statements += 1;
  const result = await connection.query({ name, text, values });
  return result.rows as ListRow[];
}

const mostCounted = 1000;

/** Labels by how many agents have them, counted up to a bound; the rarest first. */
const countLabels = statement<
  [
    tenant: number,
    keys: readonly string[],
    values: readonly string[],
    live: readonly boolean[],
    most: number,
  ],
  { key: string }
>(
  'count-labels',
  `SELECT w.key FROM unnest($2::text[], $3::text[]) WITH ORDINALITY w (key, value, place)
   CROSS JOIN LATERAL (
     SELECT count(*) AS agents FROM (
       SELECT FROM unnest($4::boolean[]) i (is_live) CROSS JOIN LATERAL (
         SELECT FROM labels l
         WHERE l.tenant = $1 AND l.key = w.key AND l.value = w.value AND l.is_live = i.is_live LIMIT $5 OFFSET 0
       ) l
     ) l
   ) l ORDER BY l.agents, w.place`,
);

/** The label that fewest agents have makes the shortest walk. */
async function rarestLabel(
  connection: Connection,
  { tenant, labels, includeTerminal }: ListFilter,
): Promise<string> {
  const keys = Object.keys(labels);
  if (keys.length < 2) return keys[0] ?? '';
  const live = includeTerminal ? [true, false] : [true];
  const [rarest] = await countLabels(connection, tenant, keys, Object.values(labels), live, mostCounted);
  return rarest?.key ?? '';
}

/** What a filter says about phases and labels, of a row at hand. Its other conditions never change for an agent. */
export const fitsNow = (
  {
    includeTerminal,
    endedSince,
    phases,
    labels,
  }: Pick<ListFilter, 'includeTerminal' | 'endedSince' | 'phases' | 'labels'>,
  { phase, ended_at: endedAt, labels: own }: Pick<ListRow, 'phase' | 'ended_at' | 'labels'>,
): boolean =>
  Object.entries(labels).every(([key, value]) => Object.hasOwn(own, key) && own[key] === value) &&
  (phases.length === 0 || phases.includes(phase)) &&
  (endedAt === null || (includeTerminal && (endedSince === null || endedAt >= endedSince)));

function statementOf(filter: ListFilter & ListRange): { name: string; text: string; values: unknown[] } {
  const values: unknown[] = [];
  const places = new Map<string, string>();
  const bind: Bind = (name, value) => {
    const place = places.get(name) ?? `$${values.push(value)}`;
    places.set(name, place);
    return place;
  };
  const limit = bind('limit', filter.limit);
  const conditions = conditionsOf(filter, bind);
  const parts = listParts(filter, bind);
  const texts = parts.map((part) => partText(part, [...conditions.values()], `${limit} + 1`));
  return {
    name: `read-list-${[...parts.map(({ name }) => name), ...conditions.keys()].join('-')}`,
    text: boundedPage({
      rows: `SELECT ${shown} FROM (
          SELECT * FROM (${texts.join(' UNION ALL ')}) a ORDER BY a.id DESC LIMIT ${limit} + 1
        ) a`,
      bytes,
      order: 'id DESC',
      limit,
      mostBytes: limits.pageBytes,
    }),
    values,
  };
}

/** What holds of every agent of the list, under short names. */
function conditionsOf(
  { owner, workspace, phases, text, labels, before }: ListFilter,
  bind: Bind,
): ReadonlyMap<string, string> {
  const conditions = new Map([['c', 'a.current']]);
  if (owner) conditions.set(owner.account === null ? 'p' : 'o', ownerIs(owner, bind));
  if (workspace !== '') conditions.set('w', `a.workspace = ${bind('workspace', workspace)}`);
  if (phases.length > 0) conditions.set('h', `a.phase = ANY (${bind('phases', phases)}::text[])`);
  if (Object.keys(labels).length > 0)
    conditions.set('l', `a.labels @> ${bind('labels', JSON.stringify(labels))}::jsonb`);
  if (text !== '') {
    const pattern = bind('pattern', `%${text.replace(/[\\%_]/g, '\\$&')}%`);
    conditions.set('x', `(a.path ILIKE ${pattern} OR a.description ILIKE ${pattern})`);
  }
  if (before !== null) conditions.set('b', `a.id < ${bind('before', before)}`);
  return conditions;
}

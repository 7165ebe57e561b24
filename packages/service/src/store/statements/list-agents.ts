import { limits } from '@muster/sdk/contract';
import type { Labels } from '../../domain/agent.ts';
import { type Connection, query, statement } from '../connection.ts';
import type { AgentRow } from '../rows.ts';
import { agentColumns, boundedPage, childrenCost, hasPathBelow, isBelow, needsInput } from './shared-sql.ts';

export interface ListFilter extends Omit<ListRange, 'walkedLabel'> {
  readonly workspace: string;
  readonly phases: readonly string[];
  readonly text: string;
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
  return query<ListRow>(connection, statementOf({ ...filter, walkedLabel }));
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

/** Where a list looks. */
export interface ListRange {
  readonly tenant: number;
  /** Null: root agents, or with `allDepths` all agents. */
  readonly parent: Pick<AgentRow, 'id' | 'root' | 'path'> | null;
  readonly allDepths: boolean;
  /** Null: of every account. Without an account: of every account under that provider. */
  readonly owner: { readonly provider: string; readonly account: string | null } | null;
  readonly includeTerminal: boolean;
  /** Of the ended ones only those that ended then or later. */
  readonly endedSince: string | null;
  /** All of them; empty for any. */
  readonly labels: Labels;
  /** The one of them whose agents are walked; empty without labels. */
  readonly walkedLabel: string;
  /** Only agents older than this one. */
  readonly before: string | null;
  /** Only these; for a stream that follows changes. */
  readonly ids: readonly string[] | null;
}

/** The place of a value among a statement's parameters. */
export type Bind = (name: string, value: unknown) => string;

/**
 * A part of a list that one index has. Either it has it in the list's order, and is walked until the page is full. Or
 * what it has is gathered, looked through and sorted; then that is little: one tree, or what ended lately.
 */
export interface Part {
  readonly name: string;
  /** What the index knows. */
  readonly where: readonly string[];
  /** Found through another table, which has its own part of the list's order. */
  readonly from?: string;
  /** The list's order, as the index has it. */
  readonly order?: string;
  /** What is looked for in what was gathered. */
  readonly rest?: readonly string[];
}

type Life = 'live' | 'ended' | 'any';

function partText(
  { where, order, rest = [], from = 'agents a' }: Part,
  conditions: readonly string[],
  limit: string,
): string {
  if (order) {
    const all = [...where, ...rest, ...conditions].join(' AND ');
    return `(SELECT a.* FROM ${from} WHERE ${all} ORDER BY ${order} LIMIT ${limit})`;
  }
  // OFFSET 0 keeps the planner from other indexes, which fit what is looked for.
  return `SELECT a.* FROM (SELECT a.* FROM agents a WHERE ${where.join(' AND ')} OFFSET 0) a
    WHERE ${[...rest, ...conditions].join(' AND ')}`;
}

/** The parts of a list: live agents, and beside them those that ended lately; roots, and beside them nested ones. */
function listParts(range: ListRange, bind: Bind): Part[] {
  const { parent, includeTerminal, endedSince, ids } = range;
  if (ids) return [namedPart(range, ids, bind)];
  const ended: readonly Life[] = endedSince === null ? ['any'] : ['live', 'ended'];
  const lives: readonly Life[] = includeTerminal ? ended : ['live'];
  return lives.flatMap((life) => {
    if (parent) return [partBelow(range, parent, life, bind)];
    if (range.walkedLabel !== '') return labelledParts(range, life, bind);
    return life === 'ended' ? [endedPart(range, bind)] : walkedParts(range, life, bind);
  });
}

function ownerIs({ provider, account }: NonNullable<ListRange['owner']>, bind: Bind): string {
  // The expression keeps the index for one account away, which a provider alone would not narrow in the list's order.
  if (account === null) return `a.owner_provider || '' = ${bind('provider', provider)}`;
  return `a.owner_provider = ${bind('provider', provider)} AND a.account = ${bind('account', account)}`;
}

/** Whether the indexes for the lists of one account serve. */
const isOneAccount = (owner: ListRange['owner']): owner is { provider: string; account: string } =>
  owner !== null && owner.account !== null;

const newestFirst = 'a.id DESC';

const tenantIs = ({ tenant }: ListRange, bind: Bind): string => `a.tenant = ${bind('tenant', tenant)}`;

/** Indexes for lists alone are over this expression. */
const ownTenantIs = ({ tenant }: ListRange, bind: Bind): string => `a.tenant + 0 = ${bind('tenant', tenant)}`;

/** Roots, or all agents, that indexes have in the list's order. */
function walkedParts(range: ListRange, life: 'live' | 'any', bind: Bind): Part[] {
  const place = bind('tenant', range.tenant);
  const part = (depth: 'root' | 'nested', tenant: string): Part => {
    const where = [depth === 'root' ? 'a.parent IS NULL' : 'a.parent IS NOT NULL'];
    if (life === 'live') where.push('a.ended_at IS NULL');
    const name = `${depth}.${life}`;
    if (isOneAccount(range.owner))
      return { name, where: [...where, ownTenantIs(range, bind)], order: newestFirst };
    // One tenant, said as a range and sorted: that does not fit the index over the ids of all tenants.
    where.push(`${tenant} BETWEEN ${place} AND ${place}`);
    return { name, where, order: `${tenant}, ${newestFirst}` };
  };
  const roots = part('root', 'a.tenant');
  return range.allDepths ? [roots, part('nested', 'a.tenant + 0')] : [roots];
}

/** Agents that have one of the labels, in the list's order. The other labels are compared. */
function labelledParts(range: ListRange, life: Life, bind: Bind): Part[] {
  const where = [
    `l.tenant = ${bind('tenant', range.tenant)}`,
    `l.key = ${bind('labelKey', range.walkedLabel)}`,
    `l.value = ${bind('labelValue', range.labels[range.walkedLabel])}`,
  ];
  if (range.before !== null) where.push(`l.agent < ${bind('before', range.before)}`);
  const rest = [depthIs(range, bind)];
  if (life === 'ended') rest.push(`a.ended_at >= ${bind('endedSince', range.endedSince)}`);
  const depth = range.allDepths ? 'all' : 'root';
  const part = (isLive: boolean): Part => ({
    name: `${depth}.${life}.labelled.${isLive}`,
    from: `labels l CROSS JOIN LATERAL (
      SELECT * FROM agents a WHERE a.tenant = l.tenant AND a.id = l.agent OFFSET 0
    ) a`,
    where: [...where, `l.is_live = ${isLive}`],
    order: 'l.agent DESC',
    rest,
  });
  return { live: [part(true)], ended: [part(false)], any: [part(true), part(false)] }[life];
}

/** What ended lately. */
function endedPart(range: ListRange, bind: Bind): Part {
  const { owner, allDepths } = range;
  const tenant = isOneAccount(owner)
    ? [ownTenantIs(range, bind), ownerIs(owner, bind)]
    : [tenantIs(range, bind)];
  const where = [...tenant, 'a.current', `a.ended_at >= ${bind('endedSince', range.endedSince)}`];
  const name = `${allDepths ? 'all' : 'root'}.ended`;
  return { name, where, rest: [depthIs(range, bind)] };
}

/** Children, or everything below. */
function partBelow(range: ListRange, parent: NonNullable<ListRange['parent']>, life: Life, bind: Bind): Part {
  const { allDepths, endedSince } = range;
  const name = `${allDepths ? 'below' : 'child'}.${life}`;
  const rest = [tenantIs(range, bind), depthIs(range, bind)];
  if (life === 'any' && !allDepths) return { name, where: rest, order: newestFirst };
  const tree = [`a.root = ${bind('root', parent.root)}`, 'a.parent IS NOT NULL'];
  const lives = {
    live: () => 'a.ended_at IS NULL',
    ended: () => `a.ended_at >= ${bind('endedSince', endedSince)}`,
    any: () => hasPathBelow('a', `${bind('path', parent.path)}::text`),
  };
  return { name, where: [...tree, lives[life]()], rest };
}

/** Those of these agents that are in the range, whether they have ended or not. */
function namedPart(range: ListRange, ids: readonly string[], bind: Bind): Part {
  const name = `${range.allDepths ? 'all' : 'level'}${range.parent ? '.below' : ''}.named`;
  const where = [tenantIs(range, bind), `a.id = ANY (${bind('ids', ids)}::uuid[])`];
  return { name, where, rest: [depthIs(range, bind)] };
}

function depthIs({ parent, allDepths }: ListRange, bind: Bind): string {
  if (!parent) return allDepths ? 'true' : 'a.parent IS NULL';
  const id = bind('parent', parent.id);
  return allDepths ? isBelow('a', id) : `a.parent = ${id}`;
}

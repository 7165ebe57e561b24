import { limits, plainSourceLength } from '@muster/sdk/contract';
import type { Labels } from '../../domain/agent.ts';
import { type AgentRow, shownAgentColumns } from '../agent-columns.ts';
import { type Connection, query, statement } from '../connection.ts';
import type { AgentBriefRow, AgentStateRow } from '../rows.ts';
import { boundedPage, childrenCost, hasPathBelow, isBelow, needsInput, sqlReasons } from './shared-sql.ts';

export interface ListFilter extends Omit<ListRange, 'walkedLabel'> {
  readonly workspace: string;
  readonly phases: readonly string[];
  /** Only those that a retry would start. */
  readonly isRetryable?: boolean;
  /** Whose marks are shown; null: nobody's. */
  readonly reader: { readonly provider: string; readonly account: string } | null;
  readonly limit: number;
}

/** What a list shows of the row itself. */
const columns = [
  ...shownAgentColumns,
  'sequence',
  'queued',
  'deferred',
] as const satisfies readonly (keyof AgentRow)[];

export interface ListRow
  extends Pick<AgentRow, (typeof columns)[number]>,
    Pick<AgentStateRow, 'labels'>,
    Pick<AgentBriefRow, 'repos'> {
  /** Its beginning. */
  description: string;
  persona: string;
  /** What it asked, or what has to be fixed, while it waits for that. */
  needs_input: string | null;
  /** The beginning of its newest response, unless it needs input. */
  response: string;
  /** What its run is doing. */
  current_action: string;
  task_count: number;
  tasks_done: number;
  /** Of one that failed, is blocked or is retried. */
  error: string;
  /** It has pushed. */
  has_branch: boolean;
  child_count: number;
  seen: number;
  is_pinned: boolean;
  /** How many there are up to the limit; more than the rows when these ended early. */
  found: number;
  children_cost: number | null;
}

const currentAction = `(
    SELECT r.current_action FROM runs r WHERE r.tenant = a.tenant AND r.agent = a.id AND r.number = a.run_count
  )`;

/** Of a checklist that was not written since the database counts. */
const tasksWith = (status: string): string => `(
    SELECT count(*)::int FROM json_array_elements(CASE json_typeof(c.tasks) WHEN 'array' THEN c.tasks END) t
    WHERE t ->> 'status' ${status}
  )`;

const namesIn = (table: string, names: readonly string[]): string =>
  names.map((name) => `${table}.${name}`).join(', ');

const shown = `${namesIn('a', columns)}, s.labels, b.repos,
  left(b.description, ${limits.listedDescriptionLength}) AS description, s.settings ->> 'persona' AS persona,
  ${needsInput} AS needs_input,
  CASE WHEN a.reason IN (${sqlReasons(({ needsInput }) => needsInput !== undefined)}) THEN '' ELSE left(s.response, ${plainSourceLength(limits.newsLength) + 1}) END AS response,
  CASE WHEN a.phase = 'PHASE_RUNNING' THEN coalesce(${currentAction}, '') ELSE '' END AS current_action,
  coalesce(c.task_count, ${tasksWith("IS DISTINCT FROM 'TASK_STATUS_DELETED'")}) AS task_count,
  coalesce(c.tasks_done, ${tasksWith("= 'TASK_STATUS_COMPLETED'")}) AS tasks_done,
  CASE WHEN a.reason IN (${sqlReasons((row) => row.showsError)}) THEN coalesce(s.result -> 'error' ->> 'message', '') ELSE '' END AS error,
  coalesce(s.result ->> 'branch', '') <> '' AS has_branch,
  (SELECT count(*)::int FROM agents k WHERE k.tenant = a.tenant AND k.parent = a.id AND k.current) AS child_count,
  ${childrenCost} AS children_cost, coalesce(m.seen, 0) AS seen, coalesce(m.is_pinned, false) AS is_pinned`;

/** Of what may be large in a row. */
const bytes = [
  'path',
  'repos::text',
  'labels::text',
  'description',
  'needs_input',
  'response',
  'current_action',
  'error',
]
  .map((column) => `coalesce(octet_length(${column}), 0)`)
  .join(' + ');

/**
 * A page of agents, newest first. The conditions differ from call to call, and each combination is a statement of its
 * own with indexes that fit it; the name is made from the combination, so most are still planned once.
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
         WHERE l.tenant = $1 AND l.key = w.key AND l.value = w.value AND l.is_live = i.is_live LIMIT $5
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

function statementOf(filter: ListFilter & ListRange): { name?: string; text: string; values: unknown[] } {
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
  // In the text, because the planner has to know that it is little.
  const most = filter.limit <= 100 ? 101 : limits.pageSize + 1;
  const tables = tablesOf(filter);
  const texts = parts.map((part) => partText(part, tables, [...conditions.values()], most));
  const name = `read-list-${[most, ...parts.map((part) => part.name), ...conditions.keys()].join('-')}`;
  return {
    // Where to look depends on what is searched for, and on how much has ended since, so these are planned for their values.
    ...(filter.text === '' && filter.endedSince === null && { name }),
    text: boundedPage({
      rows: `SELECT ${shown} FROM (
          SELECT ${namesIn('a', [...columns, 'root'])} FROM (${texts.join(' UNION ALL ')}) a
          ORDER BY a.id DESC LIMIT least(${limit} + 1, ${most})
        ) a
        JOIN agent_states s ON s.tenant = a.tenant AND s.agent = a.id
        JOIN agent_briefs b ON b.tenant = a.tenant AND b.agent = a.id
        LEFT JOIN checklists c ON c.tenant = a.tenant AND c.agent = a.id
        LEFT JOIN agent_marks m ON m.tenant = a.tenant AND m.agent = a.id
          AND m.owner_provider = ${bind('readerProvider', filter.reader?.provider ?? null)}
          AND m.account = ${bind('reader', filter.reader?.account ?? null)}`,
      bytes,
      order: 'id DESC',
      limit,
      mostBytes: limits.pageBytes,
    }),
    values,
  };
}

/** What the conditions need beside the agents themselves. */
const tablesOf = ({ text, labels }: ListFilter): string =>
  [
    'agents a',
    ...(Object.keys(labels).length > 0 ? ['agent_states s ON s.tenant = a.tenant AND s.agent = a.id'] : []),
    ...(text !== '' ? ['agent_briefs b ON b.tenant = a.tenant AND b.agent = a.id'] : []),
  ].join(' JOIN ');

/** Blocked, or waiting for a time that has not come. */
const retryable = `(a.reason IN (${sqlReasons((row) => row.isRetryable)})
  AND (a.claimable_at IS NULL OR a.claimable_at > now()))`;

/** What holds of every agent of the list, under short names. */
function conditionsOf(
  { owner, workspace, phases, isRetryable, text, labels, before }: ListFilter,
  bind: Bind,
): ReadonlyMap<string, string> {
  const conditions = new Map([['c', 'a.current']]);
  if (owner) conditions.set(owner.account === null ? 'p' : 'o', ownerIs(owner, bind));
  if (workspace !== '') conditions.set('w', `a.workspace = ${bind('workspace', workspace)}`);
  if (phases.length > 0) conditions.set('h', `a.phase = ANY (${bind('phases', phases)}::text[])`);
  if (isRetryable) conditions.set('q', retryable);
  if (Object.keys(labels).length > 0)
    conditions.set('l', `s.labels @> ${bind('labels', JSON.stringify(labels))}::jsonb`);
  if (text !== '') {
    const pattern = bind('pattern', `%${text.replace(/[\\%_]/g, '\\$&')}%`);
    conditions.set('x', `b.searched ILIKE ${pattern}`);
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
  /** In the path or in the beginning of the description; empty for any. */
  readonly text: string;
  /** Only agents older than this one. */
  readonly before: string | null;
  /** Only these; for a stream that follows changes. */
  readonly ids: readonly string[] | null;
}

/** The place of a value among a statement's parameters. */
export type Bind = (name: string, value: unknown) => string;

/**
 * A part of a list that one index finds. With `order`, the index has the order of the list and is read until the page
 * is full. Without it, all that the index finds is read, filtered and sorted; this is used where it is little, as for
 * one tree or for agents that ended recently.
 */
export interface Part {
  /** Short: PostgreSQL cuts the name of a statement after 63 bytes. */
  readonly name: string;
  readonly where: readonly string[];
  /** Found through another table, which has its own part of the list's order. */
  readonly through?: string;
  /** The list's order, as the index has it. */
  readonly order?: string;
}

type Life = 'live' | 'ended' | 'any';

function partText(
  { where, order, through = '' }: Part,
  tables: string,
  conditions: readonly string[],
  most: number,
): string {
  const found = `SELECT ${namesIn('a', [...columns, 'root'])} FROM ${tables}${through}
    WHERE ${[...where, ...conditions].join(' AND ')}`;
  return order ? `(${found} ORDER BY ${order} LIMIT ${most})` : `(${found})`;
}

/** The parts of a list: live agents, and beside them those that ended; roots, and beside them nested ones. */
function listParts(range: ListRange, bind: Bind): Part[] {
  const { parent, includeTerminal, endedSince, ids } = range;
  if (ids) return [namedPart(range, ids, bind)];
  const isSearch = range.text !== '' && range.walkedLabel === '';
  if (isSearch && !parent && includeTerminal && endedSince === null) return [searchedPart(range, bind)];
  const lives: readonly Life[] = includeTerminal ? ['live', 'ended'] : ['live'];
  if (parent && range.allDepths && includeTerminal && endedSince === null)
    return [treePart(range, parent, 'any', bind)];
  return lives.flatMap((life) => {
    if (!parent && range.walkedLabel !== '') return [labelledPart(range, life === 'live', bind)];
    if (life === 'ended' && endedSince !== null) return [endedPart(range, endedSince, bind)];
    if (parent && range.allDepths) return [treePart(range, parent, life, bind)];
    return walkedParts(range, life, bind);
  });
}

function ownerIs({ provider, account }: NonNullable<ListRange['owner']>, bind: Bind): string {
  const isProvider = `a.owner_provider = ${bind('provider', provider)}`;
  return account === null ? isProvider : `${isProvider} AND a.account = ${bind('account', account)}`;
}

const newestFirst = 'a.id DESC';

const tenantIs = ({ tenant }: ListRange, bind: Bind): string => `a.tenant = ${bind('tenant', tenant)}`;

const lifeIs = (life: Life): string =>
  ({ live: 'a.is_live', ended: 'NOT a.is_live', any: 'a.is_live IN (true, false)' })[life];

/** Roots, all agents, or the children of one, which indexes have in the list's order. */
function walkedParts(range: ListRange, life: Life, bind: Bind): Part[] {
  const part = (depth: 'c' | 'r' | 'n', depthCondition: string): Part => ({
    name: `${depth}${life[0]}`,
    where: [tenantIs(range, bind), depthCondition, lifeIs(life)],
    order: newestFirst,
  });
  if (range.parent)
    return [part('c', `a.parent IS NOT NULL AND a.parent = ${bind('parent', range.parent.id)}`)];
  const roots = part('r', 'a.is_root');
  return range.allDepths ? [roots, part('n', 'NOT a.is_root')] : [roots];
}

/**
 * Live and ended agents, roots and nested ones together. One part, so that the index of the texts is read once. If most
 * texts match, PostgreSQL reads the primary key instead, which has the order of the list.
 */
const searchedPart = (range: ListRange, bind: Bind): Part => ({
  name: `S${range.allDepths ? 'a' : 'r'}`,
  where: [tenantIs(range, bind), depthIs(range, bind)],
  order: newestFirst,
});

/** Agents that have one of the labels, in the list's order. The other labels are compared. */
function labelledPart(range: ListRange, isLive: boolean, bind: Bind): Part {
  const where = [
    `l.tenant = ${bind('tenant', range.tenant)}`,
    `l.key = ${bind('labelKey', range.walkedLabel)}`,
    `l.value = ${bind('labelValue', range.labels[range.walkedLabel])}`,
    `l.is_live = ${isLive}`,
    depthIs(range, bind),
  ];
  if (range.before !== null) where.push(`l.agent < ${bind('before', range.before)}`);
  const isSince = !isLive && range.endedSince !== null;
  if (isSince) where.push(`a.ended_at >= ${bind('endedSince', range.endedSince)}`);
  return {
    name: `L${range.allDepths ? 'a' : 'r'}${isLive ? 'l' : 'e'}${isSince ? 's' : ''}`,
    through: ' JOIN labels l ON l.tenant = a.tenant AND l.agent = a.id',
    where,
    order: 'l.agent DESC',
  };
}

/** What ended lately. */
function endedPart(range: ListRange, endedSince: string, bind: Bind): Part {
  const { allDepths, parent } = range;
  return {
    name: `E${allDepths ? 'a' : 'l'}${parent ? 'b' : ''}`,
    where: [
      tenantIs(range, bind),
      `a.ended_at >= ${bind('endedSince', endedSince)}`,
      'NOT a.is_live',
      depthIs(range, bind),
    ],
  };
}

/** Everything below an agent. */
function treePart(range: ListRange, parent: NonNullable<ListRange['parent']>, life: Life, bind: Bind): Part {
  return {
    name: `B${life[0]}`,
    where: [
      `a.root = ${bind('root', parent.root)}`,
      'a.parent IS NOT NULL',
      lifeIs(life),
      hasPathBelow('a', `${bind('path', parent.path)}::text`),
      tenantIs(range, bind),
      depthIs(range, bind),
    ],
  };
}

/** Those of these agents that are in the range, whether they have ended or not. */
function namedPart(range: ListRange, ids: readonly string[], bind: Bind): Part {
  return {
    name: `N${range.allDepths ? 'a' : 'l'}${range.parent ? 'b' : ''}`,
    where: [tenantIs(range, bind), `a.id = ANY (${bind('ids', ids)}::uuid[])`, depthIs(range, bind)],
  };
}

function depthIs({ parent, allDepths }: ListRange, bind: Bind): string {
  if (!parent) return allDepths ? 'true' : 'a.is_root';
  const id = bind('parent', parent.id);
  return allDepths ? isBelow('a', id) : `a.parent = ${id}`;
}

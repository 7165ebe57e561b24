import { limits, type UsageInterval, type UsageKey } from '@muster/sdk/contract';
import { type Connection, query } from '../connection.ts';
import { type Amounts, usageAmounts } from '../usage-rows.ts';
import { boundedPage, ownerName } from './shared-sql.ts';

export interface UsageQuery {
  readonly tenant: number;
  /** Whole hours. */
  readonly from: string;
  readonly to: string;
  readonly zone: string;
  readonly interval: UsageInterval;
  readonly groupBy: readonly UsageKey[];
  readonly filter: readonly UsageFilter[];
  /** The page begins behind this row. */
  readonly after: { readonly start: string; readonly keys: readonly string[] } | null;
  readonly limit: number;
}

export type UsageFilter =
  | { readonly key: UsageKey; readonly value: string }
  /** Null: every account of the provider. */
  | { readonly key: 'owner'; readonly ownerProvider: string; readonly account: string | null };

export interface UsageTotalRow extends Amounts {
  start: string;
  is_estimated: boolean;
  runs: number;
  agents: number;
  found: number;
  k0?: string;
  k1?: string;
  k2?: string;
}

type Bind = (value: unknown) => string;

/** Keys that the rows have. The others follow from the agent, and are read once of each. */
const ownKeys: Readonly<Partial<Record<UsageKey, string>>> = {
  workspace: 'u.workspace',
  account: ownerName('u'),
  backend: 'u.backend',
  model: 'u.model',
  providerAccount: 'u.provider_account',
};

/** Of the agent, and of its root. A deleted agent has no name. */
const idColumns: Readonly<Partial<Record<UsageKey, string>>> = { agent: 'agent', root: 'root' };

const pathText = (id: string, tenant: string): string => `(
       SELECT a.path FROM agents a WHERE a.tenant = ${tenant} AND a.id = p.${id} AND NOT EXISTS (
         SELECT FROM deleted_agents d WHERE d.tenant = a.tenant AND d.agent = a.id)
     )`;

const labelName = (key: UsageKey): string => key.slice('label:'.length);

/** Of `p`, a row per agent. */
function keyText(key: UsageKey, tenant: string, bind: Bind): string {
  const id = idColumns[key];
  const value = id
    ? pathText(id, tenant)
    : `(SELECT l.value FROM labels l WHERE l.tenant = ${tenant} AND l.agent = p.agent AND l.key = ${bind(labelName(key))})`;
  return `coalesce(${value}, '')`;
}

/** Of `u`, a row of usage. A path names the newest agents that have it. */
function filterText(filter: UsageFilter, tenant: string, bind: Bind): string {
  if (filter.key === 'owner') {
    const account = filter.account === null ? '' : ` AND u.account = ${bind(filter.account)}`;
    return `u.owner_provider = ${bind(filter.ownerProvider)}${account}`;
  }
  const { key, value } = filter;
  const own = ownKeys[key];
  if (own) return `${own} = ${bind(value)}`;
  const id = idColumns[key];
  return id
    ? `u.${id} IN (SELECT a.id FROM agents a WHERE a.tenant = ${tenant} AND a.path = ${bind(value)} AND a.current)`
    : `EXISTS (SELECT FROM labels l WHERE l.tenant = ${tenant} AND l.agent = u.agent
         AND l.key = ${bind(labelName(key))} AND l.value = ${bind(value)})`;
}

/** Groups of a year of a large tenant would not fit into the few MiB that a statement has otherwise. */
const memoryMb = 32;

/**
 * A page of what a tenant used, in the order of time and keys. Every row that fits is read and added up for each page: the
 * range of time is limited, and the statement ends after the time that every statement has. It is planned for its values.
 */
export async function readUsage(connection: Connection, usage: UsageQuery): Promise<UsageTotalRow[]> {
  const values: unknown[] = [];
  const bind: Bind = (value) => `$${values.push(value)}`;
  const text = textOf(usage, bind);
  return query<UsageTotalRow>(connection, { text, values, memoryMb });
}

function textOf(usage: UsageQuery, bind: Bind): string {
  const { groupBy } = usage;
  const tenant = `${bind(usage.tenant)}::int`;
  const limit = `${bind(usage.limit)}::int`;
  const names = groupBy.map((_, i) => `k${i}`);
  const ownNames = names.filter((_, i) => ownKeys[groupBy[i] as UsageKey]);
  const of = ['start', ...ownNames, 'agent', ...(groupBy.includes('root') ? ['root'] : [])].join(', ');
  const sums = [
    ...usageAmounts.map((name) => `sum(${name}) AS ${name}`),
    'bool_or(is_estimated) AS is_estimated',
  ].join(', ');
  const carried = ['start', ...ownNames, 'runs', ...usageAmounts, 'is_estimated'].map((name) => `p.${name}`);
  const others = groupBy.flatMap((key, i) =>
    ownKeys[key] ? [] : [`${keyText(key, tenant, bind)} AS k${i}`],
  );
  const byKeys = ['start', ...names].join(', ');
  // Sorted after they are grouped: there are fewer then.
  const carriedByKeys = [byKeys, 'runs', 'agents', ...usageAmounts, 'is_estimated'].join(', ');
  const order = ['start', ...names.map((name) => `${name} COLLATE "C"`)].join(', ');
  const after = usage.after && [usage.after.start, ...usage.after.keys];
  const place = after?.map((value, i) => `${bind(value)}::${i === 0 ? 'timestamptz' : 'text'}`).join(', ');
  const counts = usageAmounts.map((name) => `sum(${name})${name === 'cost' ? '' : '::bigint'} AS ${name}`);
  return boundedPage({
    rows: `WITH by_run AS (
       SELECT ${of}, run, sum(runs) AS runs, ${sums} FROM (${usedText(usage, tenant, bind)}) u GROUP BY ${of}, run
     ), by_agent AS (
       SELECT ${of}, count(run) + sum(runs) AS runs, ${sums} FROM by_run GROUP BY ${of}
     ), named AS (SELECT ${[...carried, ...others].join(', ')} FROM by_agent p)
     SELECT ${carriedByKeys} FROM (
       SELECT ${byKeys}, sum(runs)::int AS runs, count(*)::int AS agents, ${counts.join(', ')},
         bool_or(is_estimated) AS is_estimated
       FROM named ${place ? `WHERE (${order}) > (${place})` : ''} GROUP BY ${byKeys} OFFSET 0
     ) s ORDER BY ${order} LIMIT ${limit} + 1`,
    bytes: ['200', ...names.map((name) => `octet_length(${name})`)].join(' + '),
    order,
    limit,
    mostBytes: limits.pageBytes,
  });
}

/**
 * The rows to add up. PostgreSQL adds large whole numbers as decimal ones, and finds the offset of a zone for each time it
 * truncates: both take longer than to read the rows.
 */
function usedText(usage: UsageQuery, tenant: string, bind: Bind): string {
  const { interval, groupBy } = usage;
  const from = `${bind(usage.from)}::timestamptz`;
  const to = `${bind(usage.to)}::timestamptz`;
  const isTotal = interval === 'total';
  const zone = isTotal ? '' : `${bind(usage.zone)}::text`;
  const own = groupBy.flatMap((key, i) => (ownKeys[key] ? [`${ownKeys[key]} AS k${i}`] : []));
  const amounts = usageAmounts.map((name) => `u.${name}${name === 'cost' ? '' : '::float8'} AS ${name}`);
  const filters = usage.filter.map((filter) => filterText(filter, tenant, bind));
  const startOf = (time: string): string => (isTotal ? from : `date_trunc('${interval}', ${time}, ${zone})`);
  const rowsIn = (tables: string, start: string, runs: string, conditions: readonly string[]): string =>
    `SELECT ${[`${start} AS start`, ...own, 'u.agent', 'u.root', runs, ...amounts, 'u.is_estimated'].join(', ')}
     FROM ${tables} WHERE ${[`u.tenant = ${tenant}`, ...conditions, ...filters].join(' AND ')}`;
  const hours = `SELECT h.hour, ${startOf('h.hour')} AS start FROM generate_series(${from}, ${to}, interval '1 hour') h (hour) OFFSET 0`;
  // A day of UTC counts as the day of that date.
  const day = isTotal ? 'u.day' : `((u.day AT TIME ZONE 'UTC') AT TIME ZONE ${zone})`;
  const inHours = rowsIn(
    `usage_hours u JOIN (${hours}) h ON h.hour = u.hour`,
    'h.start',
    'u.run, 0 AS runs',
    [`u.hour >= ${from}`, `u.hour < ${to}`],
  );
  const inDays = rowsIn('usage_days u', startOf(day), 'NULL AS run, u.runs', [
    `u.day > ${from} - interval '1 day'`,
    `u.day < ${to} + interval '1 day'`,
    `${day} >= ${from}`,
    `${day} < ${to}`,
  ]);
  return `${inHours} UNION ALL ${inDays}`;
}

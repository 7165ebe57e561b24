import { limits, type UsageInterval, type UsageKey } from '@muster/sdk/contract';
import { type Connection, query } from '../connection.ts';
import { usageAmounts } from '../save-usage.ts';
import { boundedPage } from './shared-sql.ts';

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

export interface UsageTotalRow {
  start: string;
  cost: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  unpriced_tokens: number;
  is_estimated: boolean;
  runs: number;
  agents: number;
  found: number;
  k0?: string;
  k1?: string;
  k2?: string;
}

type Bind = (value: unknown) => string;

/** `PROVIDER_CODEHOST_OAUTH` and `ada` as `codehost_oauth/ada`. */
const ownerName = "lower(substr(u.owner_provider, 10)) || '/' || u.account";

/** Keys that the rows have. The others follow from the agent, and are read once of each. */
const ownKeys: Readonly<Partial<Record<UsageKey, string>>> = {
  workspace: 'u.workspace',
  account: ownerName,
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

/**
 * A page of what a tenant used, in the order of time and keys. Every row that fits is read and added up for each page: the
 * range of time is limited, and the statement ends after the time that every statement has. It is planned for its values.
 */
export async function readUsage(connection: Connection, usage: UsageQuery): Promise<UsageTotalRow[]> {
  const values: unknown[] = [];
  const bind: Bind = (value) => `$${values.push(value)}`;
  const text = textOf(usage, bind);
  return query<UsageTotalRow>(connection, { text, values });
}

function textOf(usage: UsageQuery, bind: Bind): string {
  const tenant = `${bind(usage.tenant)}::int`;
  const range = { from: `${bind(usage.from)}::timestamptz`, to: `${bind(usage.to)}::timestamptz` };
  const zone = usage.interval === 'total' ? 'NULL' : `${bind(usage.zone)}::text`;
  const limit = `${bind(usage.limit)}::int`;
  const startOf = (time: string): string =>
    usage.interval === 'total' ? range.from : `date_trunc('${usage.interval}', ${time}, ${zone})`;
  const own = usage.groupBy.flatMap((key, i) => (ownKeys[key] ? [`${ownKeys[key]} AS k${i}`] : []));
  const ownNames = usage.groupBy.flatMap((key, i) => (ownKeys[key] ? [`k${i}`] : []));
  const filters = usage.filter.map((filter) => filterText(filter, tenant, bind));
  const amounts = usageAmounts.map((name) => `u.${name}`).join(', ');
  const used = (table: string, time: string, runs: string, conditions: readonly string[]): string =>
    `SELECT ${[`${startOf(time)} AS start`, ...own].join(', ')}, u.agent, u.root, ${runs}, ${amounts}, u.is_estimated
     FROM ${table} u WHERE ${[`u.tenant = ${tenant}`, ...conditions, ...filters].join(' AND ')}`;
  // A day of UTC counts as the day of that date.
  const day = usage.interval === 'total' ? 'u.day' : `((u.day AT TIME ZONE 'UTC') AT TIME ZONE ${zone})`;
  const inHours = [`u.hour >= ${range.from}`, `u.hour < ${range.to}`];
  const inDays = [
    `u.day > ${range.from} - interval '1 day'`,
    `u.day < ${range.to} + interval '1 day'`,
    `${day} >= ${range.from}`,
    `${day} < ${range.to}`,
  ];
  const sums = [
    ...usageAmounts.map((name) => `sum(${name})${name === 'cost' ? '' : '::bigint'} AS ${name}`),
    'bool_or(is_estimated) AS is_estimated',
  ].join(', ');
  const byRun = ['start', ...ownNames, 'agent', 'root'].join(', ');
  const keys = usage.groupBy.map((_, i) => `k${i}`);
  const others = usage.groupBy.flatMap((key, i) =>
    ownKeys[key] ? [] : [`${keyText(key, tenant, bind)} AS k${i}`],
  );
  const carried = ['start', ...ownNames, 'runs', ...usageAmounts, 'is_estimated'];
  const byKeys = ['start', ...keys].join(', ');
  const order = ['start', ...keys.map((key) => `${key} COLLATE "C"`)].join(', ');
  const after = usage.after && [usage.after.start, ...usage.after.keys];
  const place = after?.map((value, i) => `${bind(value)}::${i === 0 ? 'timestamptz' : 'text'}`).join(', ');
  return boundedPage({
    rows: `WITH by_run AS (
       SELECT ${byRun}, run, sum(runs) AS runs, ${sums} FROM (
         ${used('usage_hours', 'u.hour', 'u.run, 1 AS runs', inHours)}
         UNION ALL ${used('usage_days', day, 'NULL AS run, u.runs', inDays)}
       ) u GROUP BY ${byRun}, run
     ), by_agent AS (
       SELECT ${byRun}, sum(CASE WHEN run IS NULL THEN runs ELSE 1 END) AS runs, ${sums} FROM by_run GROUP BY ${byRun}
     ), named AS (SELECT ${[...carried.map((name) => `p.${name}`), ...others].join(', ')} FROM by_agent p)
     SELECT ${byKeys}, sum(runs)::int AS runs, count(*)::int AS agents, ${sums} FROM named
     ${place ? `WHERE (${order}) > (${place})` : ''}
     GROUP BY ${byKeys} ORDER BY ${order} LIMIT ${limit} + 1`,
    bytes: ['200', ...keys.map((key) => `octet_length(${key})`)].join(' + '),
    order,
    limit,
    mostBytes: limits.pageBytes,
  });
}

import { createHash } from 'node:crypto';
import { limits, type ReplyOf, type UsageKey, type UsageRequest } from '@muster/sdk/contract';
import type pg from 'pg';
import { invalid, isRefusal, type Refusal } from '../../domain/refusal.ts';
import { isZone, zoneProblem } from '../../lib/zone.ts';
import { hasMore } from '../../store/statements/shared-sql.ts';
import {
  readUsage,
  type UsageFilter,
  type UsageQuery,
  type UsageTotalRow,
} from '../../store/statements/usage.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import { TenantTurns } from '../batches/tenant-limits.ts';
import type { Operation } from '../operation.ts';
import { accountScope } from './identify.ts';
import type { PageTokens } from './page-tokens.ts';

const hourMs = 3_600_000;
const defaultMs = 30 * 24 * hourMs;
const last = Date.UTC(9999, 0);

/** The longest that an interval may be for the limit on their number to hold. */
const intervalMs = { hour: hourMs, day: 24 * hourMs, month: 31 * 24 * hourMs, total: last };

export interface UsageOptions {
  readonly database: pg.Pool;
  readonly tenants: Tenants;
  readonly pageTokens: PageTokens;
}

/** Where a page ends: also the range, which depends on the time of the first request. */
interface Place extends Pick<UsageQuery, 'from' | 'to'> {
  readonly after: UsageQuery['after'];
}

/** Adding up a year of a large tenant takes seconds of a database connection, so few requests do it at the same time. */
export class Usage {
  readonly #options: UsageOptions;
  readonly #ofTenant = new TenantTurns(1, 'requests for usage');
  readonly #ofNode = new TenantTurns(2, 'requests for usage');

  constructor(options: UsageOptions) {
    this.#options = options;
  }

  readonly read: Operation<'usage'> = async (caller, request) => {
    const { database, tenants, pageTokens } = this.#options;
    const { groupBy: names = [], zone = 'UTC', interval = 'day', pageSize, pageToken } = request;
    const groupBy = names as UsageKey[];
    const filter = filterOf(request.filter ?? {}, caller);
    const refused = (isZone(zone) ? null : unknownZone(zone)) ?? refuseRepeated(groupBy);
    if (refused) return refused;
    if (isRefusal(filter)) return filter;
    const range = rangeOf(request);
    if (isRefusal(range)) return range;
    const tenant = await tenants.named(request.tenant, caller);
    if (isRefusal(tenant)) return tenant;
    const list = nameOf(tenant, request);
    const opened = pageToken ? pageTokens.open(list, pageToken) : null;
    if (isRefusal(opened)) return opened;
    const place: Place = opened === null ? { ...range, after: null } : JSON.parse(opened);
    const limit = pageSize || limits.pageSize;
    const query = { ...place, tenant, zone, interval, groupBy, filter, limit };
    const rows = await this.#inTurn(tenant, () => readUsage(database, query)).catch(refuseUnknownZone(zone));
    if (isRefusal(rows)) return rows;
    const end = rows.at(-1);
    const next: Place | null =
      end && hasMore(rows) ? { ...place, after: { start: end.start, keys: keysOf(end, groupBy) } } : null;
    return {
      rows: rows.map((row) => rowOf(row, groupBy)),
      nextPageToken: next ? pageTokens.seal(list, JSON.stringify(next)) : '',
    };
  };

  #inTurn<T>(tenant: number, work: () => Promise<T>): Promise<T> {
    return this.#ofTenant.run(tenant, () => this.#ofNode.run(0, work));
  }
}

/** A page token is for the same request only. */
const nameOf = (
  tenant: number,
  { pageToken: _, pageSize: __, tenant: ___, ...request }: UsageRequest,
): string => `usage/${tenant}/${createHash('sha256').update(JSON.stringify(request)).digest('hex')}`;

function rangeOf({ from, to, interval = 'day' }: UsageRequest): Pick<Place, 'from' | 'to'> | Refusal {
  const untilMs = Math.ceil(bounded(to === undefined ? Date.now() : Date.parse(to)) / hourMs) * hourMs;
  const sinceMs = from === undefined ? untilMs - defaultMs : bounded(Date.parse(from));
  const fromMs = Math.floor(sinceMs / hourMs) * hourMs;
  if (fromMs >= untilMs)
    return invalid('from', `must be before \`to\`, ${timeOf(untilMs)}; got ${timeOf(sinceMs)}`);
  const count = Math.ceil((untilMs - fromMs) / intervalMs[interval]);
  if (count > limits.usageIntervals) {
    const text = `from ${timeOf(fromMs)} to ${timeOf(untilMs)} there are ${count} intervals; must be at most ${limits.usageIntervals}`;
    return invalid('interval', `${text}. Ask for a longer interval or a shorter time`);
  }
  return { from: timeOf(fromMs), to: timeOf(untilMs) };
}

/** What PostgreSQL can store. */
const bounded = (ms: number): number => Math.min(Math.max(ms, 0), last);
const timeOf = (ms: number): string => new Date(ms).toISOString();

const unknownZone = (zone: string): Refusal => invalid('zone', zoneProblem(zone));

/** PostgreSQL may have an older list of time zones. */
const refuseUnknownZone =
  (zone: string) =>
  (error: unknown): Refusal => {
    if ((error as { code?: string }).code === '22023') return unknownZone(zone);
    throw error;
  };

function refuseRepeated(groupBy: readonly UsageKey[]): Refusal | null {
  const i = groupBy.findIndex((key, place) => groupBy.indexOf(key) !== place);
  return i < 0
    ? null
    : invalid(`groupBy[${i}]`, `must be another one than before; got "${groupBy[i]}" again`);
}

function filterOf(
  filter: Readonly<Record<string, string>>,
  caller: Principal,
): readonly UsageFilter[] | Refusal {
  const filters: UsageFilter[] = [];
  for (const [key, value] of Object.entries(filter)) {
    if (key !== 'account') {
      filters.push({ key: key as UsageKey, value });
      continue;
    }
    const owner = accountScope(value, caller, 'filter.account');
    if (isRefusal(owner)) return owner;
    if (owner) filters.push({ key: 'owner', ...owner });
  }
  return filters;
}

const keysOf = ({ k0 = '', k1 = '', k2 = '' }: UsageTotalRow, groupBy: readonly UsageKey[]): string[] =>
  [k0, k1, k2].slice(0, groupBy.length);

const rowOf = (row: UsageTotalRow, groupBy: readonly UsageKey[]): ReplyOf<'usage'>['rows'][number] => {
  const values = keysOf(row, groupBy);
  return {
    start: row.start,
    keys: Object.fromEntries(groupBy.map((key, i) => [key, values[i] ?? ''])),
    costUsd: row.cost,
    estimated: row.is_estimated,
    inputTokens: String(row.input_tokens),
    cachedInputTokens: String(row.cached_tokens),
    outputTokens: String(row.output_tokens),
    runs: row.runs,
    agents: row.agents,
    unpricedTokens: String(row.unpriced_tokens),
  };
};

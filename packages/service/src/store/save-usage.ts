import type { UsagePart } from '@muster/sdk/contract';
import type { Usage } from '../domain/agent.ts';
import type { DomainEvent } from '../domain/events.ts';
import type { AgentChange } from '../domain/loaded-agents.ts';
import { type Connection, statement } from './connection.ts';
import { listParameters, listsOf, namesOf } from './tables.ts';

/**
 * What runs used, as rows per hour, run, model and account. They are written in the transaction that counts it in the run
 * and its agent, under the agent's lock, so that the sums agree.
 */
interface UsageRow {
  tenant: number;
  hour: string;
  agent: string;
  run: number;
  model: string;
  provider_account: string;
  root: string;
  owner_provider: string;
  account: string;
  workspace: string;
  backend: string;
  cost: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  unpriced_tokens: number;
  is_estimated: boolean;
}

const amountColumns = {
  cost: 'float8',
  input_tokens: 'bigint',
  cached_tokens: 'bigint',
  output_tokens: 'bigint',
  unpriced_tokens: 'bigint',
} as const;

export const usageAmounts = Object.keys(amountColumns) as readonly (keyof typeof amountColumns)[];

export const usageColumns = {
  tenant: 'int',
  hour: 'timestamptz',
  agent: 'uuid',
  run: 'int',
  model: 'text',
  provider_account: 'text',
  root: 'uuid',
  owner_provider: 'text',
  account: 'text',
  workspace: 'text',
  backend: 'text',
  ...amountColumns,
  is_estimated: 'boolean',
} as const satisfies Record<keyof UsageRow, string>;

/** After an `INSERT INTO table AS u`: a row that is there gets the amounts of the new one, too. */
export const addToRow = (...counts: readonly string[]): string =>
  [
    ...[...counts, ...usageAmounts].map((name) => `${name} = u.${name} + excluded.${name}`),
    'is_estimated = u.is_estimated OR excluded.is_estimated',
  ].join(', ');

const addUsage = statement<string[], never>(
  'add-usage',
  `INSERT INTO usage_hours AS u (${namesOf(usageColumns)}) SELECT ${namesOf(usageColumns, 'n')} FROM ${listsOf(usageColumns)}
   ON CONFLICT (tenant, hour, agent, run, model, provider_account) DO UPDATE SET ${addToRow()}`,
);

type CountedRow = Amounts & Pick<UsageRow, 'model' | 'provider_account'>;

/** Of one run, by model and account. */
const readCounted = statement<[tenant: number, agent: string, run: number], CountedRow>(
  'read-counted-usage',
  `SELECT model, provider_account, ${usageAmounts.map((name) => `sum(${name})::${amountColumns[name]} AS ${name}`).join(', ')}
   FROM usage_hours WHERE tenant = $1 AND agent = $2 AND run = $3 GROUP BY model, provider_account`,
);

type Spent = Extract<DomainEvent, { type: 'spent' }>;
type SpentBy = AgentChange['after']['agent'];
export type Amounts = Pick<UsageRow, (typeof usageAmounts)[number]>;
type Share = Amounts & Pick<UsageRow, 'model' | 'provider_account' | 'is_estimated'>;

/** Writes what a batch of changes used. */
export function saveUsage(connection: Connection, changes: readonly AgentChange[]): Promise<unknown>[] {
  const rows = new Map<string, UsageRow>();
  const late: [SpentBy, Spent][] = [];
  for (const { events, after } of changes)
    for (const event of events) {
      if (event.type !== 'spent') continue;
      if (event.isLate) late.push([after.agent, event]);
      else for (const row of rowsOf(after.agent, event, event.parts)) merge(rows, row);
    }
  const saved: Promise<unknown>[] = [];
  if (rows.size > 0) saved.push(insert(connection, [...rows.values()]));
  if (late.length > 0) saved.push(saveLate(connection, late));
  return saved;
}

/** The parts are those of the whole run: what of each is counted already is left out. */
async function saveLate(connection: Connection, late: readonly [SpentBy, Spent][]): Promise<void> {
  for (const [agent, event] of late) {
    const counted = await readCounted(connection, agent.tenant, agent.id, event.runId);
    const parts = event.parts.map((part) => uncounted(part, counted));
    const rows = new Map<string, UsageRow>();
    for (const row of rowsOf(agent, event, parts)) merge(rows, row);
    await insert(connection, [...rows.values()]);
  }
}

function uncounted(part: UsagePart, counted: readonly CountedRow[]): UsagePart {
  const row = counted.find((one) => one.model === part.model && one.provider_account === part.account);
  if (!row) return part;
  const left = (value: number | undefined, already: number) => Math.max(0, (value ?? 0) - already);
  return {
    ...part,
    costUsd: left(part.costUsd, row.cost),
    inputTokens: left(part.inputTokens, row.input_tokens),
    cachedInputTokens: left(part.cachedInputTokens, row.cached_tokens),
    outputTokens: left(part.outputTokens, row.output_tokens),
    unpricedTokens: left(part.unpricedTokens, row.unpriced_tokens),
  };
}

const insert = (connection: Connection, rows: readonly UsageRow[]): Promise<unknown> =>
  addUsage(connection, ...listParameters(usageColumns, rows, (name) => (row) => row[name as keyof UsageRow]));

/** A statement can't write the same row twice. */
function merge(rows: Map<string, UsageRow>, row: UsageRow): void {
  const key = JSON.stringify([row.hour, row.agent, row.run, row.model, row.provider_account]);
  const known = rows.get(key);
  if (!known) return void rows.set(key, row);
  for (const name of usageAmounts) known[name] += row[name];
  known.is_estimated ||= row.is_estimated;
}

const rowsOf = (agent: SpentBy, event: Spent, parts: readonly UsagePart[]) =>
  sharesOf(event.usage, parts, agent.settings.model ?? '').map(
    (share): UsageRow => ({
      tenant: agent.tenant,
      hour: hourOf(event.at),
      agent: agent.id,
      run: event.runId,
      root: agent.root,
      owner_provider: agent.ownerProvider,
      account: agent.account,
      workspace: agent.workspace,
      backend: agent.backend,
      ...share,
    }),
  );

const hourOf = (at: string): string => `${at.slice(0, 13)}:00:00.000Z`;

/**
 * Divides usage into that of each part, and the rest, which counts for the agent's model. Whatever the parts say, the sum is
 * the usage.
 */
export function sharesOf(usage: Usage, parts: readonly UsagePart[], model: string): Share[] {
  let left = {
    cost: usage.cost,
    input_tokens: usage.inputTokens,
    cached_tokens: usage.cachedInputTokens,
    output_tokens: usage.outputTokens,
  };
  const shares = parts.map((part): Share => {
    const taken = {
      cost: Math.min(left.cost, part.costUsd ?? 0),
      input_tokens: Math.min(left.input_tokens, part.inputTokens ?? 0),
      cached_tokens: Math.min(left.cached_tokens, part.cachedInputTokens ?? 0),
      output_tokens: Math.min(left.output_tokens, part.outputTokens ?? 0),
    };
    left = {
      cost: left.cost - taken.cost,
      input_tokens: left.input_tokens - taken.input_tokens,
      cached_tokens: left.cached_tokens - taken.cached_tokens,
      output_tokens: left.output_tokens - taken.output_tokens,
    };
    return {
      model: part.model ?? '',
      provider_account: part.account ?? '',
      unpriced_tokens: Math.min(part.unpricedTokens ?? 0, taken.input_tokens + taken.output_tokens),
      is_estimated: part.estimated ?? false,
      ...taken,
    };
  });
  shares.push({ model, provider_account: '', unpriced_tokens: 0, is_estimated: false, ...left });
  return shares.filter(isSome);
}

/** A cost that is only left from rounding is none. */
const isSome = (share: Share): boolean =>
  share.cost > 1e-12 || share.input_tokens + share.cached_tokens + share.output_tokens > 0;

import type { UsagePart } from '@muster/sdk/contract';
import type { Usage } from '../domain/agent.ts';
import type { DomainEvent } from '../domain/events.ts';
import type { AgentChange } from '../domain/loaded-agents.ts';

/**
 * What runs used, as rows per hour, run, model and account. They are written in the transaction that counts it in the run
 * and its agent, under the agent's lock, so that the sums agree.
 */
export interface UsageRow {
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

export const amountColumns = {
  cost: 'float8',
  input_tokens: 'bigint',
  cached_tokens: 'bigint',
  output_tokens: 'bigint',
  unpriced_tokens: 'bigint',
} as const;

export const usageAmounts = Object.keys(amountColumns) as readonly (keyof typeof amountColumns)[];

/** Of one run, what the rows of a model and account say. */
export type CountedRow = Amounts & Pick<UsageRow, 'model' | 'provider_account'>;

export type Spent = Extract<DomainEvent, { type: 'spent' }>;
export type SpentBy = AgentChange['after']['agent'];
export type Amounts = Pick<UsageRow, (typeof usageAmounts)[number]>;
type Share = Amounts & Pick<UsageRow, 'model' | 'provider_account' | 'is_estimated'>;

/**
 * Adds what an event says to the rows. The parts of a late report are those of the whole run: what of each is counted
 * already is left out.
 */
export function addRows(
  rows: Map<string, UsageRow>,
  agent: SpentBy,
  event: Spent,
  counted: readonly CountedRow[] = [],
): void {
  const parts = event.isLate ? event.parts.map((part) => uncounted(part, counted)) : event.parts;
  for (const row of rowsOf(agent, event, parts)) merge(rows, row);
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

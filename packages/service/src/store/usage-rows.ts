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
  const { hour, agent, run, model } = row;
  const key = `${hour} ${agent} ${run} ${model.length} ${model}${row.provider_account}`;
  const known = rows.get(key);
  if (!known) return void rows.set(key, row);
  for (const name of usageAmounts) known[name] += row[name];
  known.is_estimated ||= row.is_estimated;
}

const hourOf = (at: string): string => `${at.slice(0, 13)}:00:00.000Z`;

type Left = { -readonly [Name in keyof Usage]: Usage[Name] };

/**
 * Divides usage into that of each part, and the rest, which counts for the agent's model. Whatever the parts say, the sum is
 * the usage.
 */
function rowsOf(agent: SpentBy, event: Spent, parts: readonly UsagePart[]): UsageRow[] {
  const { cost, inputTokens, cachedInputTokens, outputTokens } = event.usage;
  const left = { cost, inputTokens, cachedInputTokens, outputTokens };
  const rows = parts.map((part) => takeRow(agent, event, part, left));
  if (left.cost > 0 || left.inputTokens + left.cachedInputTokens + left.outputTokens > 0) {
    const rest = { costUsd: left.cost, inputTokens: left.inputTokens, outputTokens: left.outputTokens };
    const { cachedInputTokens: cached } = left;
    const model = agent.settings.model ?? '';
    rows.push(takeRow(agent, event, { ...rest, cachedInputTokens: cached, model }, left));
  }
  return rows.filter(isSome);
}

/** Written out: an object of this size that is put together from others is made many times slower. */
function takeRow(agent: SpentBy, event: Spent, part: UsagePart, left: Left): UsageRow {
  const cost = Math.min(left.cost, part.costUsd ?? 0);
  const inputTokens = Math.min(left.inputTokens, part.inputTokens ?? 0);
  const cachedInputTokens = Math.min(left.cachedInputTokens, part.cachedInputTokens ?? 0);
  const outputTokens = Math.min(left.outputTokens, part.outputTokens ?? 0);
  left.cost -= cost;
  left.inputTokens -= inputTokens;
  left.cachedInputTokens -= cachedInputTokens;
  left.outputTokens -= outputTokens;
  return {
    tenant: agent.tenant,
    hour: hourOf(event.at),
    agent: agent.id,
    run: event.runId,
    model: part.model ?? '',
    provider_account: part.account ?? '',
    root: agent.root,
    owner_provider: agent.ownerProvider,
    account: agent.account,
    workspace: agent.workspace,
    backend: agent.backend,
    cost,
    input_tokens: inputTokens,
    cached_tokens: cachedInputTokens,
    output_tokens: outputTokens,
    unpriced_tokens: Math.min(part.unpricedTokens ?? 0, inputTokens + outputTokens),
    is_estimated: part.estimated ?? false,
  };
}

/** A cost that is only left from rounding is none. */
const isSome = (row: Amounts): boolean =>
  row.cost > 1e-12 || row.input_tokens + row.cached_tokens + row.output_tokens > 0;

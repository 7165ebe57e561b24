import { limits, type UsagePart } from '@muster/sdk/contract';
import type { Usage } from '../../harness/harness.ts';

export const noUsage: Usage = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, costUsd: 0 };

/** As much as JSON carries: the service accepts less, and says so. */
const most = { costUsd: 1e9, tokens: Number.MAX_SAFE_INTEGER };

type Amount = 'inputTokens' | 'cachedInputTokens' | 'outputTokens' | 'costUsd' | 'unpricedTokens';

export function sumOf(a: Usage, b: Usage): Usage {
  const parts = partsOf(a, b);
  return {
    inputTokens: sum(a, b, 'inputTokens'),
    cachedInputTokens: sum(a, b, 'cachedInputTokens'),
    outputTokens: sum(a, b, 'outputTokens'),
    costUsd: sum(a, b, 'costUsd'),
    ...(parts.length > 0 && { parts }),
  };
}

const sum = (a: Partial<Record<Amount, number | undefined>>, b: typeof a, field: Amount): number =>
  Math.min(field === 'costUsd' ? most.costUsd : most.tokens, (a[field] ?? 0) + (b[field] ?? 0));

/** An agent chooses the models of its requests: those beyond the limit share the rest. */
function partsOf(a: Usage, b: Usage): UsagePart[] {
  const parts = [...(a.parts ?? [])];
  for (const part of b.parts ?? []) {
    const i = parts.findIndex(({ model, account }) => model === part.model && account === part.account);
    const known = parts[i];
    if (known) parts[i] = sumOfParts(known, part);
    else if (parts.length < limits.usageParts) parts.push(part);
  }
  return parts;
}

const sumOfParts = (a: UsagePart, b: UsagePart): UsagePart => ({
  ...a,
  inputTokens: sum(a, b, 'inputTokens'),
  cachedInputTokens: sum(a, b, 'cachedInputTokens'),
  outputTokens: sum(a, b, 'outputTokens'),
  costUsd: sum(a, b, 'costUsd'),
  unpricedTokens: sum(a, b, 'unpricedTokens'),
  estimated: a.estimated === true || b.estimated === true,
});

import { factorOf, type Price, type Prices, priceOf } from './prices.ts';
import type { RequestSize } from './request-size.ts';

/** The most that a request can cost, and with which of its models. */
export interface MostCost {
  /** Undefined: this model has no price, or not in the mode or tier that is asked for. */
  readonly usd: number | undefined;
  readonly model: string;
}

export interface Pricing {
  readonly prices: Prices;
  /** For models whose name has no price: the model whose price applies. */
  readonly pricedAs?: Readonly<Record<string, string>> | undefined;
}

/** Of a model whose limit is not known. */
const mostOutputTokens = 128_000;
/** No model reads or writes as much: a larger limit is none. */
const mostTokens = 1e9;

/** Any of the models may answer: the dearest counts, and one without a price before all others. */
export function mostCostOf(models: readonly string[], size: RequestSize, pricing: Pricing): MostCost {
  const costs = models.map((model) => ({ model, usd: mostUsd(priceFor(model, pricing), size) }));
  const [dearest = { model: '', usd: undefined }] = costs.toSorted((a, b) => sortedBy(b) - sortedBy(a));
  return dearest;
}

const sortedBy = ({ usd = Number.POSITIVE_INFINITY }: MostCost): number => Math.min(usd, Number.MAX_VALUE);

/** As the answer of the same model will be priced. */
function priceFor(model: string, { prices, pricedAs = {} }: Pricing): Price | undefined {
  return priceOf(Object.hasOwn(pricedAs, model) ? (pricedAs[model] ?? model) : model, prices);
}

function mostUsd(price: Price | undefined, size: RequestSize): number | undefined {
  const factor = price && mostFactor(price, size);
  if (!price || factor === undefined) return undefined;
  const { inputTokens, outputLimit } = size;
  const { input, cachedInput, cacheWrite = 0, cacheWrite1h = 0, maxOutput, long } = price;
  // A provider refuses a request for more than its model can write.
  const outputTokens = Math.min(outputLimit ?? maxOutput ?? mostOutputTokens, maxOutput ?? mostTokens);
  const isLong = long !== undefined && inputTokens > long.aboveInputTokens;
  const times = isLong ? { input: long.inputTimes, output: long.outputTimes } : { input: 1, output: 1 };
  const total =
    inputTokens * Math.max(input, cachedInput, cacheWrite, cacheWrite1h) * Math.max(1, times.input) +
    outputTokens * price.output * Math.max(1, times.output);
  return (total * factor) / 1_000_000;
}

/** With `auto` the provider chooses the tier. A request without one gets the ordinary tier, but never the fast mode. */
function mostFactor(price: Price, { speed, serviceTier }: RequestSize): number | undefined {
  if (speed !== undefined && speed !== 'standard') return factorOf(price, speed);
  if (serviceTier !== 'auto') return factorOf(price, serviceTier);
  const { fast: _fast, ...tiers } = price.tiers ?? {};
  return Math.max(1, ...Object.values(tiers));
}

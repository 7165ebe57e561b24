import { readFileSync } from 'node:fs';
import type { Infer, Schema } from '@muster/sdk/contract';
import { packageFile } from '../../lib/package-file.ts';
import { validator } from '../../lib/validator.ts';

/**
 * The prices of tokens, from `prices.json` and the operator's own file. A model or a tier that is not listed has no
 * price.
 */
const amount = { type: 'number', minimum: 0, maximum: 1e6 } as const;

const price = {
  type: 'object',
  properties: {
    input: amount,
    cachedInput: amount,
    /** With the provider's default lifetime; the price of input when absent. */
    cacheWrite: amount,
    cacheWrite1h: amount,
    output: amount,
    /** The most output tokens of one answer. A budget reserves as much where a request names no limit. */
    maxOutput: { type: 'integer', minimum: 1 },
    /** Other names of the same model. */
    also: { type: 'array', items: { type: 'string' } },
    /** Snapshots, whose names end with a date, cost the same. */
    dated: { type: 'boolean' },
    /** Factors for the whole request when it has more input than this. */
    long: {
      type: 'object',
      properties: { aboveInputTokens: { type: 'integer' }, inputTimes: amount, outputTimes: amount },
      required: ['aboveInputTokens', 'inputTimes', 'outputTimes'],
      additionalProperties: false,
    },
    /** The factor of a fast mode or a service tier. */
    tiers: { type: 'object', additionalProperties: amount },
  },
  required: ['input', 'cachedInput', 'output'],
  additionalProperties: false,
} as const satisfies Schema;

const priceList = {
  type: 'object',
  properties: { models: { type: 'object', additionalProperties: price } },
  required: ['models'],
} as const satisfies Schema;

export type Price = Infer<typeof price>;
type PriceList = Infer<typeof priceList>;

export type Prices = ReadonlyMap<string, Price>;

/** The tokens of one answer, each counted once. */
export interface Tokens {
  readonly input: number;
  readonly cachedInput: number;
  readonly cacheWrite: number;
  readonly cacheWrite1h: number;
  readonly output: number;
}

const violationIn = validator(priceList);

/** The prices of the package, with the operator's own instead where there are any. */
export function readPrices(own?: unknown): Prices {
  const prices = pricesOf(JSON.parse(readFileSync(packageFile('prices.json'), 'utf8')));
  if (own === undefined) return prices;
  const violation = violationIn(own);
  if (violation) throw new Error(`MUSTER_PRICES: ${violation.field || 'the file'} ${violation.description}`);
  return new Map([...prices, ...pricesOf(own as PriceList)]);
}

function pricesOf({ models }: PriceList): Map<string, Price> {
  return new Map(
    Object.entries(models).flatMap(([name, price]) =>
      [name, ...(price.also ?? [])].map((each): [string, Price] => [each, price]),
    ),
  );
}

/** What providers call the tier of a request at its ordinary price. */
const ordinaryTiers = ['default', 'standard', 'standard_only', 'auto'];

/** How much dearer a fast mode or a service tier is; undefined when that is not known. */
export function factorOf({ tiers = {} }: Price, mode: string | undefined): number | undefined {
  if (mode === undefined || ordinaryTiers.includes(mode)) return 1;
  return Object.hasOwn(tiers, mode) ? tiers[mode] : undefined;
}

/** In USD; undefined when there is no price for the model or its tier. */
export function costOf(
  model: string,
  tokens: Tokens,
  { fast, tier }: { readonly fast: boolean; readonly tier: string | undefined },
  prices: Prices,
): number | undefined {
  const price = priceOf(model, prices);
  if (!price) return undefined;
  const factor = factorOf(price, fast ? 'fast' : tier);
  if (factor === undefined) return undefined;
  const { cacheWrite = price.input, cacheWrite1h = cacheWrite, long } = price;
  const isLong = long !== undefined && allInput(tokens) > long.aboveInputTokens;
  const input =
    tokens.input * price.input +
    tokens.cachedInput * price.cachedInput +
    tokens.cacheWrite * cacheWrite +
    tokens.cacheWrite1h * cacheWrite1h;
  const output = tokens.output * price.output;
  const total = isLong ? input * long.inputTimes + output * long.outputTimes : input + output;
  return (total * factor) / 1_000_000;
}

export const allInput = (tokens: Tokens): number =>
  tokens.input + tokens.cachedInput + tokens.cacheWrite + tokens.cacheWrite1h;

const dateSuffix = /-(\d{8}|\d{4}-\d{2}-\d{2})$/;

/** By its own name, else by that of its maker. */
export function priceOf(model: string, prices: Prices): Price | undefined {
  return makersPrice(model, prices) ?? makersPrice(withoutCloud(model), prices);
}

function makersPrice(model: string, prices: Prices): Price | undefined {
  const exact = prices.get(model);
  if (exact) return exact;
  const undated = prices.get(model.replace(dateSuffix, ''));
  return undated?.dated ? undated : undefined;
}

/** `eu.anthropic.claude-opus-4-8-20260101-v1:0` of Bedrock and `claude-opus-4-8@20260101` of Vertex. */
const withoutCloud = (model: string): string =>
  model
    .replace(/^(?:[\w-]+\.)?anthropic\./, '')
    .replace(/-v\d+(?::\d+)?$/, '')
    .replace(/@(?:default|latest)$/, '')
    .replace(/@(\d{8})$/, '-$1');

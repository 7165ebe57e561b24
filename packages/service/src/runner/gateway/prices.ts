import { readFileSync } from 'node:fs';
import type { Schema } from '@muster/sdk/contract';
import { packageFile } from '../../lib/package-file.ts';
import { validator } from '../../lib/validator.ts';

/**
 * The prices of tokens, from `prices.json` and the operator's own file. A model or a tier that is not listed has no
 * price.
 */
export interface Price {
  readonly input: number;
  readonly cachedInput: number;
  /** With the provider's default lifetime; the price of input when absent. */
  readonly cacheWrite?: number;
  readonly cacheWrite1h?: number;
  readonly output: number;
  /** Other names of the same model. */
  readonly also?: readonly string[];
  /** Snapshots, whose names end with a date, cost the same. */
  readonly dated?: boolean;
  /** Factors for the whole request when it has more input than this. */
  readonly long?: {
    readonly aboveInputTokens: number;
    readonly inputTimes: number;
    readonly outputTimes: number;
  };
  /** The factor of a fast mode or a service tier. */
  readonly tiers?: Readonly<Record<string, number>>;
}

export type Prices = ReadonlyMap<string, Price>;

/** The tokens of one answer, each counted once. */
export interface Tokens {
  readonly input: number;
  readonly cachedInput: number;
  readonly cacheWrite: number;
  readonly cacheWrite1h: number;
  readonly output: number;
}

const amount = { type: 'number', minimum: 0, maximum: 1e6 } as const;

const table = {
  type: 'object',
  properties: {
    models: {
      type: 'object',
      additionalProperties: {
        type: 'object',
        properties: {
          input: amount,
          cachedInput: amount,
          cacheWrite: amount,
          cacheWrite1h: amount,
          output: amount,
          also: { type: 'array', items: { type: 'string' } },
          dated: { type: 'boolean' },
          long: {
            type: 'object',
            properties: { aboveInputTokens: { type: 'integer' }, inputTimes: amount, outputTimes: amount },
            required: ['aboveInputTokens', 'inputTimes', 'outputTimes'],
            additionalProperties: false,
          },
          tiers: { type: 'object', additionalProperties: amount },
        },
        required: ['input', 'cachedInput', 'output'],
        additionalProperties: false,
      },
    },
  },
  required: ['models'],
} as const satisfies Schema;

const violationIn = validator(table);

interface PriceList {
  readonly models: Readonly<Record<string, Price>>;
}

/** The prices of the package, with the operator's own instead where there are any. */
export function readPrices(own?: unknown): Prices {
  const prices = pricesOf(JSON.parse(readFileSync(packageFile('prices.json'), 'utf8')));
  if (own === undefined) return prices;
  const problem = pricesProblem(own);
  if (problem) throw new Error(`MUSTER_PRICES: ${problem}`);
  return new Map([...prices, ...pricesOf(own as PriceList)]);
}

/** What is wrong with a list of prices; empty when it is valid. */
export function pricesProblem(list: unknown): string {
  const violation = violationIn(list);
  return violation ? `${violation.field || 'the file'} ${violation.description}` : '';
}

function pricesOf({ models }: PriceList): Map<string, Price> {
  return new Map(
    Object.entries(models).flatMap(([name, price]) =>
      [name, ...(price.also ?? [])].map((each): [string, Price] => [each, price]),
    ),
  );
}

/** What providers call the tier of a request at its ordinary price. */
const ordinaryTiers = ['default', 'standard', 'auto'];

/** In USD; undefined when there is no price for the model or its tier. */
export function costOf(
  model: string,
  tokens: Tokens,
  { fast, tier }: { readonly fast: boolean; readonly tier: string | undefined },
  prices: Prices,
): number | undefined {
  const price = priceOf(model, prices);
  if (!price) return undefined;
  const mode = fast ? 'fast' : tier;
  const factor = mode === undefined || ordinaryTiers.includes(mode) ? 1 : price.tiers?.[mode];
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

function priceOf(model: string, prices: Prices): Price | undefined {
  const exact = prices.get(model);
  if (exact) return exact;
  const undated = prices.get(model.replace(dateSuffix, ''));
  return undated?.dated ? undated : undefined;
}

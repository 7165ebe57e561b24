import { describe, expect, it } from 'vitest';
import type { ProtocolName } from '../accounts/account.ts';
import { readPrices } from './prices.ts';
import { checkRequest } from './provider-request.ts';
import { mostCostOf } from './request-cost.ts';
import type { RequestSize } from './request-size.ts';

const prices = readPrices({
  models: {
    plain: { input: 1, cachedInput: 0.1, output: 10 },
    limited: { input: 1, cachedInput: 0.1, output: 10, maxOutput: 1_000 },
    cached: { input: 1, cachedInput: 0.1, cacheWrite: 2, cacheWrite1h: 4, output: 10 },
    long: {
      ...{ input: 1, cachedInput: 0.1, output: 10 },
      long: { aboveInputTokens: 1_000, inputTimes: 2, outputTimes: 3 },
    },
    tiered: { input: 1, cachedInput: 0.1, output: 10, tiers: { priority: 2, flex: 0.5, fast: 6 } },
  },
});
const usual: RequestSize = {
  ...{ inputTokens: 1_000, outputLimit: 100, serviceTier: undefined, speed: undefined },
};
const mostUsd = (model: string | readonly string[], size: Partial<RequestSize> = {}, pricedAs = {}) =>
  mostCostOf([model].flat(), { ...usual, ...size }, { prices, pricedAs });

describe('the most that a request can cost', () => {
  it.each([
    ['its input and the limit of its output', 'plain', {}, 0.002],
    ['its input at the dearest price', 'cached', {}, 0.005],
    ['long input at its price', 'long', { inputTokens: 1_001 }, 0.005002],
    ['shorter input at the usual price', 'long', { inputTokens: 1_000 }, 0.002],
    ['no limit: what the model can write', 'limited', { outputLimit: undefined }, 0.011],
    ['no limit of the model either: 128,000', 'plain', { outputLimit: undefined }, 1.281],
    ['a limit beyond what the model can write', 'limited', { outputLimit: 1e6 }, 0.011],
    ['a limit of a model whose own is unknown', 'plain', { outputLimit: 1e6 }, 10.001],
    ['an absurd limit', 'plain', { outputLimit: Number.MAX_VALUE }, 10_000.001],
    ['a tier', 'tiered', { serviceTier: 'priority' }, 0.004],
    ['a cheaper tier', 'tiered', { serviceTier: 'flex' }, 0.001],
    ['a tier that the provider chooses', 'tiered', { serviceTier: 'auto' }, 0.004],
    ['the usual tier', 'tiered', { serviceTier: 'standard_only' }, 0.002],
    ['the fast mode', 'tiered', { speed: 'fast', serviceTier: 'auto' }, 0.012],
    ['the usual speed', 'tiered', { speed: 'standard' }, 0.002],
  ])('is that of %s', (_what, model, size, usd) => {
    expect(mostUsd(model, size)).toEqual({ model, usd: expect.closeTo(usd, 9) });
  });

  it('is that of the dearest model that may answer', () => {
    expect(mostUsd(['plain', 'cached'])).toMatchObject({ model: 'cached' });
    expect(mostUsd(['cached', 'unknown', 'plain'])).toEqual({ model: 'unknown', usd: undefined });
  });

  it.each([
    ['a tier', { serviceTier: 'turbo' }],
    ['a speed', { speed: 'turbo' }],
    ['a tier that objects inherit', { serviceTier: 'constructor' }],
  ])('is not known for %s without a price', (_what, size) => {
    expect(mostUsd('tiered', size)).toEqual({ model: 'tiered', usd: undefined });
  });

  it('is that of the model that the table of models names, or of the maker', () => {
    expect(mostUsd('deployment', {}, { deployment: 'plain' }).usd).toBeCloseTo(0.002);
    const named = mostUsd('claude-opus-4-8').usd;
    expect(mostUsd('eu.anthropic.claude-opus-4-8-20260101-v1:0').usd).toBe(named);
  });

  it('is not known for a request that names no model', () => {
    expect(mostUsd([]).usd).toBeUndefined();
  });
});

describe('the size of a request', () => {
  const sizeOf = (body: object, provider: ProtocolName = 'anthropic') => {
    const path = provider === 'openai' ? '/responses' : '/v1/messages';
    const whole = provider === 'openai' ? { model: 'm', store: false, ...body } : { model: 'm', ...body };
    const bytes = new TextEncoder().encode(JSON.stringify(whole)) as Uint8Array<ArrayBuffer>;
    const checked = checkRequest({ provider, path, bytes });
    if (checked.type === 'refused') throw new Error(checked.message);
    return checked;
  };
  const user = (...content: object[]) => ({ messages: [{ role: 'user', content }] });
  const image = (data: string) => ({
    type: 'image',
    source: { type: 'base64', media_type: 'image/png', data },
  });

  it('counts a token for three bytes of text', () => {
    const few = sizeOf(user({ type: 'text', text: '' })).inputTokens;
    expect(sizeOf(user({ type: 'text', text: 'größe'.repeat(300) })).inputTokens - few).toBe(700);
  });

  it('counts an image by number, not by bytes, wherever a model sees it', () => {
    const long = 'x'.repeat(300_000);
    const few = sizeOf(user(image(''))).inputTokens;
    expect(sizeOf(user(image(long))).inputTokens).toBe(few);
    expect(few).toBeGreaterThan(5_000);
    const result = { type: 'tool_result', content: [image(long), image(long)] };
    expect(sizeOf(user(result)).inputTokens).toBeLessThan(11_000);
    const output = [{ type: 'input_image', image_url: `data:image/png;base64,${long}` }];
    const call = { type: 'function_call_output', output };
    expect(sizeOf({ input: [call] }, 'openai').inputTokens).toBeLessThan(11_000);
  });

  it('counts text as text that looks like an image, and documents', () => {
    const long = 'x'.repeat(300_000);
    const call = { type: 'tool_use', name: 'draw', input: { content: [image(long)], ...image(long) } };
    expect(sizeOf(user(call)).inputTokens).toBeGreaterThan(200_000);
    const source = { type: 'base64', media_type: 'application/pdf', data: long };
    expect(sizeOf(user({ type: 'document', source })).inputTokens).toBeGreaterThan(100_000);
  });

  it.each([0, -1, '100', null, [], { a: 1 }])('has no limit of output where that is %j', (limit) => {
    expect(sizeOf({ ...user(), max_tokens: limit }).outputLimit).toBeUndefined();
    expect(sizeOf({ input: [], max_output_tokens: limit }, 'openai').outputLimit).toBeUndefined();
  });

  it('has the largest limit of the models that may answer', () => {
    expect(sizeOf({ ...user(), max_tokens: 100 }).outputLimit).toBe(100);
    const fallbacks = [{ model: 'm', max_tokens: 300 }, { model: 'm' }];
    expect(sizeOf({ ...user(), max_tokens: 100, fallbacks }).outputLimit).toBe(300);
    expect(sizeOf({ input: [], max_output_tokens: 70 }, 'openai').outputLimit).toBe(70);
  });

  it('says the tier and the speed', () => {
    const asked = { service_tier: 'priority', speed: 'fast' };
    expect(sizeOf({ ...user(), ...asked })).toMatchObject({ serviceTier: 'priority', speed: 'fast' });
  });
});

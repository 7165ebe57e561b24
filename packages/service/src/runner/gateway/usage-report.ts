import type { HarnessListener, ProviderAccess } from '../../harness/harness.ts';
import type { ChatSpan } from '../run/run-trace.ts';
import { allInput, costOf, type Prices, priceOf } from './prices.ts';
import type { AnswerUsage } from './provider-protocols.ts';

export interface UsageReportOptions extends ProviderAccess {
  readonly prices: Prices;
  readonly listener: Pick<HarnessListener, 'usage' | 'item'>;
}

/** Reports what the answers of a run used and cost. */
export class UsageReport {
  readonly #options: UsageReportOptions;
  readonly #warnedModels = new Set<string>();

  constructor(options: UsageReportOptions) {
    this.#options = options;
  }

  /** `requested` and `requestedTier` are what the request asks for: not every answer names them. */
  report(
    answered: AnswerUsage,
    requested: string,
    requestedTier: string | undefined,
    span?: Pick<ChatSpan, 'used'>,
  ): void {
    const { prices, listener } = this.#options;
    const tier = answered.tier ?? requestedTier;
    const usage = { ...answered, model: this.#pricedModel(answered.model, requested), tier };
    const costUsd = costOf(usage.model, usage.tokens, usage, prices);
    if (costUsd === undefined) this.#warnNoPrice(usage);
    const used = {
      inputTokens: allInput(usage.tokens),
      cachedInputTokens: usage.tokens.cachedInput,
      outputTokens: usage.tokens.output,
      costUsd: costUsd ?? 0,
    };
    listener.usage(used);
    span?.used(usage, used);
  }

  /**
   * The model that answered. At a cloud, whose names are its own: what the table of models says it is charged as, or the
   * requested name if that has a price.
   */
  #pricedModel(answered: string, requested: string): string {
    const { name, prices, pricedAs = {} } = this.#options;
    if (Object.hasOwn(pricedAs, requested)) return pricedAs[requested] ?? requested;
    if (name === 'anthropic' || name === 'openai') return answered || requested;
    return prices.has(requested) || !priceOf(answered, prices) ? requested : answered;
  }

  #warnNoPrice({ model, fast, tier }: AnswerUsage): void {
    const mode = fast ? ' in fast mode' : tier ? ` in the tier ${tier}` : '';
    const what = `${model || '(a model that the answer does not name)'}${mode}`;
    if (this.#warnedModels.has(what)) return;
    this.#warnedModels.add(what);
    const text = `The price of ${what} is unknown: its tokens are counted, but cost nothing. Add it to the file that MUSTER_PRICES of the runner names.`;
    this.#options.listener.item({ type: 'WARNING', text, data: { model, ...(tier && { tier }), fast } });
  }
}

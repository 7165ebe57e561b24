import type { HarnessListener, ProviderAccess } from '../../harness/harness.ts';
import type { NamedAccount } from '../accounts/provider-accounts.ts';
import { storable } from '../report-text.ts';
import type { ChatSpan } from '../run/run-trace.ts';
import { allInput, costOf, type Prices, priceOf } from './prices.ts';
import type { AnswerUsage } from './provider-protocols.ts';

export interface UsageReportOptions extends ProviderAccess {
  readonly prices: Prices;
  readonly listener: Pick<HarnessListener, 'usage' | 'item'>;
}

/** What a request asks for, because not every answer names it, and who pays for it. */
export interface MeteredRequest {
  readonly model: string;
  readonly serviceTier: string | undefined;
  readonly speed: string | undefined;
  readonly account: NamedAccount;
}

/** As much as a report may have. */
const modelLength = 256;

/** Reports what the answers of a run used and cost. */
export class UsageReport {
  readonly #options: UsageReportOptions;
  readonly #warnedModels = new Set<string>();

  constructor(options: UsageReportOptions) {
    this.#options = options;
  }

  /** Returns the cost. */
  report(answered: AnswerUsage, request: MeteredRequest, span?: Pick<ChatSpan, 'used'>): number {
    const { prices, listener } = this.#options;
    const tier = answered.tier ?? request.serviceTier;
    const model = this.#pricedModel(answered.model, request.model);
    // A part of an answer does not say its speed.
    const fast = answered.fast || (answered.estimated === true && request.speed === 'fast');
    const usage = { ...answered, model, fast, tier };
    const costUsd = costOf(usage.model, usage.tokens, usage, prices);
    if (costUsd === undefined) this.#warnNoPrice(usage);
    const used = {
      inputTokens: allInput(usage.tokens),
      cachedInputTokens: usage.tokens.cachedInput,
      outputTokens: usage.tokens.output,
      costUsd: costUsd ?? 0,
    };
    const part = {
      ...used,
      model: storable(usage.model).slice(0, modelLength),
      account: request.account.id,
      unpricedTokens: costUsd === undefined ? used.inputTokens + used.outputTokens : 0,
      estimated: request.account.isSubscription === true || answered.estimated === true,
    };
    listener.usage({ ...used, parts: [part] });
    span?.used(usage, used);
    return used.costUsd;
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
    const isModeUnknown = priceOf(model, this.#options.prices) !== undefined;
    const what = `${model || '(a model that the answer does not name)'}${isModeUnknown ? mode : ''}`;
    if (this.#warnedModels.has(what)) return;
    this.#warnedModels.add(what);
    const text = `The price of ${what} is unknown: its tokens are counted, but cost nothing. Add it to the file that MUSTER_PRICES of the runner names.`;
    this.#options.listener.item({ type: 'WARNING', text, data: { model, ...(tier && { tier }), fast } });
  }
}

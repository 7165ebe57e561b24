import type { ClientRequest } from 'node:http';
import type { Refusal } from '../../harness/harness.ts';
import type { ChatSpan } from '../run/run-trace.ts';
import { cutUsage } from './meter.ts';
import type { Call } from './provider-call.ts';
import type { ProviderEndpointOptions } from './provider-options.ts';
import type { AnswerUsage } from './provider-protocols.ts';
import { mostCostOf } from './request-cost.ts';
import { likelyInputTokens } from './request-size.ts';
import { UsageReport } from './usage-report.ts';

type Options = Pick<
  ProviderEndpointOptions,
  'name' | 'models' | 'prices' | 'pricedAs' | 'listener' | 'credit'
>;

/** Reserves what each call of a run can cost at most, and reports and settles what it has used. */
export class Spending {
  readonly #options: Options;
  readonly #report: UsageReport;

  constructor(options: Options) {
    this.#options = options;
    this.#report = new UsageReport(options);
  }

  /** Once for each call, however often it is sent. What is not used until the call ends is released then. */
  async reserve(call: Omit<Call, 'account' | 'asked'>): Promise<Refusal | undefined> {
    const { response, models } = call;
    const { usd, model } = mostCostOf(models, call, this.#options);
    const gone = new AbortController();
    const leave = (): void => gone.abort();
    response.once('close', leave);
    if (response.destroyed) leave();
    const reserved = await this.#options.credit.reserve(usd, model, gone.signal);
    response.off('close', leave);
    if (!reserved || 'refusal' in reserved) return reserved;
    call.reservation = reserved;
    // The listeners that report usage when the client leaves are prepended to this one.
    const release = (): void => reserved.settle(0);
    if (response.destroyed) release();
    else response.once('close', release);
    return undefined;
  }

  used(usage: AnswerUsage, call: Call, span: ChatSpan | undefined): void {
    const costUsd = this.#report.report(usage, call, span);
    if (call.reservation) call.reservation.settle(costUsd);
    else this.#options.credit.spent(costUsd);
  }

  /** A call whose client leaves when all of it was sent, but nothing is answered yet, pays for its input. */
  watch(call: Call, outgoing: ClientRequest, span: ChatSpan | undefined): void {
    const { response } = call;
    const leave = (): void => {
      if (!outgoing.writableFinished || outgoing.destroyed) return;
      this.used(cutUsage(undefined, likelyInputTokens(call), 0), call, span);
    };
    const unwatch = (): void => void response.off('close', leave);
    outgoing.once('response', unwatch).once('close', unwatch);
    // Before the request to the provider is destroyed.
    response.prependListener('close', leave);
  }
}

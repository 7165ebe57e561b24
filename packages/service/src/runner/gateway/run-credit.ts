import type { Credit, Refusal, Reservation } from '../../harness/harness.ts';
import { messageOf } from '../../lib/errors.ts';
import { backoffMs, faultOf, pauseUnless, unlessAborted } from '../retry.ts';

export interface CreditRequest {
  /** The whole cost of the run that is to be covered: a repeated request takes nothing more. */
  readonly upToUsd: number;
  /** The model that has no price. */
  readonly unpricedModel?: string;
}

export interface CreditReply {
  /** Up to which amount the whole cost of the run is covered. */
  readonly coveredUsd: number;
  /** No budget is above the agent. */
  readonly unlimited: boolean;
  /** Why nothing more may be spent; empty when more may be. */
  readonly refused: string;
}

export type AskCredit = (request: CreditRequest, signal: AbortSignal) => Promise<CreditReply>;

/** How long an answer counts that names no amount: then a budget may have been set or changed. */
const unlimitedMs = 30_000;
/** As much as a report may say that a run has cost. */
const largestUsd = 1e9;
/** The service counts in fractions of a dollar, which floating-point numbers can't all represent. */
const tolerance = 1e-6;

/**
 * The credit of one run. What it has cost and what its requests in progress can cost at most is always covered by what the
 * service has granted, except where a request has cost more than could be foreseen. Without the service nothing is spent.
 */
export class RunCredit implements Credit {
  readonly #ask: AskCredit;
  readonly #unlimitedMs: number;
  readonly #reserved = new Set<{ readonly mostUsd: number }>();
  #settledUsd = 0;
  #coveredUsd = 0;
  /** Until then, by model without a price; `undefined`: anything. */
  readonly #unlimitedUntilMs = new Map<string | undefined, number>();
  #refused = '';
  /** Never rejects. */
  #asking: Promise<void> | undefined;

  constructor(ask: AskCredit, options: { readonly unlimitedMs?: number } = {}) {
    this.#ask = ask;
    this.#unlimitedMs = options.unlimitedMs ?? unlimitedMs;
  }

  async reserve(
    mostUsd: number | undefined,
    model: string,
    signal: AbortSignal,
  ): Promise<Reservation | Refusal | undefined> {
    for (;;) {
      if (signal.aborted) return undefined;
      if (this.#refused !== '') return { refused: this.#refused };
      if (this.#isCovered(mostUsd, model)) return this.#hold(mostUsd ?? 0);
      this.#asking ??= this.#askFor(mostUsd, model, signal).finally(() => {
        this.#asking = undefined;
      });
      await unlessAborted(signal, this.#asking).catch(() => {});
    }
  }

  spent(costUsd: number): void {
    this.#settledUsd += costUsd;
  }

  #hold(mostUsd: number): Reservation {
    const reserved = { mostUsd };
    this.#reserved.add(reserved);
    return { settle: (costUsd) => void (this.#reserved.delete(reserved) && this.spent(costUsd)) };
  }

  #isCovered(mostUsd: number | undefined, model: string): boolean {
    if (this.#isUnlimited(undefined)) return true;
    if (mostUsd === undefined) return this.#isUnlimited(model);
    return this.#usd + mostUsd <= this.#coveredUsd + tolerance;
  }

  #isUnlimited(model: string | undefined): boolean {
    return Date.now() < (this.#unlimitedUntilMs.get(model) ?? 0);
  }

  /** What the run has cost, and what it may cost with the requests in progress. */
  get #usd(): number {
    return [...this.#reserved].reduce((usd, reserved) => usd + reserved.mostUsd, this.#settledUsd);
  }

  /** Repeats the request until the service answers it. */
  async #askFor(wantedUsd: number | undefined, model: string, signal: AbortSignal): Promise<void> {
    const upToUsd = Math.min(this.#usd + (wantedUsd ?? 0), largestUsd);
    const request = { upToUsd, ...(wantedUsd === undefined && { unpricedModel: model }) };
    for (let failures = 1; !signal.aborted; failures++) {
      try {
        return this.#take(request, await this.#ask(request, signal));
      } catch (error) {
        if (signal.aborted) return;
        if (faultOf(error) !== 'retry') {
          this.#refused = `The service grants this run no credit: ${messageOf(error)}`;
          return;
        }
      }
      await pauseUnless(signal, backoffMs(failures));
    }
  }

  #take({ upToUsd, unpricedModel }: CreditRequest, { coveredUsd, unlimited, refused }: CreditReply): void {
    const untilMs = Date.now() + this.#unlimitedMs;
    this.#coveredUsd = coveredUsd;
    this.#refused = refused;
    if (refused !== '') return;
    if (unlimited) this.#unlimitedUntilMs.set(undefined, untilMs);
    else if (unpricedModel !== undefined) this.#unlimitedUntilMs.set(unpricedModel, untilMs);
    else if (coveredUsd + tolerance < upToUsd || upToUsd >= largestUsd)
      this.#refused = `The service covers ${coveredUsd} USD of this run; it needs ${upToUsd} USD`;
  }
}

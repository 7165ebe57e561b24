import { type MusterClient, MusterError } from '@muster/sdk';
import { type CreditReply, type CreditRequest, limits } from '@muster/sdk/contract';
import type { Credit, Refusal, Reservation } from '../../harness/harness.ts';
import type { RunnerLog } from '../../lib/log.ts';
import { backoffMs, faultOf, pauseUnless, unlessAborted } from '../retry.ts';

type Asked = Pick<CreditRequest, 'upToUsd' | 'unpricedModel'>;

/** Throws when the service did not answer. */
export type AskCredit = (request: Asked, signal: AbortSignal) => Promise<CreditReply>;

const callTimeoutMs = 10_000;

export function askCredit(
  { client, runnerId, log }: { client: MusterClient; runnerId: string; log: RunnerLog },
  { agentKey, runId }: Pick<CreditRequest, 'agentKey' | 'runId'>,
): AskCredit {
  const run = { runnerId, agentKey, runId };
  return async (request, signal) => {
    const options = { signal, timeoutMs: callTimeoutMs };
    try {
      return await client.call('runnerCredit', { ...run, ...request }, options);
    } catch (error) {
      if (isOfOlderService(error)) return { coveredUsd: 0, unlimited: true, refusal: '' };
      if (faultOf(error) !== 'retry') log.warn({ ...run, err: error }, 'credit not granted');
      throw error;
    }
  };
}

/** A service of an earlier version has no budgets and does not know this path. */
const isOfOlderService = (error: unknown): boolean =>
  error instanceof MusterError &&
  error.httpStatus === 404 &&
  /^(unknown path: |there is nothing at )/.test(error.message);

/** How long an answer counts that names no amount: after that, a budget may have been set or changed. */
const unlimitedMs = limits.unlimitedCreditSeconds * 1_000;
/** As much as a run may have cost, and as a name may be long, in a request. */
const largestUsd = 1e9;
const modelLength = 256;
/** Sums of fractions of a dollar are not exact. */
const toleranceUsd = 1e-6;

/**
 * The credit of one run. What it has cost and what its requests in progress can cost at most is always covered by what the
 * service has granted, except where a request has cost more than could be foreseen. Without the service nothing is spent.
 */
export class RunCredit implements Credit {
  readonly #ask: AskCredit;
  readonly #reserved = new Set<{ readonly mostUsd: number }>();
  #settledUsd = 0;
  #coveredUsd = 0;
  /** Until then, by model without a price; `undefined`: anything. */
  readonly #unlimitedUntilMs = new Map<string | undefined, number>();
  #refusal = '';
  /** Never rejects. */
  #asking: Promise<void> | undefined;

  constructor(ask: AskCredit) {
    this.#ask = ask;
  }

  async reserve(
    mostUsd: number | undefined,
    model: string,
    signal: AbortSignal,
  ): Promise<Reservation | Refusal | undefined> {
    for (;;) {
      if (signal.aborted) return undefined;
      if (this.#refusal !== '') return { refusal: this.#refusal };
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
    return this.#usdWith(mostUsd) <= this.#coveredUsd + toleranceUsd;
  }

  #isUnlimited(model: string | undefined): boolean {
    return Date.now() < (this.#unlimitedUntilMs.get(model) ?? 0);
  }

  /** What the run may have cost after its requests in progress and one more. */
  #usdWith(mostUsd: number): number {
    const usd = [...this.#reserved].reduce((sum, reserved) => sum + reserved.mostUsd, this.#settledUsd);
    return Math.min(usd + mostUsd, largestUsd);
  }

  /** Repeats the request until the service answers it. */
  async #askFor(wantedUsd: number | undefined, model: string, signal: AbortSignal): Promise<void> {
    const upToUsd = this.#usdWith(wantedUsd ?? 0);
    const unpriced = wantedUsd === undefined && { unpricedModel: model.slice(0, modelLength) };
    for (let failures = 1; !signal.aborted; failures++) {
      try {
        const reply = await this.#ask({ upToUsd, ...unpriced }, signal);
        if (this.#take(reply, upToUsd, unpriced ? model : undefined)) return;
      } catch {
        // Until it is answered, nothing is spent.
      }
      await pauseUnless(signal, backoffMs(failures));
    }
  }

  /** Returns whether the reply answers the request. */
  #take({ coveredUsd, unlimited, refusal }: CreditReply, upToUsd: number, unpriced?: string): boolean {
    this.#refusal = refusal;
    this.#coveredUsd = coveredUsd;
    if (unlimited || unpriced !== undefined)
      this.#unlimitedUntilMs.set(unlimited ? undefined : unpriced, Date.now() + unlimitedMs);
    return refusal !== '' || unlimited || unpriced !== undefined || coveredUsd + toleranceUsd >= upToUsd;
  }
}

import type { Credit } from '../../packages/service/src/harness/harness.ts';
import { type AskCredit, RunCredit } from '../../packages/service/src/runner/gateway/run-credit.ts';

/** Of a run without a budget above it. */
export const unlimitedCredit = (): Credit =>
  new RunCredit(async () => ({ coveredUsd: 0, unlimited: true, refusal: '' }));

/** A budget over one run, and what the run has asked of it. */
export class FakeBudget {
  amountUsd: number;
  /** What it grants on top of what is asked for. */
  spareUsd = 0;
  allowsUnpriced = false;
  readonly asked: Parameters<AskCredit>[0][] = [];
  /** Called before each answer. */
  before: (signal: AbortSignal) => Promise<void> | void = () => {};

  constructor(amountUsd: number) {
    this.amountUsd = amountUsd;
  }

  readonly ask: AskCredit = async (request, signal) => {
    this.asked.push(request);
    await this.before(signal);
    const { upToUsd, unpricedModel } = request;
    if (unpricedModel !== undefined && !this.allowsUnpriced) return refusing(`${unpricedModel} has no price`);
    if (upToUsd > this.amountUsd) return refusing(spent);
    return { coveredUsd: Math.min(this.amountUsd, upToUsd + this.spareUsd), unlimited: false, refusal: '' };
  };
}

export const spent = 'The budget of the tenant is spent';
const refusing = (refusal: string) => ({ coveredUsd: 0, unlimited: false, refusal });

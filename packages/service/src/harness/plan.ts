import { limits, type PlanStatus, type PlanStep, planSummary, thousands } from '@muster/sdk/contract';
import type { HarnessListener } from './harness.ts';
import { oneLine } from './harness-text.ts';

/** By the word of the harness, without case and underscores. */
const statuses: Readonly<Record<string, PlanStatus>> = {
  pending: 'PENDING',
  inprogress: 'IN_PROGRESS',
  completed: 'COMPLETED',
};

/** Reports the plan that an agent keeps with its harness's own tool, if it has changed. */
export class PlanReporter {
  readonly #listener: Pick<HarnessListener, 'item'>;
  #last = '';

  constructor(listener: Pick<HarnessListener, 'item'>) {
    this.#listener = listener;
  }

  /** The steps come from the sandbox and may be anything. */
  update(given: readonly { readonly text: unknown; readonly status: unknown }[]): void {
    const steps = given.slice(0, limits.planSteps).map(stepOf);
    const leftOut = given.length - steps.length;
    if (leftOut > 0)
      steps[limits.planSteps - 1] = { text: `… and ${leftOut + 1} more steps`, status: 'PENDING' };
    const plan = JSON.stringify(steps);
    if (plan === this.#last) return;
    this.#last = plan;
    this.#listener.item({ type: 'PLAN', text: planSummary(steps), data: { steps } });
  }
}

function stepOf({ text, status }: { readonly text: unknown; readonly status: unknown }): PlanStep {
  const word = String(status).slice(0, 20).replace('_', '').toLowerCase();
  return {
    text: oneLine(typeof text === 'string' ? text.slice(0, 2 * limits.planStepLength) : ''),
    status: statuses[word] ?? 'PENDING',
  };
}

/** An entry that says that the conversation was replaced by its summary; a count that is not known is 0. */
export function reportCompaction(
  listener: Pick<HarnessListener, 'item'>,
  beforeTokens: number,
  afterTokens: number,
): void {
  const counts = [
    ...(beforeTokens > 0 ? [`from ${thousands(String(beforeTokens))}`] : []),
    ...(afterTokens > 0 ? [`to ${thousands(String(afterTokens))}`] : []),
  ];
  const change = counts.length > 0 ? ` ${counts.join(' ')} tokens` : '';
  listener.item({
    type: 'COMPACTION',
    text: `The context was compacted${change}.`,
    data: { ...(beforeTokens > 0 && { beforeTokens }), ...(afterTokens > 0 && { afterTokens }) },
  });
}

/** Zero for anything but a count of tokens. */
export const tokensIn = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 && value <= mostTokens ? value : 0;

/** What a report may have. */
export const mostTokens = 1e12;

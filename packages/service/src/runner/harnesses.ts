import { type Backend, type Claim, isRehearsalModel } from '@muster/sdk/contract';
import type { Harness } from '../harness/harness.ts';

/** The harnesses of a runner: the rehearsal agent always, a real one per backend it has. */
export interface Harnesses {
  readonly rehearsal: Harness;
  readonly real: Readonly<Partial<Record<Backend, Harness>>>;
  readonly rehearses: boolean;
}

export type Slot = 'real' | 'rehearsed';

/** A run counts as rehearsed when no model is behind it. */
export function slotOf(claim: Claim, rehearses: boolean): Slot {
  return rehearses || isRehearsalModel(claim.model) ? 'rehearsed' : 'real';
}

/** The harness that serves a claim, or undefined where this runner has none. */
export function harnessFor(claim: Claim, harnesses: Harnesses): Harness | undefined {
  if (slotOf(claim, harnesses.rehearses) === 'rehearsed') return harnesses.rehearsal;
  return harnesses.real[claim.backend];
}

import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { pendNow } from '../settle.ts';

/** What a runner reports that ends the wait of agents on it. */
export interface ResumeAgent {
  readonly type: 'resume';
  /** Providers and git hosts that it reached. */
  readonly reached: readonly string[];
  /** Its accounts, as `provider/fingerprint`. */
  readonly accounts: readonly string[];
}

/**
 * Ends a delay whose reason is gone: the runner reached what the batch failed to reach, or it has another account of the
 * provider than the one that was at its limit.
 */
export const resumeAgent: Decide<ResumeAgent, boolean> = (loaded, { reached, accounts }, state) => {
  const { claimableAt, reason, memory } = state.agent;
  if (claimableAt === null || claimableAt <= loaded.now) return unchanged(false);
  const { awaits, limitAccount } = memory;
  const isReached = reason === 'RETRYING' && awaits !== undefined && reached.includes(awaits);
  const hasOther =
    reason === 'PROVIDER_LIMIT' &&
    limitAccount !== undefined &&
    accounts.some((account) => account !== limitAccount && providerOf(account) === providerOf(limitAccount));
  if (!isReached && !hasOther) return unchanged(false);
  const draft = Draft.of(state, loaded.now);
  pendNow(draft, isReached ? 'RETRYING' : 'STARTING');
  return decided(loaded, true, [draft]);
};

const providerOf = (account: string): string => account.split('/', 1)[0] ?? '';

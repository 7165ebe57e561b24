import type { Phase, PhaseReason, RunOutcome, UsagePart } from '@muster/sdk/contract';
import type { Instant, Usage } from './agent.ts';
import type { Comment } from './thread.ts';

/** Who sent a command, as records name a caller. */
export interface Actor {
  readonly name: string;
  readonly keyId: string;
}

/**
 * What happened to an agent, for what lies outside of the state machine. A decision returns it with its changes, and
 * `store/subscribers.ts` turns it into rows in the same transaction.
 */
export type DomainEvent =
  | {
      readonly type: 'phaseChanged';
      readonly from: Phase;
      readonly fromReason: PhaseReason;
      readonly to: Phase;
      readonly reason: PhaseReason;
    }
  /** Somebody killed the agent of another account. */
  | { readonly type: 'killedByOther'; readonly by: Actor }
  | { readonly type: 'runEnded'; readonly runId: number; readonly outcome: RunOutcome }
  | { readonly type: 'branchPushed'; readonly repo: string; readonly branch: string }
  /** Somebody commented on a review thread in Muster, or settled it, or opened it again. */
  | {
      readonly type: 'threadAnswered';
      readonly threadId: string;
      readonly how: 'reply' | 'resolve' | 'reopen';
      /** Of a reply. */
      readonly comment: Comment | null;
      readonly at: string;
    }
  /** What is taken of a budget: reserved, or returned if it is negative. */
  | {
      readonly type: 'taken';
      readonly key: string;
      readonly usd: number;
      /** If it is reserved: the most that may be taken in all, and the beginning of the window in which. */
      readonly within: { readonly mostUsd: number; readonly startsAt: Instant } | null;
    }
  /** People may want to know it, once in each window. */
  | {
      readonly type: 'budgetNoticed';
      readonly event: 'budget.warned' | 'budget.spent';
      readonly key: string;
      readonly name: string;
      readonly startsAt: Instant;
      readonly text: string;
    }
  | { readonly type: 'waitsForBudget'; readonly key: string; readonly needUsd: number }
  /** What a run used since it was last counted. */
  | {
      readonly type: 'spent';
      readonly runId: number;
      readonly at: Instant;
      readonly usage: Usage;
      /** What its runner says of models and accounts: of this usage, or of a run that has ended, of all that it used. */
      readonly parts: readonly UsagePart[];
      readonly isLate: boolean;
    };

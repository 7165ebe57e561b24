import type { Task } from '@muster/sdk/contract';
import type { AgentState, ChildView, FollowUp, Identity, Instant, Run } from '../domain/agent.ts';
import type { StoredBudget } from '../domain/budget.ts';
import type { AgentChange, PoolKey } from '../domain/loaded-agents.ts';
import type { Policy } from '../domain/policy.ts';
import type { Thread } from '../domain/thread.ts';

/** Names a row: the tenant leads every key. */
export interface AgentKey {
  readonly tenant: number;
  readonly id: string;
}

/** Keys as the columns that a statement over many agents takes. */
export const keyColumns = (keys: readonly AgentKey[]): [tenants: number[], ids: string[]] => [
  keys.map(({ tenant }) => tenant),
  keys.map(({ id }) => id),
];

export type Wanted = { readonly identity: Identity } | { readonly key: AgentKey };

/** What an agent has in other tables. */
export interface Parts {
  /** Its undelivered follow-ups. */
  readonly queue: readonly FollowUp[];
  readonly checklist: readonly Task[];
  /** What it sees of its children: the newest of each name. */
  readonly children: readonly ChildView[];
  /** Those of its tenant and of its workspace. */
  readonly policies: readonly Policy[];
  /** All that limit it. */
  readonly budgets: readonly StoredBudget[];
}

export type Part = keyof Parts;

export interface WantedState {
  readonly want: Wanted;
  readonly parts: ReadonlySet<Part>;
}

/** An agent with its newest run, and with those parts that were wanted. */
export interface ReadState {
  readonly state: AgentState;
  readonly parts: Partial<Parts>;
}

export interface Found extends AgentKey {
  /** Index into what was wanted. */
  readonly wanted: number;
  readonly parent: string | null;
  readonly root: string;
  readonly locked: boolean;
}

export interface ReplyKey {
  readonly tenant: number;
  readonly keyId: string;
  readonly key: string;
}

export interface StoredReply extends ReplyKey {
  readonly digest: string;
  readonly reply: unknown;
}

export interface Moment {
  /** The database's clock. */
  readonly now: Instant;
  readonly closedTenants: readonly number[];
}

/** What a batch of commands needs of the store: PostgreSQL, or in the simulator a store in memory that fails at times. */
export interface AgentStore {
  transaction<T>(work: (transaction: AgentTransaction) => Promise<T>): Promise<T>;
}

/** Statements are carried out in the order of these calls: what is read after a lock was sent is read under that lock. */
export interface AgentTransaction {
  moment(): Promise<Moment>;
  lock(wanted: readonly Wanted[]): Promise<Found[]>;
  /** Every live agent below this one. */
  lockTree(key: AgentKey, root: string): Promise<{ key: AgentKey; locked: boolean }[]>;
  agents(wanted: readonly WantedState[]): Promise<ReadState[]>;
  followUps(keys: readonly (AgentKey & { readonly followUpId: string })[]): Promise<Map<string, FollowUp[]>>;
  runs(keys: readonly (AgentKey & { readonly number: number })[]): Promise<Map<string, Run[]>>;
  /** All threads of these agents; the comments of resolved ones have no text, unless they are wanted. */
  threads(
    keys: readonly AgentKey[],
    wanted: readonly string[],
  ): Promise<Map<string, ReadonlyMap<string, Thread>>>;
  liveDescendants(keys: readonly (AgentKey & { readonly root: string })[]): Promise<Map<string, number>>;
  /** One transaction at a time may claim runs in a pool that limits them; false: another one is claiming. */
  lockPools(pools: readonly PoolKey[]): Promise<boolean[]>;
  /** How many more runs there may be in those of these pools that limit them. */
  freeRuns(pools: readonly PoolKey[]): Promise<(PoolKey & { readonly freeRuns: number })[]>;
  /** One transaction at a time may store a reply under a key; false: another one is about to. */
  lockReplies(keys: readonly ReplyKey[]): Promise<boolean[]>;
  replies(keys: readonly ReplyKey[]): Promise<StoredReply[]>;
  /** Sends the writes together with COMMIT; nothing may follow in this transaction. */
  save(changes: readonly AgentChange[], replies: readonly StoredReply[], now: Instant): void;
}

/** The connection broke during COMMIT: the transaction may or may not be committed. */
export class CommitUnknownError extends Error {
  override readonly name = 'CommitUnknownError';
}

/** Another transaction has taken what this one was about to take of a budget. */
export class OverdrawnError extends Error {
  override readonly name = 'OverdrawnError';
}

/** Another node spawned an agent of this identity between the read and the write. */
export class IdentityTakenError extends Error {
  override readonly name = 'IdentityTakenError';
}

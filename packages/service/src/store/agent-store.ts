import type { Task } from '@muster/sdk/contract';
import type { AgentState, ChildView, FollowUp, Identity, Instant } from '../domain/agent.ts';
import type { Change } from '../domain/loaded-agents.ts';

/** Names a row: the tenant leads every key. */
export interface AgentKey {
  readonly tenant: number;
  readonly id: string;
}

export type Wanted = { readonly identity: Identity } | { readonly key: AgentKey };

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

/**
 * What a batch of commands needs of the store. PostgreSQL is the only store there is; the simulator puts one that
 * loses its connection, its notifications and its mind in this place.
 */
export interface AgentStore {
  transaction<T>(work: (transaction: AgentTransaction) => Promise<T>): Promise<T>;
}

export interface AgentTransaction {
  /** The database's clock. */
  now(): Promise<Instant>;
  lock(wanted: readonly Wanted[]): Promise<Found[]>;
  /** Every live agent below this one. */
  lockTree(key: AgentKey, root: string): Promise<{ key: AgentKey; locked: boolean }[]>;
  agents(keys: readonly AgentKey[]): Promise<AgentState[]>;
  followUps(keys: readonly (AgentKey & { readonly followUpId: string })[]): Promise<Map<string, FollowUp[]>>;
  queues(keys: readonly AgentKey[]): Promise<Map<string, FollowUp[]>>;
  checklists(keys: readonly AgentKey[]): Promise<Map<string, Task[]>>;
  children(keys: readonly AgentKey[]): Promise<Map<string, ChildView[]>>;
  liveDescendants(keys: readonly (AgentKey & { readonly root: string })[]): Promise<Map<string, number>>;
  /** One transaction at a time may decide what is kept under a key; false: another is about to. */
  lockReplies(keys: readonly ReplyKey[]): Promise<boolean[]>;
  replies(keys: readonly ReplyKey[]): Promise<StoredReply[]>;
  /** Writes along with the commit, which waits for it: nothing can be done in this transaction after it. */
  save(changes: readonly Change[], replies: readonly StoredReply[], now: Instant): void;
}

/** The transaction may or may not have been committed: the connection broke while it was. */
export class CommitUnknownError extends Error {
  override readonly name = 'CommitUnknownError';
}

/** Another node took the identity between our look and our write. */
export class IdentityTakenError extends Error {
  override readonly name = 'IdentityTakenError';
}

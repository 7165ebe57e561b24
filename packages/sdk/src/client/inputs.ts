import type { ListRequest, SpawnRequest } from '../contract/agent.ts';
import type { QueueRequest } from '../contract/follow-up.ts';
import type { EntryType } from '../contract/timeline.ts';
import type { AgentRef } from './agent-ref.ts';
import type { CallSettings } from './caller.ts';
import type { Int64Input } from './int64.ts';

/** A JSON Schema as an object, or as the text that the wire carries. */
export type OutputSchema = string | Readonly<Record<string, unknown>>;

export interface SpawnInput extends Omit<SpawnRequest, 'agentId' | 'agent' | 'outputSchema'> {
  /** Its name, below its parent's; without one the service makes one up. */
  readonly path?: AgentRef | undefined;
  readonly outputSchema?: OutputSchema | undefined;
}

export interface SpawnSettings extends CallSettings {
  /** Your own, to repeat the spawn from another process; else the client mints one per call. */
  readonly idempotencyKey?: string | undefined;
}

export interface FollowUpInput
  extends Omit<QueueRequest, 'agentId' | 'agent' | 'deliverAt' | 'outputSchema'> {
  readonly persona?: string | undefined;
  readonly deliverAt?: Date | string | undefined;
  readonly outputSchema?: OutputSchema | undefined;
}

export interface ListInput extends Omit<ListRequest, 'parentId' | 'endedSince'> {
  /** Whose children, or with `allDepths` everything below it; without it root agents, or all. */
  readonly parent?: AgentRef | undefined;
  readonly endedSince?: Date | string | undefined;
}

export interface TimelineInput extends CallSettings {
  readonly after?: Int64Input | undefined;
  readonly before?: Int64Input | undefined;
  readonly limit?: number | undefined;
  /** Only entries of these types. */
  readonly types?: readonly EntryType[] | undefined;
}

export type NewestInput = Omit<TimelineInput, 'before' | 'after'> & { readonly limit: number };

export interface WaitSettings {
  readonly signal?: AbortSignal | undefined;
}

export interface WaitInput extends WaitSettings {
  /** Until this message was answered. */
  readonly followUpId?: string | undefined;
  /** Until this run has ended. */
  readonly runId?: Int64Input | undefined;
  readonly timeoutSeconds?: number | undefined;
}

export interface WaitManyInput extends WaitSettings {
  /** Until all of them need attention, not the first. */
  readonly all?: boolean | undefined;
  readonly timeoutSeconds?: number | undefined;
}

export interface StreamSettings extends WaitSettings {
  /** Told each time that the stream has been opened, the first time and after each cut. */
  readonly onOpen?: (() => void) | undefined;
}

export interface ListStreamSettings extends StreamSettings {
  /** Told each time that everything there is has been shown, the first time and after each cut. */
  readonly onWhole?: (() => void) | undefined;
}

/** Of a single call without any help: sent once, and bounded by the signal alone. */
export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
}

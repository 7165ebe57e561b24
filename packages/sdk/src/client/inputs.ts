import type { ListRequest, SpawnRequest } from '../contract/agent.ts';
import type { QueueRequest } from '../contract/follow-up.ts';
import type { AgentId } from '../contract/identity.ts';
import type { BodyOf } from '../contract/routes.ts';
import type { EntryType, TimelinePartial } from '../contract/timeline.ts';
import type { CallSettings } from './caller.ts';
import { type AgentRef, agentIdOf, type Int64Input } from './values.ts';

/** A JSON Schema as an object or as text. */
export type OutputSchema = string | Readonly<Record<string, unknown>>;

export interface SpawnInput extends Omit<SpawnRequest, 'agentId' | 'agent' | 'outputSchema'> {
  /** The agent's path; without one the service generates a name. */
  readonly path?: AgentRef | undefined;
  readonly outputSchema?: OutputSchema | undefined;
}

export interface SpawnSettings extends CallSettings {
  /** Set it to repeat the spawn from another process; by default the client generates one per call. */
  readonly idempotencyKey?: string | undefined;
}

export interface FollowUpInput
  extends Omit<QueueRequest, 'agentId' | 'agent' | 'deliverAt' | 'outputSchema'> {
  readonly persona?: string | undefined;
  readonly deliverAt?: Date | string | undefined;
  readonly outputSchema?: OutputSchema | undefined;
}

export interface ListInput extends Omit<ListRequest, 'parentId' | 'endedSince'> {
  /** Lists its children, or with `allDepths` all agents below it; without it root agents, or all agents. */
  readonly parent?: AgentRef | undefined;
  readonly endedSince?: Date | string | undefined;
}

export interface TimelineInput extends CallSettings {
  readonly after?: Int64Input | undefined;
  readonly before?: Int64Input | undefined;
  readonly limit?: number | undefined;
  /** Only entries of these types. */
  readonly types?: readonly EntryType[] | undefined;
  /** Only entries whose text contains this, in upper or lower case. */
  readonly text?: string | undefined;
}

export type NewestInput = Omit<TimelineInput, 'before' | 'after'> & { readonly limit: number };

export interface WaitSettings {
  readonly signal?: AbortSignal | undefined;
}

/** With `followUpId` until this message is answered, with `runId` until this run has ended. */
export type WaitInput = WaitSettings & Omit<BodyOf<'wait'>, 'agentId'>;

export type RetryManyInput = readonly AgentRef[] | Omit<BodyOf<'retryMany'>, 'agentIds'>;

/** With `all` until all of them need attention, not the first. */
export type WaitManyInput = WaitSettings & Omit<BodyOf<'waitMany'>, 'agentIds' | 'below'>;

export interface StreamSettings extends WaitSettings {
  /** Called each time the stream is opened: at first and after each reconnection. */
  readonly onOpen?: (() => void) | undefined;
}

export interface TimelineStreamSettings extends StreamSettings {
  /** The entry after which the stream begins. */
  readonly after?: Int64Input | undefined;
  readonly onPartial?: ((partial: TimelinePartial) => void) | undefined;
}

export interface ListStreamSettings extends StreamSettings {
  /** Called each time the whole list was yielded: at first and after each reconnection. */
  readonly onWhole?: (() => void) | undefined;
  /** Called for each agent that the list does not have any more: it was deleted, or ended too long ago. */
  readonly onGone?: ((agentId: AgentId) => void) | undefined;
}

/** For `call`: the request is sent once, and only the signal limits it. */
export interface CallOptions {
  readonly signal?: AbortSignal;
  /** For the whole reply; without it only the signal ends the wait. */
  readonly timeoutMs?: number;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  /** The body of a route that takes bytes. */
  readonly upload?: Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

export const schemaText = (schema: OutputSchema | undefined): string | undefined =>
  typeof schema === 'object' ? JSON.stringify(schema) : schema;

export const timeText = (time: Date | string | undefined): string | undefined =>
  typeof time === 'object' ? time.toISOString() : time;

export const listBody = ({ parent, endedSince, ...filter }: ListInput): ListRequest => ({
  ...filter,
  endedSince: timeText(endedSince),
  parentId: parent === undefined ? undefined : agentIdOf(parent),
});

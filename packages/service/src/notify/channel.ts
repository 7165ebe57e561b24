import type { AgentStatus, NotificationEvent } from '@muster/sdk/contract';
import type { EventType } from '../store/statements/events.ts';

/** What is sent to one target: an event, a digest of several, or a test. Values of secrets are masked in all its texts. */
export interface Message {
  /** The same in every attempt. */
  readonly id: string;
  readonly type: EventType | 'digest' | 'test';
  readonly at: string;
  /** What happened to what, in one line. */
  readonly title: string;
  /** What the agent asks, or what to know; may have several lines, or none. */
  readonly text: string;
  /** The page that shows it, or another site's page about it. */
  readonly url: string;
  readonly agent: MessageAgent | null;
  readonly digest: Digest | null;
}

/** The agent as it is when the message is sent. */
export type MessageAgent = Pick<
  AgentStatus,
  'agentId' | 'phase' | 'phaseReason' | 'phaseSince' | 'dashboardUrl'
> & {
  /** Never changes, and no other agent has it. */
  readonly key: string;
  readonly needsInput: string | null;
};

export interface Digest {
  readonly total: number;
  /** How many of each type. */
  readonly counts: readonly (readonly [type: NotificationEvent, count: number])[];
  /** Some of them, the newest first. */
  readonly messages: readonly Message[];
}

/** Whom a message is sent to, as `notification_targets` has it. */
export interface Target<Settings = unknown> {
  readonly tenant: number;
  readonly name: string;
  readonly type: string;
  /** As the notification names it, `ada` or `codehost_oauth/ada`; empty if it is for all. */
  readonly account: string;
  readonly settings: Settings;
}

export interface Sent {
  readonly state: 'SENT' | 'DROPPED';
  /** What to know of it, or why it need not be sent; empty if there is nothing to say. */
  readonly note: string;
}

export const isSent: Sent = { state: 'SENT', note: '' };

/** How messages reach targets of one type. */
export interface Channel<Settings = unknown> {
  /**
   * Sends a message, or says that it need not be sent. An error says that it was not sent, or that this is
   * not known: a `HostError` that is `refused` is not tried again, others are, and a `GoneError` ends the target.
   */
  send(target: Target<Settings>, message: Message): Promise<Sent>;
  /** The target is gone, and gets no more messages. */
  end(target: Target<Settings>, reason: string): Promise<void>;
}

/** There is nobody there any more. */
export class GoneError extends Error {
  override readonly name = 'GoneError';
}

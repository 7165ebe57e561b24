import type pg from 'pg';
import type { Metrics } from '../lib/metrics.ts';
import { type DueItem, postponeItem, settleItem } from '../store/statements/outbox.ts';
import { HostError } from './host-error.ts';
import type { TenantMasks } from './tenant-masks.ts';
import { retryMs, type Worker } from './work-loop.ts';

/** Who sends the items of a topic. */
export interface Topic {
  /**
   * Sends an item, with texts in which the values of secrets are masked. Returns the receiver's id of what was sent, empty
   * if it has none; null if there was nothing to do.
   */
  send(item: DueItem, masked: (text: string) => string): Promise<string | null>;
  /** When to try again after this error, if the topic has its own rule for it. */
  postponed?(item: DueItem, error: Error): Postponed | null;
  /** It is tried again later. */
  waits?(item: DueItem, error: Error): Promise<unknown>;
  /** It was sent. If this fails, it stays so. */
  sent?(item: DueItem): Promise<unknown>;
  /** It is not tried again. */
  givenUp(item: DueItem, reason: string): Promise<unknown>;
}

export interface Postponed {
  /** QUEUED: it is certain that it was not sent. */
  readonly state: DueItem['state'];
  readonly reason: string;
  readonly delayMs: number;
}

export interface OutboxOptions {
  readonly database: pg.Pool;
  readonly metrics: Metrics;
  readonly topics: Readonly<Record<string, Topic>>;
  readonly masks: TenantMasks;
}

/** An item is given up after this time. */
export const mostAgeMs = 3 * 24 * 3_600_000;

/** Sends what waits in the outbox, each item by its topic, and tries again for as long as that may help. */
export class Outbox implements Worker<DueItem> {
  readonly #options: OutboxOptions;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  async work(item: DueItem): Promise<void> {
    const { topics } = this.#options;
    const topic = topics[item.topic];
    try {
      // A later build may have written it.
      if (!topic) throw new Error(`this version of Muster does not send items of the topic ${item.topic}`);
      const postedId = await topic.send(item, await this.#options.masks.of(item.tenant));
      const state = postedId === null ? 'DROPPED' : 'SENT';
      await this.#settle(item, state, postedId ?? '', '');
    } catch (error) {
      return this.#failed(item, error as Error);
    }
    await topic.sent?.(item);
  }

  async #failed(item: DueItem, error: Error): Promise<void> {
    const postponed = this.#options.topics[item.topic]?.postponed?.(item, error) ?? byDefault(item, error);
    if (!postponed) return this.giveUp(item, shortReason(error));
    const { state, reason, delayMs } = postponed;
    await postponeItem(this.#options.database, item.tenant, item.id, state, reason, delayMs);
    await this.#options.topics[item.topic]?.waits?.(item, error);
  }

  async giveUp(item: DueItem, reason: string): Promise<void> {
    await this.#settle(item, 'FAILED', '', reason);
    await this.#options.topics[item.topic]?.givenUp(item, reason);
  }

  async #settle(
    { tenant, id }: DueItem,
    state: 'SENT' | 'DROPPED' | 'FAILED',
    postedId: string,
    reason: string,
  ): Promise<void> {
    const { database, metrics } = this.#options;
    await settleItem(database, tenant, id, state, postedId, reason);
    metrics.add('muster_outbox_settled_total', { state });
  }
}

export const ageMs = ({ created_at }: DueItem): number => Date.now() - Date.parse(created_at);

export const shortReason = ({ message }: Error): string => message.slice(0, 1000);

function byDefault(item: DueItem, error: Error): Postponed | null {
  const kind = error instanceof HostError ? error.kind : 'unknown';
  if (ageMs(item) > mostAgeMs || kind === 'refused') return null;
  const reason = shortReason(error);
  if (error instanceof HostError && kind === 'limited')
    return { state: item.state, reason, delayMs: error.retryAfterMs };
  return { state: 'SENDING', reason, delayMs: retryMs(item.attempts) };
}

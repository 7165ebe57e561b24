import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Metrics } from '../lib/metrics.ts';
import {
  type DueDelivery,
  postponeDelivery,
  type RecipientKind,
  recipientIn,
  settleDelivery,
} from '../store/statements/deliveries.ts';
import { HostError } from '../work/host-error.ts';
import { retryMs, type Worker } from '../work/work-loop.ts';

/** Why a delivery can't take effect now. It is tried again. */
export class NotNowError extends Error {
  override readonly name: string = 'NotNowError';
}

export type Outcome =
  | { readonly state: 'DONE' | 'IGNORED' | 'FAILED'; readonly reason: string; readonly agent?: string }
  /** It is processed again after this time. */
  | { readonly state: 'LATER'; readonly afterMs: number };

/** What the list of deliveries says about one: its own names of its event and subject. */
export interface Named {
  event: string;
  subject: string;
}

/** Lets a delivery take effect. Processing one again has no further effect. */
export type Effect = (row: DueDelivery, name: string, named: Named) => Promise<Outcome>;

export interface ProcessorOptions {
  readonly database: pg.Pool;
  readonly metrics: Metrics;
  readonly effects: Readonly<Record<RecipientKind, Effect>>;
}

const retryDaysMs = limits.deliveryRetryDays * 24 * 3_600_000;

/** Processes deliveries, each until it has taken effect, has none, or has failed for too long. */
export class Processor implements Worker<DueDelivery> {
  readonly #options: ProcessorOptions;

  constructor(options: ProcessorOptions) {
    this.#options = options;
  }

  async work(row: DueDelivery): Promise<void> {
    const { database, effects } = this.#options;
    const key = [row.tenant, row.integration, row.id] as const;
    const named = { event: row.event, subject: '' };
    try {
      const { kind, name } = recipientIn(row.integration);
      const outcome = await effects[kind](row, name, named);
      if (outcome.state === 'LATER')
        return void (await postponeDelivery(database, ...key, '', outcome.afterMs));
      await this.#settle(row, named, outcome);
    } catch (error) {
      const reason = (error as Error).message;
      const isOld = Date.parse(row.received_at) + retryDaysMs < Date.now();
      const isOfHost = error instanceof HostError;
      if (isOfHost && error.status === 404) {
        await this.#settle(row, named, { state: 'IGNORED', reason });
      } else if (isOld) {
        await this.#settle(row, named, { state: 'FAILED', reason });
      } else {
        const waitMs = isOfHost ? error.retryAfterMs : 0;
        await postponeDelivery(
          database,
          ...key,
          reason.slice(0, 1000),
          Math.max(waitMs, retryMs(row.attempts)),
        );
      }
      if (!isOfHost && !(error instanceof NotNowError)) throw error;
    }
  }

  async giveUp(row: DueDelivery, reason: string): Promise<void> {
    await this.#settle(row, { event: row.event, subject: '' }, { state: 'FAILED', reason });
  }

  async #settle(
    row: DueDelivery,
    { event, subject }: Named,
    { state, reason, agent = row.agent ?? undefined }: Exclude<Outcome, { state: 'LATER' }>,
  ): Promise<void> {
    const { database, metrics } = this.#options;
    const { tenant, integration, id } = row;
    const given = [event, subject, reason.slice(0, 1000), agent ?? null] as const;
    await settleDelivery(database, tenant, integration, id, state, ...given);
    metrics.add('muster_deliveries_settled_total', { state });
  }
}

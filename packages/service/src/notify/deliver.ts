import { limits, type NotificationDocument } from '@muster/sdk/contract';
import type pg from 'pg';
import { spread } from '../lib/back-off.ts';
import type { Metrics } from '../lib/metrics.ts';
import {
  dropPassed,
  dropWaiting,
  endLook,
  makeDigest,
  markSending,
  postponeDelivery,
  readWaiting,
  settleDelivery,
  type TargetRow,
  type WaitingRow,
} from '../store/statements/notifications.ts';
import { HostError } from '../work/host-error.ts';
import { shortReason } from '../work/outbox.ts';
import type { TenantMasks } from '../work/tenant-masks.ts';
import type { Worker } from '../work/work-loop.ts';
import { type Channel, GoneError } from './channel.ts';
import { type Composer, isUnneeded } from './compose.ts';
import { quietUntil } from './quiet-hours.ts';

export interface DelivererOptions {
  readonly database: pg.Pool;
  readonly composer: Composer;
  readonly masks: TenantMasks;
  readonly channels: Readonly<Record<string, Channel>>;
  readonly metrics: Metrics;
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** After failed attempts, as Standard Webhooks recommend. */
export const retryDelaysMs: readonly number[] = [
  ...[5_000, 5 * minuteMs, 30 * minuteMs],
  ...[2, 5, 10, 14, 20, 24].map((hours) => hours * hourMs),
];

const passed = 'the agent went on before it was sent';
const paused = 'the notification is paused';

type Outcome = 'sent' | 'dropped' | 'failed' | 'postponed';

/** What a target has received lately, and when it may get more. */
interface Pace {
  recent: string[];
  digestAt: string | null;
  heldUntil: string | null;
  notBefore: string | null;
}

/**
 * Sends what waits for a target: one message at a time, so that they keep their order, and a target that does not answer
 * takes one place of its tenant. In a minute, a target gets some messages, and one digest of what there is beyond.
 *
 *   events ──fan-out──▶ QUEUED ──▶ SENDING ──▶ SENT
 *                         │  ▲        │
 *         passed, paused  │  └────────┤ tried again: 5 s … 24 h
 *                         ▼           ▼
 *                      DROPPED      FAILED
 */
export class Deliverer implements Worker<TargetRow> {
  readonly #options: DelivererOptions;

  constructor(options: DelivererOptions) {
    this.#options = options;
  }

  async work(target: TargetRow): Promise<void> {
    const { tenant, name, asked } = target;
    const nowMs = Date.now();
    const pace: Pace = {
      recent: target.recent.filter((time) => Date.parse(time) > nowMs - minuteMs),
      digestAt: target.digest_at,
      heldUntil: target.held_until,
      notBefore: null,
    };
    const { quietHours } = (target.settings ?? {}) as Pick<NotificationDocument, 'quietHours'>;
    const quietMs = quietUntil(quietHours, nowMs);
    if (target.paused) await this.#drop(target, paused, 0);
    else if (quietMs !== null) pace.heldUntil = pace.notBefore = new Date(quietMs).toISOString();
    else await this.#send(target, pace);
    await endLook(
      this.#options.database,
      ...([tenant, name, asked, pace.recent, pace.digestAt, pace.heldUntil, pace.notBefore] as const),
    );
  }

  /** Sends a test now, whatever else waits. It is not tried again. */
  async test(target: TargetRow, row: WaitingRow): Promise<void> {
    try {
      const message = await this.#options.composer.compose(target.tenant, row);
      if (isUnneeded(message)) return await this.#settle(target, row, 'DROPPED', message.unneeded);
      const { state, note } = await this.#channelOf(target).send(target, message);
      await this.#settle(target, row, state, note);
    } catch (error) {
      if (!(error instanceof HostError || error instanceof GoneError)) throw error;
      const masked = await this.#options.masks.of(target.tenant);
      await this.#settle(target, row, 'FAILED', masked(shortReason(error)));
    }
  }

  /** What it was to send has ended the process several times. */
  async giveUp(target: TargetRow, reason: string): Promise<void> {
    const { tenant, name, asked, recent, digest_at, held_until } = target;
    await this.#drop(target, reason, 0);
    await endLook(this.#options.database, tenant, name, asked, recent, digest_at, held_until, null);
  }

  async #send(target: TargetRow, pace: Pace): Promise<void> {
    const { database } = this.#options;
    const { tenant, name, type } = target;
    await this.#drop(
      target,
      `more than ${limits.notificationsWaiting} events waited`,
      limits.notificationsWaiting,
    );
    for (let isGoing = true; isGoing; ) {
      const rows = await dropPassed(database, tenant, name, passed);
      this.#count(type, 'dropped', rows.length);
      const [next] = await readWaiting(database, tenant, name);
      if (!next) {
        pace.heldUntil = null;
        return;
      }
      isGoing =
        next.type === 'digest'
          ? await this.#attempt(target, next, pace)
          : await this.#paced(target, next, pace);
    }
  }

  /** Sends the next message if the target may get one more, and else makes a digest of all that wait. */
  async #paced(target: TargetRow, next: WaitingRow & { total: number }, pace: Pace): Promise<boolean> {
    const free = limits.notificationsPerMinute - pace.recent.length;
    const isDigest = next.total > (pace.heldUntil === null ? Math.max(1, free) : 1);
    if (!isDigest && free > 0) return this.#attempt(target, next, pace);
    const lastMs = Date.parse((isDigest ? pace.digestAt : pace.recent[0]) ?? '');
    if (lastMs + minuteMs > Date.now()) {
      pace.notBefore = new Date(lastMs + minuteMs).toISOString();
      return false;
    }
    await makeDigest(this.#options.database, target.tenant, target.name);
    pace.digestAt = new Date().toISOString();
    pace.heldUntil = null;
    return true;
  }

  /** Whether the target answered, so that it may get the next one. */
  async #attempt(target: TargetRow, row: WaitingRow, pace: Pace): Promise<boolean> {
    const { database, composer } = this.#options;
    const message = await composer.compose(target.tenant, row);
    if (isUnneeded(message)) {
      await this.#settle(target, row, 'DROPPED', message.unneeded);
      return true;
    }
    await markSending(database, target.tenant, row.id);
    pace.recent.push(new Date().toISOString());
    try {
      const { state, note } = await this.#channelOf(target).send(target, message);
      if (state === 'DROPPED') pace.recent.pop();
      await this.#settle(target, row, state, note);
      return true;
    } catch (error) {
      return this.#failed(target, row, error as Error);
    }
  }

  async #failed(target: TargetRow, row: WaitingRow, error: Error): Promise<boolean> {
    const { database, masks } = this.#options;
    const masked = await masks.of(target.tenant);
    const reason = masked(shortReason(error));
    if (error instanceof GoneError) {
      await this.#settle(target, row, 'FAILED', reason);
      await this.#channelOf(target).end(target, reason);
      return false;
    }
    const delayMs = retryDelaysMs[row.attempts];
    const isRefused = error instanceof HostError && error.kind === 'refused';
    if (delayMs === undefined || isRefused) {
      await this.#settle(target, row, 'FAILED', reason);
      return isRefused;
    }
    const askedMs = error instanceof HostError ? error.retryAfterMs : 0;
    await postponeDelivery(database, target.tenant, row.id, reason, Math.max(spread(delayMs), askedMs));
    this.#count(target.type, 'postponed', 1);
    return false;
  }

  #channelOf({ type }: TargetRow): Channel {
    const channel = this.#options.channels[type];
    // A later build may have written it.
    if (!channel) throw new Error(`this version of Muster does not send notifications of the type ${type}`);
    return channel;
  }

  async #drop(target: TargetRow, reason: string, kept: number): Promise<void> {
    const rows = await dropWaiting(this.#options.database, target.tenant, target.name, reason, kept);
    this.#count(target.type, 'dropped', rows.length);
  }

  async #settle(
    { tenant, type }: TargetRow,
    { id }: WaitingRow,
    state: 'SENT' | 'FAILED' | 'DROPPED',
    reason: string,
  ): Promise<void> {
    await settleDelivery(this.#options.database, tenant, id, state, reason);
    this.#count(type, ({ SENT: 'sent', FAILED: 'failed', DROPPED: 'dropped' } as const)[state], 1);
  }

  #count(type: string, outcome: Outcome, count: number): void {
    if (count > 0) this.#options.metrics.add('muster_notifications_total', { type, outcome }, count);
  }
}

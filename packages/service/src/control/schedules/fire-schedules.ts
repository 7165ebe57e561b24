import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { isRefusal } from '../../domain/refusal.ts';
import { mintId } from '../../lib/ids.ts';
import type { Log } from '../../lib/log.ts';
import type { Metrics } from '../../lib/metrics.ts';
import { inTransaction } from '../../store/connection.ts';
import { recordEvents } from '../../store/statements/events.ts';
import {
  advanceSchedule,
  beginFire,
  type DueSchedule,
  type NewFire,
  noteEffect,
  postponeFire,
  recordFire,
  type ScheduleRow,
} from '../../store/statements/schedules.ts';
import { actingCaller, mayNotAct } from '../access/acting-caller.ts';
import { type Fire, type Started, type StartOptions, startWork } from './start-work.ts';
import {
  dueMs,
  durationText,
  lateBy,
  missedAt,
  type Timing,
  timesAfter,
  timesBetween,
  timingOf,
} from './timing.ts';

export interface FireOptions extends StartOptions {
  readonly database: pg.Pool;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** What became of a scheduled time. */
type Settled = Pick<NewFire, 'outcome' | 'reason' | 'agent' | 'followUpId'>;

const waitMs = 15_000;
const closedMs = 60_000;
const nothing = { agent: null, followUpId: '' } as const;

/**
 * Fires schedules that are due. `schedules.scheduled_at` is the time that comes next, and one transaction replaces it with
 * the time after it and records what became of it. Before that, the fire has its effect: a message or an agent whose id is
 * the same in every attempt. So a node that dies at any moment leaves a fire that another node completes, once.
 *
 *   claim ─▶ beginFire ─▶ missed? ──▶ record SKIPPED, go to the time that fires
 *                            │
 *                            └─▶ startWork ──▶ record FIRED, SKIPPED or FAILED, go to the next time
 *                                    │
 *                                    └─▶ its agent is busy: look again later
 */
export class FireSchedules {
  readonly #options: FireOptions;

  constructor(options: FireOptions) {
    this.#options = options;
  }

  async work({ tenant, name }: DueSchedule): Promise<void> {
    const { database } = this.#options;
    const [row] = await beginFire(database, tenant, name, mintId());
    if (!row?.scheduled_at) return;
    const scheduledAt = row.scheduled_at;
    if (row.is_closed)
      return void (await postponeFire(database, tenant, name, scheduledAt, closedMs, row.is_waiting));
    const timing = timingOf(row.document);
    if (!timing) return void (await advanceSchedule(database, tenant, name, scheduledAt, null, null, 0, ''));
    const [scheduledMs, nowMs] = [Date.parse(scheduledAt), Date.parse(row.now)];
    // It was written since it was claimed.
    if (dueMs(timing, name, scheduledMs) > nowMs) return;
    const missed = row.is_waiting
      ? null
      : missedAt(timing, name, scheduledMs, nowMs, limits.scheduleMissedFires);
    if (!missed) return this.#fire(row, timing, scheduledMs, nowMs);
    const { reason, times, nextMs } = missed;
    await this.#settle(row, timing, { ...nothing, outcome: 'SKIPPED', reason }, { nextMs, times });
    if (nextMs !== null && dueMs(timing, name, nextMs) <= nowMs) await this.work({ tenant, name });
  }

  /** It has ended the process several times. */
  async giveUp({ tenant, name }: DueSchedule, reason: string): Promise<void> {
    const [row] = await beginFire(this.#options.database, tenant, name, mintId());
    const timing = row && timingOf(row.document);
    if (timing)
      await this.#settle(row, timing, { ...nothing, outcome: 'FAILED', reason }, { paused: reason });
  }

  async #fire(row: ScheduleRow, timing: Timing, scheduledMs: number, nowMs: number): Promise<void> {
    const { tenant, name, scheduled_at: scheduledAt, is_waiting: hasWaited } = row;
    const caller = await actingCaller(
      this.#options.database,
      tenant,
      String(row.document.createdBy ?? ''),
      `schedule/${name}`,
    );
    if (mayNotAct(caller)) {
      const paused = caller.mayNotAct;
      return this.#settle(row, timing, { ...nothing, outcome: 'SKIPPED', reason: paused }, { paused });
    }
    const started = await startWork(this.#options, caller, fireOf(row, scheduledMs));
    if (!isRefusal(started) && started.type === 'waits')
      return void (await postponeFire(this.#options.database, tenant, name, scheduledAt ?? '', waitMs, true));
    // A conflict with another transaction, or a database that does not answer: it is tried again.
    if (isRefusal(started) && (started.status === 'UNAVAILABLE' || started.status === 'ABORTED'))
      throw new Error(started.message);
    const settled = settledOf(started);
    const late = lateBy(timing, name, scheduledMs, nowMs);
    const why = hasWaited ? 'it waited for the agent of an earlier time' : 'the service did not run';
    const reason = settled.reason || (late > 0 ? `late by ${durationText(late)}: ${why}` : '');
    const failures =
      settled.outcome === 'FAILED' ? row.failures + 1 : settled.outcome === 'FIRED' ? 0 : row.failures;
    const paused =
      failures >= limits.scheduleFailures ? `${failures} fires in a row failed; the last one: ${reason}` : '';
    await this.#settle(row, timing, { ...settled, reason }, { failures, paused, nowMs });
  }

  /** Records what became of the scheduled time, and goes to the next one, in one transaction. */
  async #settle(
    row: ScheduleRow,
    timing: Timing,
    settled: Settled,
    after: {
      readonly nextMs?: number | null;
      readonly times?: number;
      readonly failures?: number;
      readonly paused?: string;
      readonly nowMs?: number;
    },
  ): Promise<void> {
    const { tenant, name } = row;
    const { times = 1, failures = row.failures, paused = '', nowMs = 0 } = after;
    const scheduledAt = row.scheduled_at ?? '';
    const skippedMs = row.is_waiting ? timesBetween(timing, Date.parse(scheduledAt), nowMs) : [];
    const lastMs = skippedMs.at(-1) ?? Date.parse(scheduledAt);
    const nextMs = after.nextMs === undefined ? (timesAfter(timing, lastMs)[0] ?? null) : after.nextMs;
    const goesOn = paused === '' && nextMs !== null;
    const next = goesOn ? [timeOf(nextMs), timeOf(dueMs(timing, name, nextMs))] : [null, null];
    const fire = { ...settled, tenant, schedule: name, manual: false };
    const isNew = await inTransaction(this.#options.database, async (client) => {
      const at = await recordFire(client, { ...fire, scheduledAt, times });
      if (skippedMs[0] !== undefined)
        await recordFire(client, {
          ...{ ...fire, ...nothing, scheduledAt: timeOf(skippedMs[0]), times: skippedMs.length },
          ...{ outcome: 'SKIPPED', reason: 'the work of an earlier time still waited' },
        });
      const [moved] = await advanceSchedule(
        client,
        ...([tenant, name, scheduledAt] as const),
        ...([next[0] ?? null, next[1] ?? null] as const),
        ...([failures, paused] as const),
      );
      if (at !== undefined && settled.agent)
        await noteEffect(client, tenant, name, settled.agent, settled.followUpId);
      if (paused && moved)
        await recordEvents(client, [
          {
            tenant,
            type: 'schedule.paused',
            account: String(row.document.createdBy ?? ''),
            data: { name, text: paused },
          },
        ]);
      return at !== undefined;
    });
    const { metrics, log } = this.#options;
    if (isNew) metrics.add('muster_schedule_fires_total', { outcome: settled.outcome }, times);
    if (skippedMs.length > 0)
      metrics.add('muster_schedule_fires_total', { outcome: 'SKIPPED' }, skippedMs.length);
    if (paused) log.warn({ tenant, schedule: name, reason: paused }, 'schedule paused');
  }
}

const timeOf = (ms: number): string => new Date(ms).toISOString();

export const fireOf = (row: ScheduleRow, scheduledMs: number): Fire => ({
  tenant: row.tenant,
  name: row.name,
  document: row.document,
  scheduledMs,
  spawnId: row.spawn_id ?? '',
  n: row.n + 1,
  lastAgent: row.last_agent,
  lastFollowUp: row.last_follow_up,
});

/** Refusals of work that can't be done are failures of the schedule. */
export function settledOf(started: Started | Parameters<typeof isRefusal>[0]): Settled {
  if (isRefusal(started)) return { ...nothing, outcome: 'FAILED', reason: started.message };
  const known = started as Started;
  if (known.type === 'fired')
    return { outcome: 'FIRED', reason: '', agent: known.agent, followUpId: known.followUpId };
  return { ...nothing, outcome: 'SKIPPED', reason: known.reason };
}

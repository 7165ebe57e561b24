import { hash } from 'node:crypto';
import { type Cron, lastTimes, nextTimes, parseCron, type ScheduleDocument } from '@muster/sdk/contract';
import type { Document } from '../catalog/document.ts';

/** When a schedule fires. */
export interface Timing {
  readonly cron: Cron;
  readonly zone: string;
  readonly fromMs: number;
  readonly toMs: number;
  readonly jitterMs: number;
  readonly missed: NonNullable<ScheduleDocument['missed']>;
}

const timeOr = (time: unknown, other: number): number =>
  typeof time === 'string' ? Date.parse(time) : other;

/** Null: it never fires, because it is paused or says too little. */
export function timingOf(document: Document): Timing | null {
  const {
    cron: expression,
    zone,
    jitterSeconds,
    missed,
    paused,
    agentId,
    message,
    spawn,
    ...rest
  } = document as ScheduleDocument;
  const cron = parseCron(expression ?? '');
  const hasWork = Boolean(spawn) || (Boolean(message) && Boolean(agentId));
  if (typeof cron === 'string' || paused || !hasWork) return null;
  return {
    cron,
    zone: zone || 'UTC',
    fromMs: timeOr(rest.startsAt, Number.NEGATIVE_INFINITY),
    toMs: timeOr(rest.endsAt, Number.POSITIVE_INFINITY),
    jitterMs: (jitterSeconds ?? 0) * 1000,
    missed: missed ?? 'latest',
  };
}

/** The next times after an instant; fewer, if it ends before. */
export const timesAfter = (timing: Timing, afterMs: number, count = 1): number[] =>
  nextTimes(timing.cron, timing.zone, afterMs, count, timing);

/**
 * When the fire of a scheduled time is due: later by the jitter, which is the same in every attempt, and before the next
 * time.
 */
export function dueMs(timing: Timing, name: string, scheduledMs: number): number {
  if (timing.jitterMs === 0) return scheduledMs;
  const [next = Number.POSITIVE_INFINITY] = timesAfter(timing, scheduledMs);
  const part = hash('sha256', `${name}/${scheduledMs}`, 'buffer').readUInt32BE(0) / 2 ** 32;
  return scheduledMs + Math.floor(part * Math.min(timing.jitterMs, next - scheduledMs));
}

/** A fire is late after this time: the service did not run, or its clock has jumped. */
const lateMs = 60_000;
/** More are not counted. */
const mostCounted = 1000;

export interface Missed {
  /** The first of these times is the one that was due. */
  readonly times: number;
  readonly reason: string;
  /** What fires instead; null if nothing does any more. */
  readonly nextMs: number | null;
}

/** Of a scheduled time that is due: the times that were missed and do not fire, or null if it fires. */
export function missedAt(
  timing: Timing,
  name: string,
  scheduledMs: number,
  nowMs: number,
  mostFires: number,
): Missed | null {
  if (lateBy(timing, name, scheduledMs, nowMs) === 0) return null;
  const nextMs = firstToFire(timing, name, scheduledMs, nowMs, mostFires);
  if (nextMs === scheduledMs) return null;
  const toMs = Math.min(nextMs === null ? nowMs : nextMs - 1, timing.toMs);
  const times = nextTimes(timing.cron, timing.zone, scheduledMs - 1, mostCounted, { toMs }).length;
  const count =
    times === mostCounted
      ? `${mostCounted} times or more were`
      : times === 1
        ? '1 time was'
        : `${times} times were`;
  return { times, reason: `missed: the service did not run; ${count} skipped`, nextMs };
}

/** Of the times from the scheduled one on, which the policy lets fire first. */
function firstToFire(
  timing: Timing,
  name: string,
  scheduledMs: number,
  nowMs: number,
  mostFires: number,
): number | null {
  const { cron, zone, missed } = timing;
  const passed = (count: number) =>
    lastTimes(cron, zone, scheduledMs - 1, Math.min(nowMs, timing.toMs), count);
  if (missed === 'all') return passed(mostFires)[0] ?? scheduledMs;
  // The jitter of the last one may not be over, but that of the one before is.
  const due = passed(2).filter((ms) => dueMs(timing, name, ms) <= nowMs);
  if (missed === 'latest') return due.at(-1) ?? scheduledMs;
  const first = passed(3).find((ms) => lateBy(timing, name, ms, nowMs) === 0);
  return first ?? timesAfter(timing, nowMs)[0] ?? null;
}

/** How late the fire of a scheduled time is; 0 if that is usual. */
export function lateBy(timing: Timing, name: string, scheduledMs: number, nowMs: number): number {
  const late = nowMs - dueMs(timing, name, scheduledMs);
  return late > lateMs ? late : 0;
}

/** How many times there were while the work of an earlier one waited. */
export const timesBetween = ({ cron, zone, toMs }: Timing, fromMs: number, untilMs: number): number[] =>
  nextTimes(cron, zone, fromMs, mostCounted, { toMs: Math.min(untilMs, toMs) });

/** `3 h`, `2 d 4 h`, `5 min`. */
export function durationText(ms: number): string {
  const minutes = Math.max(1, Math.round(ms / 60_000));
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor((minutes % 1440) / 60)];
  if (days > 0) return hours > 0 ? `${days} d ${hours} h` : `${days} d`;
  return hours > 0 ? `${hours} h${minutes % 60 > 0 ? ` ${minutes % 60} min` : ''}` : `${minutes} min`;
}

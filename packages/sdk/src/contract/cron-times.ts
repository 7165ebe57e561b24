import type { Cron } from './cron.ts';
import { localMs } from './zone.ts';

// When an expression fires. Its fields are what clocks in its zone show, so a change of the clocks matters:
//
// - Where hours are named, such as `30 2 * * *` or `0 1,13 * * *`, a time that the clocks skip fires once, when they
//   have changed, and a time that they show twice fires once, the first time.
// - Where every hour fits, such as `*/30 * * * *`, it runs on through the change: what the clocks skip does not fire,
//   and what they show twice fires twice.

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;
/** No zone differs by more from UTC. */
const mostOffsetMs = 16 * 60 * minuteMs;
/** From one 29 February to the next there may be eight years. */
const mostDays = 9 * 366;

/** The next times after an instant, in milliseconds: none before `fromMs` or after `toMs`. */
export function nextTimes(
  cron: Cron,
  zone: string,
  afterMs: number,
  count: number,
  { fromMs = Number.NEGATIVE_INFINITY, toMs = Number.POSITIVE_INFINITY } = {},
): number[] {
  const found: number[] = [];
  for (const ms of timesAfter(cron, zone, Math.max(afterMs, fromMs - 1))) {
    if (ms > toMs || found.length >= count) break;
    found.push(ms);
  }
  return found;
}

/** The last times after `afterMs` and until `untilMs`, however many there are. */
export function lastTimes(
  cron: Cron,
  zone: string,
  afterMs: number,
  untilMs: number,
  count: number,
): number[] {
  for (let spanMs = dayMs / 24; ; spanMs *= 8) {
    const startMs = Math.max(afterMs, untilMs - spanMs);
    const found = nextTimes(cron, zone, startMs, Number.POSITIVE_INFINITY, { toMs: untilMs });
    if (found.length >= count || startMs === afterMs) return found.slice(-count);
  }
}

/**
 * Day by day of the clocks in the zone. A time of one day may come after a time of the next one, so times are kept until
 * no later day can have an earlier one.
 */
function* timesAfter(cron: Cron, zone: string, afterMs: number): Generator<number> {
  let kept: number[] = [];
  const first = Math.floor((localMs(zone, afterMs) - dayMs) / dayMs) * dayMs;
  for (let i = 0, day = first; i < mostDays; i += 1, day += dayMs) {
    if (hasDay(cron, day)) {
      for (const ms of timesOf(cron, zone, day)) if (ms > afterMs) kept.push(ms);
    }
    if (kept.length === 0) continue;
    kept = [...new Set(kept)].sort((a, b) => a - b);
    const untilMs = day + dayMs - mostOffsetMs;
    let sent = 0;
    for (; sent < kept.length && (kept[sent] ?? 0) < untilMs; sent += 1) yield kept[sent] ?? 0;
    kept = kept.slice(sent);
  }
  yield* kept;
}

function hasDay({ months, days, weekdays, isAnyDay, isAnyWeekday }: Cron, day: number): boolean {
  const date = new Date(day);
  if (!months.includes(date.getUTCMonth() + 1)) return false;
  const [fitsDay, fitsWeekday] = [days.includes(date.getUTCDate()), weekdays.includes(date.getUTCDay())];
  return isAnyDay ? fitsWeekday : isAnyWeekday ? fitsDay : fitsDay || fitsWeekday;
}

/** The instants of a day, in no order where the clocks change. */
function* timesOf({ hours, minutes }: Cron, zone: string, day: number): Generator<number> {
  const runsOn = hours.length === 24;
  const offsets = [
    ...new Set([day - mostOffsetMs, day + dayMs + mostOffsetMs].map((ms) => offsetMs(zone, ms))),
  ];
  for (const hour of hours) {
    for (const minute of minutes) {
      const local = day + (hour * 60 + minute) * minuteMs;
      if (offsets.length === 1) yield local - (offsets[0] ?? 0);
      else yield* changedTimes(zone, local, offsets as [number, number], runsOn);
    }
  }
}

/** The instants at which clocks show this time, on a day on which they may change. */
function* changedTimes(
  zone: string,
  local: number,
  [before, after]: readonly [number, number],
  runsOn: boolean,
): Generator<number> {
  const shown = [local - before, local - after].filter((ms) => localMs(zone, ms) === local);
  const [first = Number.NaN] = shown.sort((a, b) => a - b);
  if (runsOn) yield* shown;
  else yield shown.length > 0 ? first : changeBetween(zone, local - after, local - before);
}

/** When the offset changes, between two instants that have different ones. */
function changeBetween(zone: string, fromMs: number, toMs: number): number {
  const before = offsetMs(zone, fromMs);
  let [from, to] = [fromMs, toMs];
  while (to - from > 1) {
    const middle = Math.floor((from + to) / 2);
    if (offsetMs(zone, middle) === before) from = middle;
    else to = middle;
  }
  return to;
}

/** Clocks show whole seconds. */
const offsetMs = (zone: string, ms: number): number => localMs(zone, ms) - Math.floor(ms / 1000) * 1000;

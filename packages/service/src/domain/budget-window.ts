import { localMs } from '@muster/sdk/contract';
import type { Instant } from './agent.ts';

/** A stretch of time in which a budget may be spent once. */
export interface Window {
  readonly startsAt: Instant;
  /** Null: it never ends. */
  readonly resetsAt: Instant | null;
}

interface EndingWindow extends Window {
  readonly resetsAt: Instant;
}

const hourMs = 3_600_000;

/** The window of `now`. Days, months and hours begin by the clocks of the zone. */
export function windowOf(window: string, zone: string, createdAt: Instant, now: Instant): Window {
  if (window === 'total') return { startsAt: createdAt, resetsAt: null };
  const name = `${window} ${zone}`;
  const known = windows.get(name);
  if (known && known.startsAt <= now && now < known.resetsAt) return known;
  const found = newWindow(window, zone, now);
  if (windows.size >= mostWindows) windows.clear();
  windows.set(name, found);
  return found;
}

/** The newest of each kind: to ask the clocks of a zone takes long, and a list of agents has many budgets. */
const windows = new Map<string, EndingWindow>();
const mostWindows = 1_000;

function newWindow(window: string, zone: string, now: Instant): EndingWindow {
  const local = localMs(zone, Date.parse(now));
  const [start, end] = localWindow(window, local);
  return { startsAt: instantOf(zone, start), resetsAt: instantOf(zone, end) };
}

/** Local times are written as if they were in UTC. */
function localWindow(window: string, local: number): [start: number, end: number] {
  const date = new Date(local);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  if (window === 'month') return [Date.UTC(year, month), Date.UTC(year, month + 1)];
  const lengthMs = window === 'day' ? 24 * hourMs : Number.parseInt(window, 10) * hourMs;
  const start = Math.floor(local / lengthMs) * lengthMs;
  return [start, start + lengthMs];
}

/**
 * When clocks in the zone show this, for the first time if they show it twice. A time that a change of the clocks skips is
 * that of the change.
 */
export function instantOf(zone: string, local: number): Instant {
  // By the clocks as they are a day before, and a day after.
  const [early = 0, late = 0] = [-24, 24].map((hours) => {
    const near = local + hours * hourMs;
    return local - (localMs(zone, near) - near);
  });
  const isEarly = localMs(zone, early) === local || localMs(zone, late) !== local;
  return new Date(isEarly ? early : late).toISOString();
}

import { localMs, type NotificationDocument } from '@muster/sdk/contract';
import { instantOf } from '../domain/budget-window.ts';

const dayMs = 24 * 3_600_000;

/** When the quiet hours end that it is in now; null if it is in none. */
export function quietUntil(hours: NotificationDocument['quietHours'] | null, nowMs: number): number | null {
  if (!hours?.from || !hours.to) return null;
  const { zone = 'UTC' } = hours;
  const local = localMs(zone, nowMs);
  const day = Math.floor(local / dayMs) * dayMs;
  const [from, to, time] = [msOf(hours.from), msOf(hours.to), local - day];
  const isQuiet = from < to ? from <= time && time < to : from <= time || time < to;
  if (!isQuiet) return null;
  return Date.parse(instantOf(zone, time < to ? day + to : day + dayMs + to));
}

function msOf(time: string): number {
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  return (hours * 60 + minutes) * 60_000;
}

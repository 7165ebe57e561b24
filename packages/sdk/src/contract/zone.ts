const zonePattern = /^[A-Za-z][A-Za-z0-9_+-]*(\/[A-Za-z0-9_+-]+)*$/;

/** Whether this is the name of a time zone, and not an offset. */
export function isZone(zone: string): boolean {
  if (!zonePattern.test(zone)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}

export const zoneProblem = (zone: string): string =>
  `must be the name of a time zone such as Europe/Berlin; got "${zone}"`;

const clocks = new Map<string, Intl.DateTimeFormat>();

/** What clocks in the zone show, written as if it were in UTC. A zone that this build does not know counts as UTC. */
export function localMs(zone: string, ms: number): number {
  const found: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {};
  for (const { type, value } of clockOf(zone).formatToParts(ms)) found[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = found;
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

function clockOf(zone: string): Intl.DateTimeFormat {
  const known = clocks.get(zone);
  if (known) return known;
  const clock = isZone(zone) ? newClock(zone) : clockOf('UTC');
  clocks.set(zone, clock);
  return clock;
}

const newClock = (timeZone: string): Intl.DateTimeFormat =>
  new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    ...{ year: 'numeric', month: 'numeric', day: 'numeric' },
    ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
  });

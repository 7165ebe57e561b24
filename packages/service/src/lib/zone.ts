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

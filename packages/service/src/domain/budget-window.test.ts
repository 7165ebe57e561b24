import { describe, expect, test } from 'vitest';
import { isZone } from '../lib/zone.ts';
import { windowOf } from './budget-window.ts';

const createdAt = '2026-01-01T00:00:00.000Z';
const at = (time: string) => `2026-${time}:00.000Z`;
const rangeOf = (window: string, zone: string, now: string) => {
  const { startsAt, resetsAt } = windowOf(window, zone, createdAt, at(now));
  return [startsAt, resetsAt];
};

test('a total is one window from the beginning on', () => {
  expect(rangeOf('total', 'Europe/Berlin', '06-01T12:00')).toEqual([createdAt, null]);
});

test.each<[window: string, zone: string, now: string, startsAt: string, resetsAt: string]>([
  ['day', 'UTC', '06-10T12:00', '06-10T00:00', '06-11T00:00'],
  ['day', 'Asia/Kolkata', '06-10T18:29', '06-09T18:30', '06-10T18:30'],
  ['day', 'Asia/Kolkata', '06-10T18:30', '06-10T18:30', '06-11T18:30'],
  ['day', 'Pacific/Kiritimati', '06-10T09:59', '06-09T10:00', '06-10T10:00'],
  ['day', 'Pacific/Pago_Pago', '06-10T10:59', '06-09T11:00', '06-10T11:00'],
  ['month', 'UTC', '02-28T23:59', '02-01T00:00', '03-01T00:00'],
  ['month', 'America/New_York', '03-01T04:59', '02-01T05:00', '03-01T05:00'],
  // The clocks change within it.
  ['month', 'America/New_York', '03-20T12:00', '03-01T05:00', '04-01T04:00'],
  ['month', 'Europe/Berlin', '10-31T22:59', '09-30T22:00', '10-31T23:00'],
  ['1h', 'Asia/Kolkata', '06-10T12:45', '06-10T12:30', '06-10T13:30'],
  ['5h', 'UTC', '06-10T12:00', '06-10T09:00', '06-10T14:00'],
  // No zone of this build: its clocks count as those of UTC.
  ['day', 'Mars/Olympus', '06-10T12:00', '06-10T00:00', '06-11T00:00'],
])('%s in %s at %s is from %s to %s', (window, zone, now, startsAt, resetsAt) => {
  expect(rangeOf(window, zone, now)).toEqual([at(startsAt), at(resetsAt)]);
});

/** Changes of the clocks: in the night, at midnight, by half an hour; east and west of UTC. */
const changes: readonly [zone: string, change: string][] = [
  ['Europe/Berlin', '03-29T01:00'],
  ['Europe/Berlin', '10-25T01:00'],
  ['America/New_York', '03-08T07:00'],
  ['America/New_York', '11-01T06:00'],
  ['America/Havana', '03-08T05:00'],
  ['America/Havana', '11-01T05:00'],
  ['Africa/Cairo', '04-23T22:00'],
  ['Africa/Cairo', '10-29T21:00'],
  ['Australia/Lord_Howe', '04-04T15:00'],
  ['Australia/Lord_Howe', '10-03T15:30'],
];

describe.each(changes)('when the clocks of %s change at %s', (zone, change) => {
  test.each(['1h', '5h', 'day', 'month'])('windows of %s follow each other without a gap', (window) => {
    const changeMs = Date.parse(at(change));
    let last = windowOf(window, zone, createdAt, new Date(changeMs - 30 * 3_600_000).toISOString());
    for (let ms = changeMs - 30 * 3_600_000; ms < changeMs + 30 * 3_600_000; ms += 600_000) {
      const now = new Date(ms).toISOString();
      const { startsAt, resetsAt } = windowOf(window, zone, createdAt, now);
      expect(startsAt <= now && now < (resetsAt ?? ''), `${now} in ${startsAt} to ${resetsAt}`).toBe(true);
      if (startsAt !== last.startsAt) expect(startsAt).toBe(last.resetsAt);
      last = { startsAt, resetsAt };
    }
  });
});

test.each<[window: string, zone: string, now: string, startsAt: string, resetsAt: string]>([
  ['day', 'Europe/Berlin', '03-29T12:00', '03-28T23:00', '03-29T22:00'],
  ['day', 'Europe/Berlin', '10-25T12:00', '10-24T22:00', '10-25T23:00'],
  // An hour that the clocks show twice is one window, and one that they skip is none.
  ['1h', 'Europe/Berlin', '10-25T00:30', '10-25T00:00', '10-25T02:00'],
  ['1h', 'Europe/Berlin', '10-25T01:30', '10-25T00:00', '10-25T02:00'],
  ['1h', 'America/New_York', '03-08T06:30', '03-08T06:00', '03-08T07:00'],
  // A day that begins when its midnight is skipped.
  ['day', 'America/Havana', '03-08T04:30', '03-07T05:00', '03-08T05:00'],
])('%s in %s at %s, when the clocks change, is from %s to %s', (window, zone, now, startsAt, resetsAt) => {
  expect(rangeOf(window, zone, now)).toEqual([at(startsAt), at(resetsAt)]);
});

test.each(['UTC', 'Europe/Berlin', 'America/Argentina/Buenos_Aires', 'Etc/GMT+5'])('%s is a zone', (zone) => {
  expect(isZone(zone)).toBe(true);
});
test.each(['', '+02:00', 'Mars/Olympus', 'Europe/', '../etc', 'a'.repeat(60)])('"%s" is none', (zone) => {
  expect(isZone(zone)).toBe(false);
});

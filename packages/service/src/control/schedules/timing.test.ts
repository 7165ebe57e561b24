import { describe, expect, test } from 'vitest';
import { dueMs, durationText, lateBy, missedAt, type Timing, timesAfter, timingOf } from './timing.ts';

const at = (text: string): number => Date.parse(text);
const hourMs = 3_600_000;
const scheduled = at('2026-05-04T07:00:00Z');

const timing = (more: object = {}): Timing => {
  const found = timingOf({ cron: '0 * * * *', message: 'x', agentId: { agent: ['a'] }, ...more });
  if (!found) throw new Error('it does not fire');
  return found;
};

describe('what is missed, and what fires instead', () => {
  const plan = (missed: string, lateHours: number, more: object = {}) => {
    const found = missedAt(timing({ missed, ...more }), 's', scheduled, scheduled + lateHours * hourMs, 24);
    return (
      found && {
        times: found.times,
        next: found.nextMs === null ? null : (found.nextMs - scheduled) / hourMs,
      }
    );
  };

  test.each([
    // On time, and up to a minute late, every policy fires.
    ['latest', 0, null],
    ['latest', 0.016, null],
    ['skip', 0.016, null],
    ['all', 0.016, null],
    // Half an hour late, no later time has passed.
    ['latest', 0.5, null],
    ['skip', 0.5, { times: 1, next: 1 }],
    ['all', 0.5, null],
    ['latest', 5.5, { times: 5, next: 5 }],
    ['skip', 5.5, { times: 6, next: 6 }],
    ['skip', 5.01, { times: 5, next: 5 }],
    ['all', 5.5, null],
    ['all', 23.5, null],
    ['all', 24.5, { times: 1, next: 1 }],
    ['all', 1000.5, { times: 977, next: 977 }],
    ['latest', 20_000.5, { times: 1000, next: 20_000 }],
  ])('%s, %d hours late: %j', (missed, late, expected) => {
    expect(plan(missed, late)).toEqual(expected);
  });

  test('nothing fires after the end', () => {
    const endsAt = new Date(scheduled + 2 * hourMs).toISOString();
    expect(plan('skip', 5.5, { endsAt })).toEqual({ times: 3, next: null });
    expect(plan('latest', 5.5, { endsAt })).toEqual({ times: 2, next: 2 });
  });

  test('a clock that jumps ahead by an hour is an hour without the service; one that jumps back repeats nothing', () => {
    expect(plan('latest', 1)).toEqual({ times: 1, next: 1 });
    expect(plan('skip', 1)).toEqual({ times: 1, next: 1 });
    expect(plan('all', 1)).toBeNull();
    // The next time is that after the scheduled one, whatever the clock shows.
    expect(timesAfter(timing(), scheduled)).toEqual([scheduled + hourMs]);
    expect(lateBy(timing(), 's', scheduled + hourMs, scheduled)).toBe(0);
  });

  test('the jitter of the last time is waited for, and the one before fires only late', () => {
    const jitter = { jitterSeconds: 3600 };
    const due = (hours: number) => dueMs(timing(jitter), 's', scheduled + hours * hourMs) - scheduled;
    const [late, before] = [due(5) / hourMs, (due(5) - 1) / hourMs];
    expect(plan('latest', late, jitter)).toEqual({ times: 5, next: 5 });
    expect(plan('latest', before, jitter)).toEqual({ times: 4, next: 4 });
  });
});

test('the jitter is the same for a time, spread, and never beyond the next time', () => {
  const every = timing({ cron: '* * * * *', jitterSeconds: 3600 });
  const delays = timesAfter(every, scheduled, 1000).map((ms) => dueMs(every, 's', ms) - ms);
  expect(Math.max(...delays)).toBeLessThan(60_000);
  expect(new Set(delays.map((ms) => Math.floor(ms / 10_000))).size).toBe(6);
  expect(timesAfter(every, scheduled, 1000).map((ms) => dueMs(every, 's', ms) - ms)).toEqual(delays);
  expect(dueMs(every, 'other', scheduled)).not.toBe(dueMs(every, 's', scheduled));
  expect(dueMs(timing(), 's', scheduled)).toBe(scheduled);
});

test('what says too little, or is paused, never fires', () => {
  for (const document of [
    {},
    { cron: '0 7 * * *' },
    { cron: '0 7 * * *', message: 'x' },
    { cron: 'nonsense', spawn: {} },
    { cron: '0 7 * * *', spawn: {}, paused: true },
  ])
    expect(timingOf(document)).toBeNull();
  expect(timingOf({ cron: '0 7 * * *', spawn: {} })).toMatchObject({ zone: 'UTC', missed: 'latest' });
});

test('durations are read at a glance', () => {
  const shown = [20_000, 300_000, 3 * hourMs, 3.5 * hourMs, 24 * hourMs, 52 * hourMs].map(durationText);
  expect(shown).toEqual(['1 min', '5 min', '3 h', '3 h 30 min', '1 d', '2 d 4 h']);
});

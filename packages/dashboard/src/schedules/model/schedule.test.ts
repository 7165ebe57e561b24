import type { Caller } from '@muster/sdk';
import { expect, test } from 'vitest';
import { inOrder, mayPause, mayRun, outcomeMark, reasonOf, shownSchedule, stateMark } from './schedule.ts';

const spawning = {
  cron: '0 7 * * 1-5',
  spawn: { agentId: { agent: ['a-{n}'] }, description: 'Work.\nMore.' },
};

test('a schedule says when it fires and what it does, also if its document says too little', () => {
  expect(shownSchedule('s', { ...spawning, zone: 'Europe/Berlin' })).toMatchObject({
    ...{ words: 'Every weekday at 07:00', zone: 'Europe/Berlin', work: 'Spawns a-{n}: Work.' },
  });
  const telling = { cron: '0 7 * * *', agentId: { agent: ['a', 'b'] }, message: 'Look.' };
  expect(shownSchedule('s', telling)).toMatchObject({ work: 'Tells a/b: Look.', zone: 'UTC' });
  expect(shownSchedule('s', { cron: 7 })).toMatchObject({ words: 'No time is set', work: 'No work is set' });
  expect(shownSchedule('s', { cron: 'nonsense' }).words).toBe('nonsense');
});

test('those that fire next come first', () => {
  const named = (name: string, ...nextRuns: string[]) => shownSchedule(name, { ...spawning, nextRuns });
  const all = [
    named('b'),
    named('late', '2026-05-02T00:00:00Z'),
    named('a'),
    named('soon', '2026-05-01T00:00:00Z'),
  ];
  expect(inOrder(all).map(({ name }) => name)).toEqual(['soon', 'late', 'a', 'b']);
});

test('its state and its entries are marked', () => {
  const mark = (document: object) => stateMark(shownSchedule('s', { ...spawning, ...document }))[0];
  expect(mark({ nextRuns: ['2026-05-02T00:00:00Z'] })).toBe('active');
  expect(mark({ paused: true })).toBe('paused');
  expect(mark({ pausedReason: '10 fires in a row failed' })).toBe('paused');
  expect(mark({})).toBe('does not fire');
  expect(outcomeMark({ outcome: 'FAILED' })).toEqual(['failed', 'bad']);
  const fire = { scheduledAt: '', at: '', outcome: 'SKIPPED', agentId: null, followUpId: '' } as const;
  expect(reasonOf({ ...fire, reason: 'missed', times: 3, manual: false })).toBe('missed · 3 times');
  expect(reasonOf({ ...fire, reason: '', times: 1, manual: true })).toBe('run by hand');
});

test('admins run all, members their own, viewers none; an operator pauses in the catalog', () => {
  const caller = (role: string, account = 'ada') =>
    ({ role, account, ownerProvider: 'PROVIDER_CODEHOST_OAUTH' }) as unknown as Caller;
  const own = shownSchedule('s', { ...spawning, createdBy: 'codehost_oauth/ada' });
  const runs = (['admin', 'operator', 'member', 'viewer'] as const).map((role) => mayRun(caller(role), own));
  expect(runs).toEqual([true, true, true, false]);
  expect(mayRun(caller('member', 'max'), own)).toBe(false);
  expect([mayPause(caller('operator'), own), mayPause(caller('member'), own)]).toEqual([false, true]);
});

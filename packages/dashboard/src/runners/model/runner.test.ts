import type { ListedRunner } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { accountState, byPool, diskText, drainable, slotsText, stateOf } from './runner.ts';

const runner = (fields: Partial<ListedRunner> = {}): ListedRunner => ({
  ...{ name: 'r1', pool: 'default', isOwn: false, version: '1', versionWarning: '', system: 'linux x64' },
  ...{
    since: '2026-01-01T00:00:00.000Z',
    lastPollAt: '2026-01-01T00:00:00.000Z',
    draining: false,
    sandboxed: true,
  },
  ...{
    rehearses: false,
    backends: ['BACKEND_A'],
    free: { real: 3, rehearsed: 200 },
    runCount: 1,
    runs: [],
    accounts: [],
  },
  disk: { freeBytes: 4.25e9, totalBytes: 250e9, isFull: false },
  ...fields,
});

test.each<[Partial<ListedRunner>, string]>([
  [{}, 'ready'],
  [{ free: { real: 0, rehearsed: 200 } }, 'full'],
  [{ rehearses: true, free: { real: 0, rehearsed: 200 } }, 'ready'],
  [{ disk: { freeBytes: 1, totalBytes: 2, isFull: true }, free: { real: 0, rehearsed: 0 } }, 'disk full'],
  [{ draining: true, disk: { freeBytes: 1, totalBytes: 2, isFull: true } }, 'draining'],
])('%j is %s', (fields, state) => {
  expect(stateOf(runner(fields))[0]).toBe(state);
});

test('slots and disk are numbers of what is used and free', () => {
  expect(slotsText(runner())).toBe('1 run, 3 more slots free');
  expect(slotsText(runner({ rehearses: true, runCount: 0, free: { real: 0, rehearsed: 1 } }))).toBe(
    '0 runs, 1 more slot free',
  );
  expect(diskText(runner())).toBe('4.3 GB of 250 GB free');
  expect(diskText(runner({ disk: null }))).toBe('not reported');
});

test('an account is used, not in use or paused', () => {
  const account = {
    account: 'anthropic/team',
    runs: 2,
    pausedUntil: null,
    accepted: true,
    error: '',
  } as const;
  const texts = (['IN_USE', 'FREE', 'PAUSED'] as const).map(
    (state) => accountState({ ...account, state })[0],
  );
  expect(texts).toEqual(['used by 2 runs', 'not in use', 'paused']);
});

test('runners are grouped by pool, and that of the service can not be drained', () => {
  const own = runner({ name: 'own', isOwn: true });
  const leaving = runner({ name: 'leaving', draining: true });
  const other = runner({ name: 'other', pool: 'gpu' });
  expect(byPool([own, leaving, other]).map(([pool, { length }]) => [pool, length])).toEqual([
    ['default', 2],
    ['gpu', 1],
  ]);
  expect(drainable([own, leaving, other])).toEqual([other]);
});

import { describe, expect, test } from 'vitest';
import {
  backendsOfFreeSlots,
  type Candidate,
  canRun,
  chooseClaims,
  demandOf,
  freeSlots,
  type PoolLimits,
  runnersWanted,
  type Slot,
  waitingReason,
  wouldRehearse,
} from './scheduling.ts';

/** Candidates as a runner finds them, such as `1a 1b 2c`: agents by tenant, in the order of their ages. */
const found = (text: string, rooms: Record<number, number> = {}): Candidate[] =>
  text
    .split(' ')
    .filter(Boolean)
    .map((word) => {
      const tenant = Number(word[0]);
      return { tenant, id: word, claimable_at: word.slice(1), room: rooms[tenant] ?? null };
    });

const chosen = (
  candidates: Partial<Record<Slot, Candidate[]>>,
  free: Partial<Record<Slot, number>>,
): string =>
  chooseClaims({ real: [], rehearsed: [], ...candidates }, { real: 0, rehearsed: 0, ...free })
    .map(({ id, slot }) => (slot === 'real' ? id : `${id}*`))
    .join(' ');

describe('choosing claims', () => {
  const backlog = found('1a 1b 1c 1d 1e 2y 3x 3z');

  test.each([
    [0, ''],
    [1, '1a'],
    [2, '1a 2y'],
    [4, '1a 2y 3x 1b'],
    [6, '1a 2y 3x 1b 3z 1c'],
    [20, '1a 2y 3x 1b 3z 1c 1d 1e'],
  ])('%i slots: tenants take turns, each with its oldest agent', (real, expected) => {
    expect(chosen({ real: backlog }, { real })).toBe(expected);
  });

  test('a tenant gets no more runs than it has room for, and the others get the slots', () => {
    expect(chosen({ real: found('1a 1b 1c 2y 3x 3z', { 1: 2, 3: 1 }) }, { real: 8 })).toBe('1a 2y 3x 1b');
  });

  test('where a tenant has room for one run, its oldest agent is taken, whichever slot it needs', () => {
    const rooms = { 1: 1 };
    const free = { real: 4, rehearsed: 4 };
    expect(chosen({ real: found('1b', rooms), rehearsed: found('1a 2c', rooms) }, free)).toBe('1a* 2c*');
    expect(chosen({ real: found('1a', rooms), rehearsed: found('1b 2c', rooms) }, free)).toBe('1a 2c*');
  });

  test('a tenant whose oldest agent gets no slot has room for a later one that gets a slot of the other kind', () => {
    const rooms = { 1: 1 };
    const candidates = { real: found('3b 3c 1d', rooms), rehearsed: found('3a 1b', rooms) };
    expect(chosen(candidates, { real: 2, rehearsed: 1 })).toBe('3b 1d 3a*');
    expect(chosen(candidates, { real: 2, rehearsed: 2 })).toBe('3b 3c 3a* 1b*');
  });

  test('slots that unsent runs have taken are not free, even below zero', () => {
    expect(chosen({ real: backlog }, { real: -1, rehearsed: 1 })).toBe('');
  });
});

test.each([
  [{ free: { real: 1, rehearsed: 1 } }, { real: ['BACKEND_A'], rehearsed: [''] }],
  [{ free: { real: 0, rehearsed: 1 } }, { real: [], rehearsed: [''] }],
  [{ free: { real: 1, rehearsed: 0 } }, { real: ['BACKEND_A'], rehearsed: [] }],
  [
    { free: { real: 1, rehearsed: 1 }, rehearses: true },
    { real: [], rehearsed: ['', 'BACKEND_A'] },
  ],
])('the backends of free slots of %j', (polled, expected) => {
  expect(backendsOfFreeSlots({ backends: ['BACKEND_A'], ...polled })).toEqual(expected);
});

test.each([
  ['without runs', [], false, { real: 2, rehearsed: 2 }],
  ['after one that needs a provider', ['opus'], false, { real: 1, rehearsed: 2 }],
  ['after a rehearsal', ['rehearsal-a'], false, { real: 2, rehearsed: 1 }],
  ['after any of a runner that plays all models', ['opus', 'rehearsal-a'], true, { real: 2, rehearsed: 0 }],
  ['after more than it had', ['opus', 'opus', 'opus'], false, { real: -1, rehearsed: 2 }],
])('the free slots of a runner that does not know of its new runs yet, %s', (_, models, rehearses, left) => {
  expect(freeSlots({ free: { real: 2, rehearsed: 2 }, rehearses }, models)).toEqual(left);
});

const agent = { tenant: 1, pool: 'p', backend: 'BACKEND_A', home: null, model: 'claude' } as const;
const runner = {
  tenant: 0,
  name: 'r',
  pool: 'p',
  backends: ['BACKEND_A'],
  rehearses: false,
  freeReal: 1,
  freeRehearsed: 0,
  heldBy: () => 1,
} as const;

test.each([
  ['of every tenant', {}, {}, true],
  ['of its tenant', { tenant: 1 }, {}, true],
  ['of another tenant', { tenant: 2 }, {}, false],
  ['of another pool', { pool: 'q' }, {}, false],
  ['without its backend', { backends: ['BACKEND_B'] as const }, {}, false],
  ['without any backend, if it needs none', { backends: [] }, { model: 'rehearsal-a' }, true],
])('whether an agent can run on a runner %s', (_, ofRunner, ofAgent, expected) => {
  expect(canRun({ ...runner, ...ofRunner }, { ...agent, ...ofAgent })).toBe(expected);
});

test.each([
  ['its model is one', [], { model: 'rehearsal-a' }, true],
  ['all runners that can run it play models', [{ ...runner, rehearses: true }], {}, true],
  ['one of them does not', [{ ...runner, rehearses: true }, runner], {}, false],
  ['no runner can run it', [{ ...runner, pool: 'q', rehearses: true }], {}, false],
])('whether a run would be a rehearsal: %s', (_, runners, ofAgent, expected) => {
  expect(wouldRehearse({ ...agent, ...ofAgent }, runners)).toBe(expected);
});

describe('the reason of a waiting agent', () => {
  test.each<[string, PoolLimits, string]>([
    ['without limits', { maxRuns: null, freeRuns: null }, 'STARTING'],
    ['below them', { maxRuns: 2, freeRuns: 1 }, 'STARTING'],
    ['at the limit of each runner', { maxRuns: 1, freeRuns: null }, 'POOL_FULL'],
    ['at the limit of all runners', { maxRuns: null, freeRuns: 0 }, 'POOL_FULL'],
    ['over it, because it was lowered', { maxRuns: null, freeRuns: -2 }, 'POOL_FULL'],
  ])('%s', (_, limits, reason) => {
    expect(waitingReason(agent, [runner], limits)).toBe(reason);
    expect(waitingReason(agent, [], limits)).toBe('NO_RUNNER');
  });

  const full = { ...runner, name: 'full', freeReal: 0 };
  test.each([
    ['another one is free, and it has no home', null, [full, runner], 'STARTING'],
    ['its home is full, and another one is free', 'full', [full, runner], 'POOL_FULL'],
    ['its home is gone, and another one is free', 'gone', [full, runner], 'STARTING'],
    ['all are full', null, [full], 'POOL_FULL'],
    ['its home has no slot for its kind of run', 'r', [{ ...runner, rehearses: true }], 'POOL_FULL'],
  ])('%s', (_, home, runners, reason) => {
    const unlimited = { maxRuns: null, freeRuns: null };
    expect(waitingReason({ ...agent, home }, runners, unlimited)).toBe(reason);
  });
});

describe('how many runners a pool needs', () => {
  const unlimited = { maxRuns: null, freeRuns: null };
  const work = (waiting: [real: number, rehearsed: number], running: [real: number, rehearsed: number]) => ({
    waiting: { real: waiting[0], rehearsed: waiting[1] },
    running: { real: running[0], rehearsed: running[1] },
  });

  test.each([
    ['nothing to do', work([0, 0], [0, 0]), unlimited, 0],
    ['one waiting agent', work([1, 0], [0, 0]), unlimited, 1],
    ['as many runs as a runner has slots', work([3, 0], [5, 0]), unlimited, 1],
    ['one more', work([4, 0], [5, 0]), unlimited, 2],
    ['rehearsals, which have slots of their own', work([8, 256], [0, 0]), unlimited, 1],
    ['more rehearsals than one runner plays', work([0, 200], [0, 57]), unlimited, 2],
    ['a limit of runs per runner', work([3, 2], [2, 0]), { maxRuns: 2, freeRuns: null }, 4],
    ['a limit of runs in total', work([50, 0], [6, 0]), { maxRuns: 2, freeRuns: 1 }, 4],
    ['a limit in total that leaves room for some', work([1, 5], [0, 0]), { maxRuns: 1, freeRuns: 3 }, 3],
    [
      'a limit in total that was lowered below the live runs',
      work([5, 0], [4, 0]),
      { maxRuns: 2, freeRuns: -2 },
      2,
    ],
    ['a pool that may run nothing', work([5, 5], [0, 0]), { maxRuns: 0, freeRuns: null }, 0],
    ['more than a tenant may have', work([1e6, 0], [0, 0]), unlimited, 1000],
  ])('%s', (_, counts, limits, wanted) => {
    expect(runnersWanted(counts, limits)).toBe(wanted);
  });

  test('free slots are those that the limits of the pool leave', () => {
    const busy = { ...runner, freeReal: 3, freeRehearsed: 9, heldBy: () => 2 };
    const free = (limits: PoolLimits) => demandOf(1, work([1, 0], [2, 0]), [busy, busy], limits).free;
    expect(free(unlimited)).toBe(6);
    expect(free({ maxRuns: 4, freeRuns: null })).toBe(4);
    expect(free({ maxRuns: 4, freeRuns: 1 })).toBe(1);
    expect(free({ maxRuns: 1, freeRuns: -3 })).toBe(0);
    const plays = { ...busy, rehearses: true };
    expect(demandOf(1, work([1, 0], [2, 0]), [plays], unlimited)).toEqual({
      ...{ waiting: 1, running: 2, free: 9, runners: 1, wanted: 1 },
    });
  });
});

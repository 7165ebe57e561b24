import { limits } from '@muster/sdk/contract';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Principal } from '../control/access/principal.ts';
import { Metrics } from '../lib/metrics.ts';
import type { OtherWorkers } from '../lib/worker-channel.ts';
import { OpenReplies, RateLimit } from './key-limits.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] }));
afterEach(() => vi.useRealTimers());

type Handle = (body: unknown, from: number) => unknown;

/** Workers in one process, each with the number of its place. */
function workerGroup(count: number): { readonly workers: OtherWorkers[]; join(number: number): void } {
  const handlers = Array.from({ length: count }, () => new Map<string, Handle>());
  const send = (from: number, name: string, body: unknown) => {
    for (const [at, named] of handlers.entries()) if (at !== from) named.get(name)?.(body, from);
  };
  const workers = handlers.map((named, at) => ({
    tell: (name: string, body: unknown) => send(at, name, body),
    on: (name: string, handle: Handle) => named.set(name, handle),
  }));
  return {
    workers: workers as unknown as OtherWorkers[],
    join: (number) => {
      send(number, 'left', null);
      send(number, 'joined', null);
    },
  };
}

const metrics = new Metrics();
const { signal } = new AbortController();
const caller = (keyId: string) => ({ keyId }) as Principal;
/** More than the time after which workers tell each other. */
const told = () => vi.advanceTimersByTime(100);

test('a key has at most 10,000 open waits and streams, and other keys have their own limit', () => {
  const replies = new OpenReplies(metrics, signal);
  const open = (keyId: string) => replies.open(caller(keyId), 'wait');
  const closes = Array.from({ length: 10_000 }, () => open('crowded'));
  expect(() => open('crowded')).toThrow('this key has 10000 open waits and streams');
  open('other');
  closes[0]?.();
  open('crowded');
  expect(() => open('crowded')).toThrow('this key has 10000 open waits and streams');
});

test('the open waits and streams of a key count at every worker, until its worker ends', () => {
  const { workers, join } = workerGroup(3);
  const replies = workers.map((each) => new OpenReplies(metrics, signal, each));
  const half = limits.watchedAgentsPerKey / 2;
  const open = (worker: number, agents: number) => replies[worker]?.open(caller('key'), 'wait', agents);
  const close = open(0, half);
  open(1, half);
  told();
  for (const worker of [0, 1, 2]) expect(() => open(worker, 1)).toThrow('exceed 100000');
  close?.();
  told();
  const again = open(2, half);
  told();
  expect(() => open(1, 1)).toThrow('exceed 100000');
  again?.();
  // The second worker dies, and another one takes its place, which is told what is open elsewhere.
  join(1);
  replies[1] = new OpenReplies(metrics, signal, workers[1] ?? null);
  open(2, half);
  join(1);
  told();
  expect(() => open(1, half + 1)).toThrow('watch 50000 agents');
  open(1, half);
  told();
  expect(() => open(0, 1)).toThrow('exceed 100000');
});

test('a key has its requests per second and a burst of as many', () => {
  const limit = new RateLimit(5);
  expect(Array.from({ length: 6 }, () => limit.take('key'))).toEqual([0, 0, 0, 0, 0, 0.2]);
  expect(limit.take('other')).toBe(0);
  vi.advanceTimersByTime(400);
  expect([limit.take('key'), limit.take('key'), limit.take('key')]).toEqual([0, 0, 0.2]);
});

test('workers share the rate of a key, and a burst at all of them counts against what follows', () => {
  const { workers } = workerGroup(2);
  const [one, two] = workers.map((each) => new RateLimit(5, each));
  const passedAt = (limit: RateLimit | undefined) =>
    Array.from({ length: 20 }, () => limit?.take('key')).filter((seconds) => seconds === 0).length;
  expect([passedAt(one), passedAt(two)]).toEqual([5, 5]);
  vi.advanceTimersByTime(1_000);
  expect([passedAt(one), passedAt(two)]).toEqual([0, 0]);
  let passed = 10;
  for (let seconds = 1; seconds < 60; seconds += 0.1) {
    vi.advanceTimersByTime(100);
    passed += passedAt(one) + passedAt(two);
  }
  expect(passed).toBeGreaterThan(5 * 58);
  expect(passed).toBeLessThanOrEqual(2 * 5 + 5 * 60);
});

test('without a limit workers tell each other nothing', () => {
  const { workers } = workerGroup(2);
  const [one, two] = workers;
  const tell = vi.spyOn(one as OtherWorkers, 'tell');
  expect(new RateLimit(0, one).take('key')).toBe(0);
  new RateLimit(0, two);
  told();
  expect(tell).not.toHaveBeenCalled();
});

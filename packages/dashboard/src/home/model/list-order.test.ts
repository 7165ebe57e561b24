import type { AgentEntry } from '@muster/sdk';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { agentEntry, agentEntryNow, secondsAgo } from '../../../../../test/support/samples.ts';
import { noFilter } from './filter.ts';
import { ListOrder } from './list-order.ts';

class FakeFleet {
  readonly agents = new Map<string, AgentEntry>();
  readonly state = { isLoaded: true, error: null };
  readonly #listeners = new Set<() => void>();

  readonly entries = () => this.agents.entries();
  readonly subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  set(name: string, fields: Partial<AgentEntry> = {}): void {
    const [page, entry] = agentEntry(name, fields);
    this.agents.set(page, entry);
    for (const notify of this.#listeners) notify();
  }
  get listeners(): number {
    return this.#listeners.size;
  }
}

const question = (since: number): Partial<AgentEntry> => ({
  phaseReason: 'QUESTION',
  phaseSince: secondsAgo(since),
});

let fleet: FakeFleet;
let order: ListOrder;
let unsubscribe: () => void;
const listener = vi.fn();

const shown = (): string[] =>
  order.view(noFilter).sections.map(({ id, pages }) => {
    const names = pages.map((page) => page.slice(page.lastIndexOf('/') + 1));
    return `${id}: ${names.join(' ')}`;
  });

beforeEach(() => {
  vi.useFakeTimers({ now: agentEntryNow });
  listener.mockClear();
  fleet = new FakeFleet();
  fleet.set('a');
  fleet.set('b');
  order = new ListOrder(fleet, { role: 'admin', ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account: 'ada' });
  unsubscribe = order.subscribe(listener);
});
afterEach(() => {
  unsubscribe();
  vi.useRealTimers();
});

describe('the order', () => {
  test('follows the fleet, at most a few times per second', () => {
    expect(shown()).toEqual(['finished: a b']);
    vi.advanceTimersByTime(300);
    listener.mockClear();
    for (let round = 0; round < 100; round += 1) {
      fleet.set('b', question(round));
      vi.advanceTimersByTime(10);
    }
    expect(shown()).toEqual(['question: b', 'finished: a']);
    expect(listener.mock.calls.length).toBeLessThanOrEqual(5);
  });

  test('stays the same array when no agent moved, so that the list is not rendered again', () => {
    const { sections, summary } = order.view(noFilter);
    fleet.set('a', { cost: 3, rehearsed: true });
    vi.advanceTimersByTime(300);
    expect(order.view(noFilter).sections).toBe(sections);
    expect(order.view(noFilter).summary).not.toEqual(summary);
  });

  test('changes with time: silent agents move down', () => {
    const works = (createdAt: string) => ({
      phaseReason: 'WORKING' as const,
      createdAt,
      progressAt: secondsAgo(0),
    });
    fleet.set('a', works(secondsAgo(10)));
    fleet.set('b', works(secondsAgo(20)));
    vi.advanceTimersByTime(300);
    expect(shown()).toEqual(['working: a b']);
    fleet.set('b', { ...works(secondsAgo(20)), progressAt: secondsAgo(-50) });
    vi.advanceTimersByTime(70_000);
    expect(shown()).toEqual(['working: b a']);
  });

  test('applies a new filter immediately', () => {
    const filter = { ...noFilter, text: 'b' };
    expect(order.view(filter).sections.flatMap(({ pages }) => pages)).toHaveLength(1);
    expect(order.view(filter)).toBe(order.view(filter));
  });
});

describe('while the user is busy with the list', () => {
  test('the order is held, the counts are not, and the view says that it is behind', () => {
    vi.advanceTimersByTime(1000);
    order.hold();
    fleet.set('b', question(1));
    vi.advanceTimersByTime(1500);
    expect(shown()).toEqual(['finished: a b']);
    expect(order.view(noFilter)).toMatchObject({ isBehind: true, summary: { needingAttention: 1 } });
    order.hold();
    vi.advanceTimersByTime(1900);
    expect(shown()).toEqual(['finished: a b']);
    vi.advanceTimersByTime(1200);
    expect(shown()).toEqual(['question: b', 'finished: a']);
    expect(order.view(noFilter).isBehind).toBe(false);
  });

  test('changes of the user are shown immediately', () => {
    order.hold();
    fleet.set('a', { seen: agentEntry('a')[1].sequence });
    order.updateNow();
    expect(shown()).toEqual(['finished: b', 'idle: a']);
  });
});

test('without subscribers the order follows nothing', () => {
  unsubscribe();
  expect(fleet.listeners).toBe(0);
  listener.mockClear();
  fleet.set('b', question(1));
  vi.advanceTimersByTime(60_000);
  expect(listener).not.toHaveBeenCalled();
});

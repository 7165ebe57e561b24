import type { AgentEntry } from '@muster/sdk';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { agentEntry, agentEntryNow, secondsAgo } from '../../../../test/support/samples.ts';
import { SeenAgents } from '../live/model/seen-agents.ts';
import { noFilter } from './filter.ts';
import { Roster } from './roster.ts';

/** A fleet that says what it is told to say. */
class PlayedFleet {
  readonly agents = new Map<string, AgentEntry>();
  readonly state = { isLoaded: true, error: null };
  readonly #listeners = new Set<() => void>();

  readonly entries = () => this.agents.entries();
  readonly subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  say(name: string, fields: Partial<AgentEntry> = {}): void {
    const [page, entry] = agentEntry(name, fields);
    this.agents.set(page, entry);
    for (const listener of this.#listeners) listener();
  }
  get listeners(): number {
    return this.#listeners.size;
  }
}

const noStorage = { length: 0, setItem() {}, removeItem() {} } as unknown as Storage;
const asks = (since: number): Partial<AgentEntry> => ({
  phaseReason: 'QUESTION',
  phaseSince: secondsAgo(since),
});

let fleet: PlayedFleet;
let seen: SeenAgents;
let roster: Roster;
let leave: () => void;
const told = vi.fn();

const shown = (): string[] =>
  roster.view(noFilter).sections.map(({ attention, pages }) => {
    const names = pages.map((page) => page.slice(page.lastIndexOf('/') + 1));
    return `${attention}: ${names.join(' ')}`;
  });

beforeEach(() => {
  vi.useFakeTimers({ now: agentEntryNow });
  told.mockClear();
  fleet = new PlayedFleet();
  seen = new SeenAgents(noStorage);
  fleet.say('a');
  fleet.say('b');
  roster = new Roster(fleet, seen);
  leave = roster.subscribe(told);
});
afterEach(() => {
  leave();
  vi.useRealTimers();
});

describe('the order', () => {
  test('follows the fleet, a few times a second at most', () => {
    expect(shown()).toEqual(['finished: a b']);
    vi.advanceTimersByTime(300);
    told.mockClear();
    for (let round = 0; round < 100; round += 1) {
      fleet.say('b', asks(round));
      vi.advanceTimersByTime(10);
    }
    expect(shown()).toEqual(['question: b', 'finished: a']);
    expect(told.mock.calls.length).toBeLessThanOrEqual(5);
  });

  test('stays the same array when nobody moved, so that the list is not drawn again', () => {
    const { sections, summary } = roster.view(noFilter);
    fleet.say('a', { cost: 3, rehearsed: true });
    vi.advanceTimersByTime(300);
    expect(roster.view(noFilter).sections).toBe(sections);
    expect(roster.view(noFilter).summary).not.toEqual(summary);
  });

  test('changes with time alone: whoever is silent sinks', () => {
    const works = (createdAt: string) => ({
      phaseReason: 'WORKING' as const,
      createdAt,
      progressAt: secondsAgo(0),
    });
    fleet.say('a', works(secondsAgo(10)));
    fleet.say('b', works(secondsAgo(20)));
    vi.advanceTimersByTime(300);
    expect(shown()).toEqual(['working: a b']);
    fleet.say('b', { ...works(secondsAgo(20)), progressAt: secondsAgo(-50) });
    vi.advanceTimersByTime(70_000);
    expect(shown()).toEqual(['working: b a']);
  });

  test('is there at once for another filter', () => {
    const filter = { ...noFilter, text: 'b' };
    expect(roster.view(filter).sections.flatMap(({ pages }) => pages)).toHaveLength(1);
    expect(roster.view(filter)).toBe(roster.view(filter));
  });
});

describe('while somebody is busy with the list', () => {
  test('the order is held, the counts are not, and the page says that it is behind', () => {
    vi.advanceTimersByTime(1000);
    roster.hold();
    fleet.say('b', asks(1));
    vi.advanceTimersByTime(1500);
    expect(shown()).toEqual(['finished: a b']);
    expect(roster.view(noFilter)).toMatchObject({ isBehind: true, summary: { needed: 1 } });
    roster.hold();
    vi.advanceTimersByTime(1900);
    expect(shown()).toEqual(['finished: a b']);
    vi.advanceTimersByTime(1200);
    expect(shown()).toEqual(['question: b', 'finished: a']);
    expect(roster.view(noFilter).isBehind).toBe(false);
  });

  test('what they do to it themselves is seen at once', () => {
    roster.hold();
    const [page, entry] = agentEntry('a');
    seen.mark([[page, entry]]);
    roster.settle();
    expect(shown()).toEqual(['finished: b', 'idle: a']);
  });
});

test('a page that is left follows nothing any more', () => {
  leave();
  expect(fleet.listeners).toBe(0);
  told.mockClear();
  fleet.say('b', asks(1));
  vi.advanceTimersByTime(60_000);
  expect(told).not.toHaveBeenCalled();
});

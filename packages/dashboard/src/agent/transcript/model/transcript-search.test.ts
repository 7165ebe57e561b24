import type { EntryType, TimelineEntry } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../../../../test/support/async.ts';
import { countText, type SearchPage, TranscriptSearch } from './transcript-search.ts';

const entryOf = (sequence: number, type: EntryType = 'MESSAGE', more: Partial<TimelineEntry> = {}) => ({
  sequence: String(sequence),
  at: '2026-01-01T00:00:00.000Z',
  runId: '1',
  type,
  followUpId: '',
  text: 'a needle',
  data: {},
  ...more,
});

/** Answers each request when the test says so. */
function newSearch(pauseAfter?: number) {
  const asked: { before: string; answer: (page: SearchPage) => void; fail: (error: Error) => void }[] = [];
  const search = new TranscriptSearch(
    (_query, before) => new Promise((answer, fail) => asked.push({ before, answer, fail })),
    () => {},
    pauseAfter,
  );
  const answer = async (sequences: readonly number[], nextSequence = '') => {
    const entries = sequences.map((sequence) => entryOf(sequence));
    asked.shift()?.answer({ entries, nextSequence });
    await eventually(() => expect(search.view.isSearching && asked.length === 0).toBe(false));
  };
  return { search, asked, answer };
}

const needle = { text: 'needle', scope: 'all' } as const;

describe('the search in a transcript', () => {
  it('shows the newest match first, while it goes on reading, and goes around the ends', async () => {
    const { search, asked, answer } = newSearch();
    search.search(needle);
    await answer([30, 40], '30');
    expect(search.view).toMatchObject({ current: 40, matches: [40, 30], isComplete: false });
    expect(countText(search.view)).toBe('1 of 2+');
    search.move(-1);
    expect(search.view.current).toBe(40);
    expect(asked[0]?.before).toBe('30');
    await answer([], '20');
    await answer([10]);
    expect(search.view).toMatchObject({ matches: [40, 30, 10], isComplete: true, isSearching: false });
    search.move(-1);
    expect(countText(search.view)).toBe('3 of 3');
    search.move(1);
    expect(search.view.current).toBe(40);
  });

  it('pauses after many matches, and goes on when the reader gets there', async () => {
    const { search, asked, answer } = newSearch(2);
    search.search(needle);
    await answer([30, 40], '30');
    expect(asked).toEqual([]);
    search.move(1);
    expect(asked[0]?.before).toBe('30');
    await answer([10]);
    expect(countText(search.view)).toBe('2 of 3');
  });

  it('ignores the reply to an earlier search', async () => {
    const { search, asked, answer } = newSearch();
    search.search(needle);
    search.search({ ...needle, text: 'hay' });
    asked.shift()?.answer({ entries: [entryOf(7)], nextSequence: '' });
    await answer([3]);
    expect(search.view.matches).toEqual([3]);
    search.search({ text: ' ', scope: 'all' });
    expect(search.view).toMatchObject({ matches: [], isComplete: true });
    expect(asked).toEqual([]);
  });

  it('finds a delivered message once, and new entries as they come', async () => {
    const { search, asked } = newSearch();
    search.search(needle);
    asked.shift()?.answer({
      entries: [
        entryOf(4, 'FOLLOW_UP_QUEUED', { followUpId: 'f' }),
        entryOf(6, 'FOLLOW_UP_DELIVERED', { followUpId: 'f', text: '' }),
        entryOf(7, 'FOLLOW_UP_QUEUED', { followUpId: 'g' }),
      ],
      nextSequence: '',
    });
    await eventually(() => expect(search.view.isSearching).toBe(false));
    expect(search.view.matches).toEqual([7, 6]);
    search.add([
      entryOf(7),
      entryOf(8, 'MESSAGE', { text: 'hay' }),
      entryOf(9, 'TOOL_CALL', { text: 'NEEDLES' }),
    ]);
    expect(search.view).toMatchObject({ matches: [9, 7, 6], current: 7 });
  });

  it('goes on after an error where it was', async () => {
    const { search, asked, answer } = newSearch();
    search.search(needle);
    await answer([40], '30');
    asked.shift()?.fail(new Error('incident'));
    await eventually(() => expect(search.view.error).toMatchObject({ message: 'incident' }));
    search.tryAgain();
    expect(asked[0]?.before).toBe('30');
    await answer([20]);
    expect(search.view).toMatchObject({ matches: [40, 20], error: null, isComplete: true });
  });
});

import { expect, it } from 'vitest';
import { ordinal, runWords, tryWords } from './run-words.ts';

it('a run that tries the messages of another says so, and which try it is where that is known', () => {
  expect(tryWords({ runId: '4', batch: '4' }, 1)).toBe('');
  expect(tryWords({ runId: '6', batch: '4' }, 3)).toBe('3rd try of run 4');
  expect(tryWords({ runId: '6', batch: '4' }, 0)).toBe('tries run 4 again');
});

it('an ordinal has the ending that one says', () => {
  expect([1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111].map(ordinal)).toEqual([
    ...['1st', '2nd', '3rd', '4th', '11th', '12th', '13th', '21st', '22nd', '101st', '111th'],
  ]);
});

it('a live run is told by its state, an ended one by its outcome', () => {
  expect(runWords({ state: 'RUNNING', outcome: '' })).toBe('Working');
  expect(runWords({ state: 'ENDED', outcome: 'HANDED_BACK' })).toBe('Handed back by its runner');
});

import { expect, test } from 'vitest';
import { type MergeChoice, mergedText, mergeTexts } from './merge-text.ts';

const text = (...lines: string[]) => `${lines.join('\n')}\n`;
const none = new Map<number, MergeChoice>();
const base = text('kind: pool', 'name: x', 'maxRuns: 1', 'vmProfile: a', 'note: old');

test('changes in different places fit together by themselves', () => {
  const mine = text('kind: pool', 'name: x', 'maxRuns: 2', 'vmProfile: a', 'note: old');
  const theirs = text('kind: pool', 'name: x', 'maxRuns: 1', 'vmProfile: a', 'note: new', 'more: yes');
  expect(mergedText(mergeTexts(base, mine, theirs), none)).toBe(
    text('kind: pool', 'name: x', 'maxRuns: 2', 'vmProfile: a', 'note: new', 'more: yes'),
  );
});

test('the same change on both sides is one change', () => {
  const changed = base.replace('maxRuns: 1', 'maxRuns: 7');
  expect(mergedText(mergeTexts(base, changed, changed), none)).toBe(changed);
});

test('a line that both changed waits for a choice, and each choice does what it says', () => {
  const parts = mergeTexts(
    base,
    base.replace('maxRuns: 1', 'maxRuns: 2'),
    base.replace('maxRuns: 1', 'maxRuns: 3'),
  );
  const at = parts.findIndex(({ isConflict }) => isConflict);
  expect(parts[at]).toEqual({
    isConflict: true,
    mine: ['maxRuns: 2'],
    base: ['maxRuns: 1'],
    theirs: ['maxRuns: 3'],
  });
  expect(mergedText(parts, none)).toBeNull();
  const chosen = (choice: MergeChoice) => mergedText(parts, new Map([[at, choice]]));
  expect(chosen('mine')).toBe(base.replace('maxRuns: 1', 'maxRuns: 2'));
  expect(chosen('theirs')).toBe(base.replace('maxRuns: 1', 'maxRuns: 3'));
  expect(chosen('both')).toBe(base.replace('maxRuns: 1', 'maxRuns: 2\nmaxRuns: 3'));
  expect(chosen({ text: 'maxRuns: 5\n' })).toBe(base.replace('maxRuns: 1', 'maxRuns: 5'));
  expect(chosen({ text: '' })).toBe(base.replace('maxRuns: 1\n', ''));
});

test('a line that one removed and the other changed is a conflict, too', () => {
  const parts = mergeTexts(base, base.replace('note: old\n', ''), base.replace('note: old', 'note: new'));
  expect(parts.filter(({ isConflict }) => isConflict)).toHaveLength(1);
});

test('nothing is lost when one side began from nothing', () => {
  const parts = mergeTexts('', text('a: 1'), text('b: 2'));
  const [at] = parts.flatMap((part, place) => (part.isConflict ? [place] : []));
  expect(mergedText(parts, new Map([[at ?? -1, 'both']]))).toMatch(/a: 1\n[\s\S]*b: 2\n/);
});

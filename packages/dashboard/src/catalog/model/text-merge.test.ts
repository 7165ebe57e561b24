import { expect, test } from 'vitest';
import { type MergeChoice, mergedText, mergeTexts } from './text-merge.ts';

const text = (...lines: string[]) => `${lines.join('\n')}\n`;
const none = new Map<number, MergeChoice>();
const base = text('kind: pool', 'name: x', 'maxRuns: 1', 'vmProfile: a', 'note: old');

test('changes of different lines are merged', () => {
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

test('a line that both sides changed is a conflict, and each choice resolves it', () => {
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

test('a line that one side removed and the other changed is a conflict', () => {
  const parts = mergeTexts(base, base.replace('note: old\n', ''), base.replace('note: old', 'note: new'));
  expect(parts.filter(({ isConflict }) => isConflict)).toHaveLength(1);
});

test('both sides are kept when the base is empty', () => {
  const parts = mergeTexts('', text('a: 1'), text('b: 2'));
  const [at] = parts.flatMap((part, place) => (part.isConflict ? [place] : []));
  expect(mergedText(parts, new Map([[at ?? -1, 'both']]))).toMatch(/a: 1\n[\s\S]*b: 2\n/);
});

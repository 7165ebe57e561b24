import { expect, test } from 'vitest';
import { changedWords } from './changed-words.ts';
import { diffLinesOf } from './diff-lines.ts';

const words = (...lines: string[]) => [
  ...changedWords(diffLinesOf(['@@ -1,9 +1,9 @@', ...lines].join('\n'))),
];

test('the words that differ are marked in both lines', () => {
  expect(words('-const vat = 0.19;', '+const vat = 0.2;')).toEqual([
    [1, [14, 16]],
    [2, [14, 15]],
  ]);
});

test('lines are compared in pairs; those without a partner, with little in common or very long are not', () => {
  expect(words('-a b c d', '-e f g h', '+a b c x').map(([line]) => line)).toEqual([1, 3]);
  expect(words('-const vat = 0.19;', '+import everything from nowhere')).toEqual([]);
  expect(words(`-${'a '.repeat(400)}`, `+${'a '.repeat(401)}`)).toEqual([]);
  expect(words('-a', ' b', '+a c')).toEqual([]);
});

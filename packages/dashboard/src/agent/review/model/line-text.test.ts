import { expect, test } from 'vitest';
import { partsOf } from './line-text.ts';

const shown = (...given: Parameters<typeof partsOf>) =>
  partsOf(...given).map(({ text, className, isChanged }) => `${isChanged ? '!' : ''}${className}:${text}`);

test('a line is split where its colour changes, and at changed words', () => {
  expect(shown('const vat = 1;', [5, 2, 7, 0, 1, 4], [10, 13])).toEqual([
    'code-keyword:const',
    ': vat ',
    '!:= ',
    '!code-number:1',
    ':;',
  ]);
  expect(shown('plain', undefined, undefined)).toEqual([':plain']);
  expect(shown('', undefined, undefined)).toEqual([]);
});

test('colours and words of an earlier, longer line do no harm', () => {
  expect(shown('ab', [9, 2, 3, 4], [1, 9])).toEqual(['code-keyword:a', '!code-keyword:b']);
});

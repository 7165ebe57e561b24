import { expect, test } from 'vitest';
import { byteWords, dollars, thousands, unpushedWords } from './words.ts';

test.each([
  [0, '–'],
  [0.0004, '<$0.001'],
  [0.00123, '$0.0012'],
  [0.042, '$0.042'],
  [0.04, '$0.04'],
  [0.0996, '$0.10'],
  [0.25, '$0.25'],
  [2.314, '$2.31'],
  [1234.5, '$1234.50'],
])('%d dollars are %s', (cost, words) => expect(dollars(cost)).toBe(words));

test.each([
  ['0', '0'],
  ['999', '999'],
  ['1000', '1k'],
  ['5200', '5.2k'],
  ['9960', '10k'],
  ['96400', '96k'],
  ['999499', '999k'],
  ['999500', '1M'],
  ['1400000', '1.4M'],
  ['31000000', '31M'],
])('%s tokens are %s', (count, words) => expect(thousands(count)).toBe(words));

test.each([
  [null, ''],
  [{ commits: 0, files: 0 }, ''],
  [{ commits: 1, files: 0 }, '1 commit'],
  [{ commits: 0, files: 1 }, '1 changed file'],
  [{ commits: 2, files: 3 }, '2 commits, 3 changed files'],
])('unpushed work of %o is "%s"', (unpushed, words) => expect(unpushedWords(unpushed)).toBe(words));

test.each([
  [812, '812 B'],
  [5325, '5.2 KiB'],
  [1_048_100, '1 MiB'],
  [33_000_000, '31 MiB'],
])('%d bytes are %s', (bytes, words) => expect(byteWords(bytes)).toBe(words));

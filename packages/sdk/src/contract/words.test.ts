import { expect, test } from 'vitest';
import { dollars, thousands } from './words.ts';

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

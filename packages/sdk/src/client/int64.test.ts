import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compareInt64 } from './int64.ts';

test('64-bit values compare as their numbers do, past 2^53 and below zero too', () => {
  const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
  fc.assert(
    fc.property(int64, int64, (a, b) => {
      expect(Math.sign(compareInt64(String(a), String(b)))).toBe(a < b ? -1 : a > b ? 1 : 0);
    }),
  );
});

test.each([
  ['007', 7, 0],
  ['-0', '0', 0],
  ['9007199254740993', '9007199254740992', 1],
  [-3, '2', -1],
])('compareInt64(%j, %j) is %j', (a, b, sign) => {
  expect(Math.sign(compareInt64(a, b))).toBe(sign);
});

test.each(['', '1.5', 'x', 2 ** 53, Number.NaN])('%j is no 64-bit integer', (value) => {
  expect(() => compareInt64(value, '0')).toThrow(TypeError);
});

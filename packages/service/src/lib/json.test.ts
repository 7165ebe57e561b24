import { describe, expect, it } from 'vitest';
import { unstorableNumber } from './json.ts';

describe('unstorableNumber', () => {
  it.each([
    '0',
    '-0',
    '0.0',
    '0e5',
    '9007199254740991',
    '-9007199254740991',
    '1.5',
    '1e300',
    '1.7976931348623157e308',
    '5e-324',
    '"9007199254740992"',
    '{"a\\\\": "1e999", "b\\"9007199254740993": [true, null]}',
  ])('takes %s', (json) => {
    expect(unstorableNumber(json)).toBeNull();
  });

  it.each([
    ['9007199254740992', '9007199254740992'],
    ['[1, -9007199254740993]', '-9007199254740993'],
    ['{"a": {"b": [1e309]}}', '1e309'],
    ['-1e309', '-1e309'],
    ['1e-400', '1e-400'],
    ['1e20', '1e20'],
    ['9007199254740993.0', '9007199254740993.0'],
  ])('finds in %s the number %s', (json, number) => {
    expect(unstorableNumber(json)).toBe(number);
  });

  it('looks at each character once', () => {
    const digits = '1'.repeat(200_000);
    expect(unstorableNumber(`["${digits}", ${digits}]`)).toBe('1'.repeat(40));
    expect(unstorableNumber(`[${'1,'.repeat(100_000)}1]`)).toBeNull();
  });
});

import { describe, expect, it } from 'vitest';
import { exceededBound, unstorableNumber } from './json.ts';

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

  it('takes linear time', () => {
    const digits = '1'.repeat(200_000);
    expect(unstorableNumber(`["${digits}", ${digits}]`)).toBe('1'.repeat(40));
    expect(unstorableNumber(`[${'1,'.repeat(100_000)}1]`)).toBeNull();
  });
});

describe('exceededBound', () => {
  const bounds = { depth: 3, values: 10 };
  const of = (text: string) => exceededBound(new TextEncoder().encode(text), bounds);

  it('counts levels and values, but not inside strings', () => {
    expect(of('{"a":[[1]]}')).toBeUndefined();
    expect(of('{"a":[[[1]]]}')).toBe('depth');
    expect(of(`"${'[{,'.repeat(50)}"`)).toBeUndefined();
    expect(of('"\\"[[[[["')).toBeUndefined();
    expect(of('"\\\\"[[[[[')).toBe('depth');
    expect(of('[1,2,3,4,5,6,7,8,9]')).toBeUndefined();
    expect(of('[1,2,3,4,5,6,7,8,9,10]')).toBe('values');
    expect(exceededBound(new TextEncoder().encode('[[],{"a":0}]'), { depth: 9, objects: 3 })).toBeUndefined();
    expect(exceededBound(new TextEncoder().encode('[[],{"a":[]}]'), { depth: 9, objects: 3 })).toBe(
      'objects',
    );
  });

  it.each(['[', '{"a":', '"', '\\', '"\\'])('reads any text, here many %j', (text) => {
    expect(() => of(text.repeat(1_000_000))).not.toThrow();
  });
});

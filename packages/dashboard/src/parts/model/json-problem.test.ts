import { describe, expect, test } from 'vitest';
import { jsonProblem } from './json-problem.ts';

describe('the syntax error of a JSON text', () => {
  test.each(['{}', '[]', ' {"a": [1, -2.5e3, true, null, "x\\n\\u00e9"]} ', '"a"', '0'])(
    'is null for %s',
    (text) => expect(jsonProblem(text)).toBeNull(),
  );

  test.each([
    ['{\n  "a": 1\n  "b": 2\n}', 3, 'expected a comma or }'],
    ['{\n  "a": 1,\n}', 3, 'trailing comma before }'],
    ['{\n  a: 1\n}', 2, 'expected a property name in double quotes'],
    ['{\n  "a" 1\n}', 2, 'expected a colon after the property name'],
    ['[1,\n2,\n]', 3, 'trailing comma before ]'],
    ['{"a": }', 1, 'expected a value'],
    ['{"a": "b\n"}', 1, 'the string is not closed or contains an invalid character'],
    ['{\n  "a": {\n\n\n', 2, 'unexpected end of JSON'],
    ['', 1, 'unexpected end of JSON'],
    ['{}\n{}', 2, 'unexpected text after the end of the JSON value'],
    ['{"a": 01}', 1, 'expected a comma or }'],
  ])('of %j is in line %i', (text, line, message) => expect(jsonProblem(text)).toEqual({ line, message }));

  test('is found in a deeply nested text', () => {
    expect(jsonProblem('['.repeat(1000))).toEqual({ line: 1, message: 'unexpected end of JSON' });
  });
});

import { describe, expect, test } from 'vitest';
import { jsonProblem } from './json-problem.ts';

describe('what is wrong with a text that should be JSON', () => {
  test.each(['{}', '[]', ' {"a": [1, -2.5e3, true, null, "x\\n\\u00e9"]} ', '"a"', '0'])(
    'nothing with %s',
    (text) => expect(jsonProblem(text)).toBeNull(),
  );

  test.each([
    ['{\n  "a": 1\n  "b": 2\n}', 3, 'a comma or } is missing here'],
    ['{\n  "a": 1,\n}', 3, 'nothing follows the comma before this }'],
    ['{\n  a: 1\n}', 2, 'a name in double quotes is missing here'],
    ['{\n  "a" 1\n}', 2, 'a colon is missing after the name'],
    ['[1,\n2,\n]', 3, 'nothing follows the comma before this ]'],
    ['{"a": }', 1, 'a value is missing here'],
    ['{"a": "b\n"}', 1, 'this text in quotes does not end, or has a sign it may not'],
    ['{\n  "a": {\n\n\n', 2, 'the text ends too early'],
    ['', 1, 'the text ends too early'],
    ['{}\n{}', 2, 'nothing may follow the end of the value'],
    ['{"a": 01}', 1, 'a comma or } is missing here'],
  ])('%j breaks in line %i', (text, line, message) => expect(jsonProblem(text)).toEqual({ line, message }));

  test('a deep one does not end in an error of the reader itself', () => {
    expect(jsonProblem('['.repeat(1000))).toEqual({ line: 1, message: 'the text ends too early' });
  });
});

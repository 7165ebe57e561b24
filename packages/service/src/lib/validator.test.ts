import { expect, it } from 'vitest';
import { validator } from './validator.ts';

const problemOf = (schema: object, value: unknown): string | undefined =>
  validator(schema as never)(value)?.description;

it.each([
  [{ type: 'string', enum: ['low', 'high'] }, 'extreme', 'must be one of low, high; got "extreme"'],
  [{ enum: ['low'] }, { a: 1 }, 'must be one of low; got an object'],
  [{ type: 'string' }, 5, 'must be a string; got a number'],
  [{ type: ['integer', 'null'] }, [], 'must be an integer; got an array'],
  [{ type: 'object' }, null, 'must be an object; got null'],
  [{ type: 'string', minLength: 1 }, '', 'must not be empty'],
  [{ type: 'string', minLength: 3 }, 'ab', 'must have at least 3 characters; got 2'],
  [{ type: 'string', maxLength: 2 }, 'a👩b', 'must have at most 2 characters; got 3'],
  [{ type: 'array', minItems: 1 }, [], 'must not be empty'],
  [{ type: 'array', maxItems: 1 }, [1, 2], 'must have at most 1 items; got 2'],
  [{ type: 'object', maxProperties: 1 }, { a: 1, b: 2 }, 'must have at most 1 fields; got 2'],
  [{ type: 'integer', minimum: 0 }, -1, 'must be at least 0; got -1'],
  [{ type: 'integer', maximum: 9 }, 10, 'must be at most 9; got 10'],
])('%j says what is expected and what it got: %j', (schema, value, expected) => {
  expect(problemOf(schema, value)).toBe(expected);
});

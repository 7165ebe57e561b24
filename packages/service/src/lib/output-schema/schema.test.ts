import { describe, expect, it } from 'vitest';
import { compileSchema, smallestInstance } from './schema.ts';

const smallest = (schema: unknown) => smallestInstance(compileSchema(JSON.stringify(schema)));

describe('smallestInstance', () => {
  it.each<[unknown, unknown]>([
    [{}, null],
    [true, null],
    [{ type: 'null' }, null],
    [{ type: 'boolean' }, false],
    [{ type: 'integer' }, 0],
    [{ type: 'string' }, ''],
    [{ type: 'array', items: { type: 'string' } }, []],
    [{ type: 'object', properties: { a: { type: 'string' } } }, {}],
    [{ type: ['string', 'null'] }, ''],
    [{ const: { a: 1 } }, { a: 1 }],
    [{ enum: ['b', 'a'] }, 'b'],
    [{ type: 'integer', enum: ['x', 3] }, 3],
  ])('of %j is %j', (schema, instance) => {
    expect(smallest(schema)).toEqual(instance);
  });

  it.each<[unknown, unknown]>([
    [{ type: 'integer', minimum: 3 }, 3],
    [{ type: 'integer', exclusiveMinimum: 3 }, 4],
    [{ type: 'integer', minimum: 5, multipleOf: 4 }, 8],
    [{ type: 'number', minimum: 1.5 }, 1.5],
    [{ type: 'integer', minimum: 1.5 }, 2],
    [{ type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 }, 0.5],
    [{ type: 'integer', maximum: -2 }, -2],
    [{ type: 'integer', exclusiveMaximum: 0 }, -1],
    [{ type: 'string', minLength: 2 }, 'aa'],
    [{ type: 'array', minItems: 2, items: { type: 'integer', minimum: 1 } }, [1, 1]],
    [{ type: 'array', minItems: 3, uniqueItems: true, items: { type: 'integer' } }, [0, 1, 2]],
    [{ type: 'array', contains: { const: 7 } }, [7]],
    [{ type: 'array', minItems: 2, prefixItems: [{ const: 1 }], items: { const: 2 } }, [1, 2]],
  ])('is within the bounds of %j', (schema, instance) => {
    expect(smallest(schema)).toEqual(instance);
  });

  it('has the required fields, also behind references', () => {
    const schema = {
      type: 'object',
      required: ['verdict', 'findings', 'at'],
      additionalProperties: false,
      properties: {
        verdict: { $ref: '#/$defs/verdict' },
        findings: { type: 'array', minItems: 1, items: { $ref: '#/$defs/finding' } },
        at: { type: 'string', format: 'date-time' },
        notes: { type: 'string' },
      },
      $defs: {
        verdict: { enum: ['approve', 'reject'] },
        finding: {
          type: 'object',
          required: ['line'],
          properties: { line: { type: 'integer', minimum: 1 } },
        },
      },
    };
    expect(smallest(schema)).toEqual({
      verdict: 'approve',
      findings: [{ line: 1 }],
      at: '1970-01-01T00:00:00Z',
    });
  });

  it('follows definitions of draft-07', () => {
    const $schema = 'http://json-schema.org/draft-07/schema#';
    expect(smallest({ $schema, $ref: '#/definitions/n', definitions: { n: { const: 4 } } })).toBe(4);
  });

  it('satisfies allOf, and an alternative that works', () => {
    const named = { type: 'object', required: ['a'], properties: { a: { type: 'string' } } };
    const counted = { required: ['b'], properties: { b: { type: 'integer', minimum: 2 } } };
    expect(smallest({ allOf: [named, counted] })).toEqual({ a: '', b: 2 });
    expect(smallest({ anyOf: [{ type: 'string', minLength: 1 }, { type: 'null' }] })).toBe('a');
    expect(smallest({ oneOf: [{ type: 'integer' }, { type: 'number' }, { type: 'string' }] })).toBe('');
    expect(smallest({ not: { type: 'null' } })).toBe(false);
    expect(smallest(JSON.parse('{"if":{"type":"string"},"then":{"minLength":3},"else":false}'))).toBe('aaa');
  });

  it('ends a recursive schema where that is possible', () => {
    const node = {
      type: 'object',
      required: ['next'],
      properties: { next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
    };
    expect(smallest(node)).toEqual({ next: null });
    expect(
      smallest({ type: 'object', required: ['next'], properties: { next: { $ref: '#' } } }),
    ).toBeUndefined();
    expect(smallest({ allOf: [{ type: 'string' }, { type: 'integer' }] })).toBeUndefined();
  });

  it.each([
    '^[A-Z]{2}-\\d+$',
    '^(foo|bar)?baz$',
    '^[^a]+$',
    '^v\\d+\\.\\d+\\.\\d+$',
    '^#[0-9a-fA-F]{6}$',
    '\\w{3,}',
  ])('matches the pattern %s', (pattern) => {
    expect(smallest({ type: 'string', pattern })).toMatch(new RegExp(pattern, 'u'));
  });

  it.each(['(?!a)b', '(?=x)y', '(a)\\1{2}b(?<!b)'])('is none for the pattern %s', (pattern) => {
    expect(smallest({ type: 'string', pattern })).toBeUndefined();
  });
});

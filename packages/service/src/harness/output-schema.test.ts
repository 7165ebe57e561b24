import { describe, expect, it } from 'vitest';
import { compileOutputSchema } from './output-schema.ts';

const errorsOf = (schema: unknown, value: unknown) =>
  compileOutputSchema(JSON.stringify(schema)).errorsOf(value);

describe('compileOutputSchema', () => {
  it('says what is wrong, and nothing when the value fits', () => {
    const schema = { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } };
    expect(errorsOf(schema, { ok: true })).toEqual([]);
    expect(errorsOf(schema, { ok: 1 })).toEqual(['/ok must be boolean']);
    expect(errorsOf(schema, {})).toEqual(["the output must have required property 'ok'"]);
  });

  it('reads draft 2020-12 unless the schema says draft-07', () => {
    const tuple = [{ type: 'string' }];
    expect(errorsOf({ prefixItems: tuple }, [1])).not.toEqual([]);
    const draft7 = 'http://json-schema.org/draft-07/schema#';
    expect(errorsOf({ $schema: draft7, items: tuple }, [1])).not.toEqual([]);
    expect(errorsOf({ $schema: draft7, items: tuple }, ['a'])).toEqual([]);
  });

  it('refuses what is no schema', () => {
    expect(() => compileOutputSchema('{')).toThrow();
    expect(() => compileOutputSchema('{"type":"nothing"}')).toThrow();
  });

  it('ends a pattern that would run for ever', () => {
    expect(errorsOf({ pattern: '^(a+)+$' }, `${'a'.repeat(60)}!`).join()).toContain('could not be checked');
  });
});

import { describe, expect, test } from 'vitest';
import { builtin, builtinNames, kindOf, kinds, kindTable, serverFieldsOf } from './kinds.ts';
import type { Schema } from './schema.ts';

/** The kinds that fields of a schema name. */
const namedIn = (schema: Schema): string[] => [
  ...(schema.names === undefined ? [] : [schema.names]),
  ...[
    ...Object.values(schema.properties ?? {}),
    ...(schema.anyOf ?? []),
    ...[schema.items, schema.additionalProperties].filter((inner) => typeof inner === 'object'),
  ].flatMap(namedIn),
];

describe.each(kinds)('the entry of %s', (kind) => {
  const { schema, aliases = [], template = [], form = [], secret, prose } = kindTable[kind];
  const known = Object.keys(schema.properties);

  test('names only kinds and fields that exist', () => {
    for (const name of namedIn(schema)) expect(kinds).toContain(name);
    const asked = [...template, ...form.map(({ field }) => field), ...(prose ? [prose] : [])];
    expect(known).toEqual(expect.arrayContaining(asked));
    if (secret?.isSealed) expect(known).toContain(secret.field);
    else if (secret) expect([...known, ...serverFieldsOf(kind)]).not.toContain(secret.field);
  });

  test('has builtin documents with known fields only', () => {
    for (const name of builtinNames(kind))
      expect(['name', ...known]).toEqual(expect.arrayContaining(Object.keys(builtin(kind, name) ?? {})));
  });

  test('is found by its names', () => {
    for (const name of [kind, `${kind}s`, kind.toUpperCase(), ...aliases]) expect(kindOf(name)).toBe(kind);
  });
});

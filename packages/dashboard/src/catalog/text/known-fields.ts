import { documents, type Kind, type Schema } from '@muster/sdk/contract';

/** A field that the contract knows, in words for the one who writes it. */
export interface KnownField {
  readonly name: string;
  readonly type: string;
  readonly meaning: string;
  readonly example: unknown;
}

export const schemaOf = (kind: Kind): Schema => documents[kind];

export const knownFields = (kind: Kind): readonly KnownField[] => fieldsOf(schemaOf(kind));

export const fieldsOf = ({ properties = {} }: Schema): readonly KnownField[] =>
  Object.entries(properties).map(([name, schema]) => ({
    name,
    type: typeWords(schema),
    meaning: schema.description ?? '',
    example: (schema.examples as readonly unknown[] | undefined)?.[0] ?? '',
  }));

const words: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'whole number',
  number: 'number',
  boolean: 'true or false',
  object: 'fields',
};

/** `list of text`, `true or false`: what stands behind the name. */
export function typeWords(schema: Schema): string {
  const [type = ''] = [schema.type ?? []].flat();
  if (schema.format === 'date-time') return 'time';
  if (schema.enum) return 'a choice';
  if (schema.anyOf) return [...new Set(schema.anyOf.map(typeWords))].join(' or ');
  if (type === 'array') return `list of ${schema.items ? typeWords(schema.items) : 'anything'}`;
  return words[type] ?? 'anything';
}

/** What a scalar field can only be; empty where anything of its type goes. */
export function valuesOf(schema: Schema): readonly string[] {
  if (schema.enum) return schema.enum.filter(Boolean).map(String);
  return schema.type === 'boolean' ? ['true', 'false'] : [];
}

export const isNested = (schema: Schema): boolean => /array|object/.test([schema.type ?? []].flat().join());

/** What a field holds, one level down: of a list what its items are, of a choice the one that has fields. */
export function schemaBelow(schema: Schema, name: string): Schema | undefined {
  const more = schema.additionalProperties;
  let below = schema.properties?.[name] ?? (typeof more === 'object' ? more : undefined);
  while (below?.items) below = below.items;
  return below?.anyOf?.find(({ properties }) => properties) ?? below;
}

import { Validator } from '@cfworker/json-schema';
import { type Kind, kindTable, type Schema } from '@muster/sdk/contract';

/** A field of the contract's schema. */
export interface KnownField {
  readonly name: string;
  readonly type: string;
  readonly meaning: string;
  readonly example: unknown;
}

export const schemaOf = (kind: Kind): Schema => kindTable[kind].schema;

export const knownFields = (kind: Kind): readonly KnownField[] => fieldsOf(schemaOf(kind));

/** The document that a new resource starts with. */
export const templateOf = (kind: Kind): Record<string, unknown> =>
  Object.fromEntries(
    knownFields(kind)
      .filter(({ name }) => kindTable[kind].template?.includes(name))
      .map(({ name, example }) => [name, example]),
  );

export const fieldsOf = ({ properties = {} }: Schema): readonly KnownField[] =>
  Object.entries(properties).map(([name, schema]) => ({
    name,
    type: typeText(schema),
    meaning: schema.description ?? '',
    example: (schema.examples as readonly unknown[] | undefined)?.[0] ?? '',
  }));

/** Each type alone, and in a list. */
const typeTexts: Readonly<Record<string, readonly [one: string, many: string]>> = {
  string: ['text', 'texts'],
  integer: ['whole number', 'whole numbers'],
  number: ['number', 'numbers'],
  boolean: ['true or false', 'true or false'],
  object: ['object', 'objects'],
};

/** `list of texts`, `true or false`, `one of a, b`. */
function typeText(schema: Schema, isMany = false): string {
  const [type = ''] = [schema.type ?? []].flat();
  if (schema.format === 'date-time') return isMany ? 'times' : 'time';
  if (schema.enum) return `one of ${schema.enum.filter(Boolean).join(', ')}`;
  if (schema.names !== undefined)
    return isMany ? `${schema.names} names` : `name of ${article(schema.names)}`;
  if (schema.anyOf) return [...new Set(schema.anyOf.map((branch) => typeText(branch, isMany)))].join(' or ');
  if (type === 'array')
    return schema.items?.enum
      ? `list; ${typeText(schema.items)}`
      : `list of ${typeText(schema.items ?? {}, true)}`;
  return typeTexts[type]?.[isMany ? 1 : 0] ?? (isMany ? 'values' : 'any value');
}

/** The kinds whose resources documents of this kind name. */
export function namedKinds(kind: Kind): readonly Kind[] {
  const found = new Set<Kind>();
  const look = (schema: Schema | boolean | undefined): void => {
    if (typeof schema !== 'object') return;
    if (schema.names !== undefined) found.add(schema.names as Kind);
    for (const inner of [...Object.values(schema.properties ?? {}), ...(schema.anyOf ?? [])]) look(inner);
    look(schema.items);
    look(schema.additionalProperties);
  };
  look(schemaOf(kind));
  return [...found];
}

/** The allowed values of a scalar field; empty if any value of its type is allowed. */
export function valuesOf(schema: Schema): readonly string[] {
  if (schema.enum) return schema.enum.filter(Boolean).map(String);
  return schema.type === 'boolean' ? ['true', 'false'] : [];
}

export const isNested = (schema: Schema): boolean => /array|object/.test([schema.type ?? []].flat().join());

/** The schema of a field: of a list the schema of its items, of an `anyOf` the branch that has fields. */
export function schemaBelow(schema: Schema, name: string): Schema | undefined {
  const more = schema.additionalProperties;
  let below = schema.properties?.[name] ?? (typeof more === 'object' ? more : undefined);
  while (below?.items) below = below.items;
  return below?.anyOf?.find(({ properties }) => properties) ?? below;
}

/** The names and indexes that lead to a value in a document. */
export type FieldPath = readonly (string | number)[];

/** `['tasks', 2, 'subject']` → `tasks[2].subject`, as the service writes it. */
const fieldPathText = (path: FieldPath): string =>
  path.reduce<string>(
    (text, part) => (typeof part === 'number' ? `${text}[${part}]` : text ? `${text}.${part}` : part),
    '',
  );

interface FieldProblem {
  readonly path: FieldPath;
  readonly message: string;
}

const validators = new Map<Kind, Validator>();

function validatorOf(kind: Kind): Validator {
  const made = validators.get(kind) ?? new Validator(schemaOf(kind) as object, '2020-12', false);
  validators.set(kind, made);
  return made;
}

/** These keywords only report that a value inside is invalid. */
const containers = ['properties', 'items', 'additionalProperties'];

/** All invalid known fields, as the service would reject them. A null field counts as absent. */
export function schemaProblems(kind: Kind, fields: Readonly<Record<string, unknown>>): FieldProblem[] {
  const present = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
  const errors = validatorOf(kind)
    .validate(present)
    .errors.filter(({ keyword }) => !containers.includes(keyword));
  // Every branch of an `anyOf` reports errors; the `anyOf` itself knows what was expected.
  const branches = errors.filter(({ keyword }) => keyword === 'anyOf');
  const isBehind = (error: (typeof errors)[number]) =>
    branches.some(
      (branch) =>
        error.keywordLocation.startsWith(`${branch.keywordLocation}/`) &&
        `${error.instanceLocation}/`.startsWith(`${branch.instanceLocation}/`),
    );
  const found = new Map<string, FieldProblem>();
  for (const error of errors) {
    if (found.has(error.instanceLocation) || isBehind(error)) continue;
    const path = pathOf(error.instanceLocation, present);
    found.set(error.instanceLocation, {
      path,
      message: `${fieldPathText(path)} ${problemText(kind, error)}`.trim(),
    });
  }
  return [...found.values()];
}

const partsOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => decodeURI(part).replaceAll('~1', '/').replaceAll('~0', '~'));

function pathOf(pointer: string, document: unknown): FieldPath {
  let value = document;
  return partsOf(pointer).map((part) => {
    const isIndex = Array.isArray(value);
    value = (value as Readonly<Record<string, unknown>>)[part];
    return isIndex ? Number(part) : part;
  });
}

function problemText(
  kind: Kind,
  error: { readonly keyword: string; readonly keywordLocation: string; readonly error: string },
): string {
  const schema = schemaAt(schemaOf(kind), partsOf(error.keywordLocation).slice(0, -1));
  if (schema.expected) return `must be ${schema.expected}`;
  switch (error.keyword) {
    case 'type':
      return `must be ${[schema.type ?? []].flat().map(article).join(' or ')}`;
    case 'enum':
      return `must be one of ${(schema.enum ?? []).filter(Boolean).join(', ')}`;
    case 'minimum':
      return `must be at least ${schema.minimum}`;
    case 'maxLength':
      return `must have at most ${schema.maxLength} characters`;
    case 'maxItems':
      return `must have at most ${schema.maxItems} entries`;
    default:
      return `is not valid: ${error.error}`;
  }
}

const schemaAt = (schema: Schema, parts: readonly string[]): Schema =>
  parts.reduce<Schema>((inner, part) => inner[part] as Schema, schema);

const article = (type: string): string => (/^[aeio]/.test(type) ? `an ${type}` : `a ${type}`);

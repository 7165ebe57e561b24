import { Validator } from '@cfworker/json-schema';
import { documents, type Kind, type Schema } from '@muster/sdk/contract';
import { type FieldPath, pathWords } from './field-path.ts';

/** A value that its field does not take. */
export interface FieldProblem {
  readonly path: FieldPath;
  readonly message: string;
}

const validators = new Map<Kind, Validator>();

function validatorOf(kind: Kind): Validator {
  const made = validators.get(kind) ?? new Validator(documents[kind] as object, '2020-12', false);
  validators.set(kind, made);
  return made;
}

/** They only say that something below them is wrong. */
const containers = ['properties', 'items', 'additionalProperties'];

/** Known fields of a wrong type, as the service would refuse them, but all at once. A null one counts as absent. */
export function schemaProblems(kind: Kind, fields: Readonly<Record<string, unknown>>): FieldProblem[] {
  const present = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
  const errors = validatorOf(kind)
    .validate(present)
    .errors.filter(({ keyword }) => !containers.includes(keyword));
  // Behind an `anyOf` every branch complains; the branch point itself knows what was expected.
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
      message: `${pathWords(path)} ${complaint(kind, error)}`.trim(),
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
    const isPlace = Array.isArray(value);
    value = (value as Readonly<Record<string, unknown>>)[part];
    return isPlace ? Number(part) : part;
  });
}

function complaint(
  kind: Kind,
  error: { readonly keyword: string; readonly keywordLocation: string; readonly error: string },
): string {
  const schema = schemaAt(documents[kind], partsOf(error.keywordLocation).slice(0, -1));
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

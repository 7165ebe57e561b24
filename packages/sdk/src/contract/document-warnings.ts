import { type Kind, kindTable, serverFieldsOf, shownOnceFieldOf } from './kinds.ts';
import { limits } from './limits.ts';
import type { Schema } from './schema.ts';

type Fields = Readonly<Record<string, unknown>>;

export interface FieldWarning {
  readonly field: string;
  readonly description: string;
}

/** A resource that a field names. */
export interface Reference {
  readonly field: string;
  readonly kind: Kind;
  readonly name: string;
}

/** More of them are not looked at, because a document can have very many. */
const mostReferences = 100;

/**
 * Fields of a document that its kind does not know, each with the nearest known name. They are stored as sent, so this is
 * a warning. Fields whose name begins with `x-` are the user's own. The cost is linear in the size of the document: after
 * the first warnings the search ends, and long names are not compared.
 */
export function unknownFields(kind: Kind, document: Fields): FieldWarning[] {
  const found: FieldWarning[] = [];
  const alsoKnown = ['kind', 'name', ...serverFieldsOf(kind), shownOnceFieldOf(kind)];
  for (const { field, name, schema, known } of fieldsIn(document, kindTable[kind].schema, '')) {
    if (schema || !known || name.startsWith('x-') || (field === name && alsoKnown.includes(name))) continue;
    found.push({ field, description: unknownText(name, known) });
    if (found.length >= limits.documentWarnings) break;
  }
  return found;
}

/** The resources that a document names, in fields whose schema has `names`. */
export function referencesIn(kind: Kind, document: Fields): Reference[] {
  const found: Reference[] = [];
  for (const { field, value, schema } of fieldsIn(document, kindTable[kind].schema, '')) {
    if (schema?.names === undefined || typeof value !== 'string' || value === '') continue;
    found.push({ field, kind: schema.names as Kind, name: value });
    if (found.length >= mostReferences) break;
  }
  return found;
}

interface FoundField {
  /** From the top of the document, such as `repos[0].url`. */
  readonly field: string;
  readonly name: string;
  readonly value: unknown;
  /** Undefined if it is not a known field. */
  readonly schema: Schema | undefined;
  /** The fields that are known in its place; undefined if any may be there. */
  readonly known: readonly string[] | undefined;
}

/** The fields of a document and of what is in it, as far as the schema describes them. */
function* fieldsIn(value: unknown, schema: Schema, path: string): Generator<FoundField> {
  if (Array.isArray(value)) {
    if (schema.items)
      for (let at = 0; at < value.length; at += 1) yield* fieldsIn(value[at], schema.items, `${path}[${at}]`);
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  const { properties, additionalProperties } = branchWithFields(schema);
  const known = properties && Object.keys(properties);
  for (const name in value) {
    const field = path === '' ? short(name) : `${path}.${short(name)}`;
    const below = properties && Object.hasOwn(properties, name) ? properties[name] : additionalProperties;
    const inner = typeof below === 'object' ? below : undefined;
    const held = (value as Fields)[name];
    yield { field, name, value: held, schema: inner, known };
    if (inner) yield* fieldsIn(held, inner, field);
  }
}

/** Of an `anyOf`, its branches with fields together. */
const branchWithFields = (schema: Schema): Schema =>
  schema.anyOf
    ? { properties: Object.assign({}, ...schema.anyOf.map(({ properties }) => properties)) }
    : schema;

const longestName = 64;
const short = (name: string): string => (name.length > longestName ? `${name.slice(0, longestName)}…` : name);

function unknownText(name: string, known: readonly string[]): string {
  const nearest = nearestName(name, known);
  if (nearest !== undefined) return `is not a known field; did you mean "${nearest}"?`;
  return known.length === 0 ? 'is not a known field' : `is not a known field; known are ${known.join(', ')}`;
}

/** The known name that was probably meant: it begins with the given name, or few characters differ. */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  if (name.length > longestName) return undefined;
  const given = name.toLowerCase();
  let nearest: string | undefined;
  let least = Math.max(1, Math.floor(given.length / 3)) + 1;
  for (const candidate of known) {
    const other = candidate.toLowerCase();
    const isShortened = given.length >= 3 && other.startsWith(given);
    if (!isShortened && Math.abs(other.length - given.length) >= least) continue;
    const distance = isShortened ? 1 : editDistance(given, other);
    if (distance >= least) continue;
    nearest = candidate;
    least = distance;
  }
  return nearest;
}

/** How many characters have to be inserted, removed, replaced or swapped with their neighbour. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const isSame = a[i - 1] === b[j - 1];
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row[j] = Math.min(
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (isSame ? 0 : 1),
        isSwapped ? (before[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    before = last;
    last = row;
  }
  return last[b.length] ?? 0;
}

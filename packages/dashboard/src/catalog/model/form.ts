import { type Kind, parseDocumentText, type Schema, withHeader } from '@muster/sdk/contract';
import * as yaml from 'yaml';
import { schemaOf, valuesOf } from './document-schema.ts';

type Fields = Readonly<Record<string, unknown>>;

/** The kinds that have a form: the fields that most need, in this order. The others follow behind a heading. */
const commonFields: Partial<Readonly<Record<Kind, readonly string[]>>> = {
  workspace: ['repos', 'environment', 'pool', 'model', 'persona'],
  environment: ['variables', 'setup', 'allowHosts'],
  persona: ['instructions', 'model', 'reasoningEffort'],
  token: ['role', 'account', 'pool', 'expiresAt'],
  integration: ['type', 'url', 'token', 'repos', 'changeRequests', 'triggers'],
};

/** Fields that change nothing by themselves, or that a button of the page is for. */
const leftOut = ['rotate'];

export const hasForm = (kind: Kind): boolean => commonFields[kind] !== undefined;

export interface FormFields {
  readonly common: readonly string[];
  readonly further: readonly string[];
}

export function formFields(kind: Kind): FormFields {
  const common = commonFields[kind] ?? [];
  const known = Object.keys(schemaOf(kind).properties ?? {});
  return { common, further: known.filter((field) => !common.includes(field) && !leftOut.includes(field)) };
}

/** How a value is entered. `text` is for values that only the text can have. */
export type Input =
  | 'choice'
  | 'group'
  | 'lines'
  | 'model'
  | 'name'
  | 'number'
  | 'prose'
  | 'rows'
  | 'secret'
  | 'string'
  | 'text'
  | 'values';

export function inputFor(field: string, schema: Schema, isProse: boolean): Input {
  const types = [schema.type ?? []].flat();
  if (isProse) return 'prose';
  if (schema.names !== undefined) return 'name';
  if (valuesOf(schema).length > 0) return 'choice';
  if (field === 'model') return 'model';
  if (isReference(schema)) return 'secret';
  if (types.includes('array')) return listInput(schema);
  if (types.includes('object')) {
    const { additionalProperties: values } = schema;
    if (typeof values === 'object') return isGiven(values) ? 'values' : 'text';
    return schema.properties ? 'group' : 'text';
  }
  if (types.includes('string') || schema.anyOf) return 'string';
  return types.some((type) => type === 'number' || type === 'integer') ? 'number' : 'text';
}

function listInput({ items = {} }: Schema): Input {
  if (rowFields(items).length > 0) return 'rows';
  return items.type === 'string' ? 'lines' : 'text';
}

/** The fields of an entry that may be written as a text or as an object. The text is the first of them. */
export const rowFields = (items: Schema): readonly (readonly [name: string, schema: Schema])[] =>
  items.anyOf?.[0]?.type === 'string' ? Object.entries(items.anyOf[1]?.properties ?? {}) : [];

const isReference = ({ properties, required }: Schema): boolean =>
  properties?.fromSecret !== undefined && required?.includes('fromSecret') === true;

const isGiven = ({ anyOf = [] }: Schema): boolean =>
  anyOf.some(({ properties }) => properties?.fromSecret !== undefined);

/** What the form can't show as it is written is changed in the text: a text where it expects a list, for example. */
export function fitsInput(input: Exclude<Input, 'text'>, value: unknown, schema: Schema): boolean {
  if (value === undefined || value === null) return true;
  const isObject = typeof value === 'object' && !Array.isArray(value);
  switch (input) {
    case 'group':
      return isObject;
    case 'lines':
      return (
        Array.isArray(value) && value.every((entry) => typeof entry === 'string' && !entry.includes('\n'))
      );
    case 'rows':
      return Array.isArray(value) && value.every((entry) => isRow(entry, schema.items ?? {}));
    case 'values':
      return isObject && Object.values(value).every((given) => sourceOf(given) !== undefined);
    case 'secret':
      return isObject && typeof (value as Fields).fromSecret === 'string' && Object.keys(value).length === 1;
    default:
      return typeof value !== 'object';
  }
}

function isRow(entry: unknown, items: Schema): boolean {
  if (typeof entry === 'string') return true;
  const known = rowFields(items).map(([name]) => name);
  return (
    typeof entry === 'object' &&
    entry !== null &&
    Object.entries(entry).every(([name, value]) => known.includes(name) && typeof value === 'string')
  );
}

/** Where a value comes from. */
export const sources = ['value', 'fromSecret', 'fromRunner'] as const;
export type Source = (typeof sources)[number];

/** `{fromSecret: NAME}` → `['fromSecret', NAME]`; undefined if it is something else. */
export function sourceOf(given: unknown): readonly [source: Source, text: string] | undefined {
  if (typeof given === 'string') return ['value', given];
  if (typeof given !== 'object' || given === null) return undefined;
  const [[source, text] = ['', ''], ...others] = Object.entries(given);
  const isSource = source === 'fromSecret' || source === 'fromRunner';
  return isSource && typeof text === 'string' && others.length === 0 ? [source, text] : undefined;
}

/** The fields of a text, with kind and name if it has them; null if it can't be read. */
export function fieldsIn(kind: Kind, text: string): Fields | null {
  try {
    const parsed = parseDocumentText(yaml, kind, text);
    return 'problem' in parsed ? null : parsed.fields;
  } catch {
    return null;
  }
}

/** The text with another value of a field, undefined removes it; null if the text has to be changed by hand. */
export function withField(
  kind: Kind,
  name: string,
  text: string,
  field: string,
  value: unknown,
): string | null {
  const parsed = parseDocumentText(yaml, kind, text);
  if ('problem' in parsed) return null;
  const { kind: _kind, name: _name, ...fields } = parsed.fields;
  const changed = Object.entries({ ...fields, [field]: value }).filter(([, value]) => value !== undefined);
  return parsed.withFields(withHeader(kind, parsed.fields, name, Object.fromEntries(changed)));
}

import { limits } from '@muster/sdk/contract';
import { exceededBound, isObject } from '../../lib/json.ts';

/**
 * The provider enforces only strict schemas, which have few keywords and require every field. Any other schema becomes
 * part of the instructions. The runner checks the output anyway.
 */
export interface OutputFormat {
  /** For the provider; undefined when it would refuse the schema. */
  readonly strictSchema: unknown;
  /** For the instructions; empty when the provider enforces the schema. */
  readonly instruction: string;
}

export function outputFormat(schemaText: string): OutputFormat | undefined {
  if (schemaText === '') return undefined;
  const schema = withoutDialect(JSON.parse(schemaText));
  if (isStrict(schema)) return { strictSchema: schema, instruction: '' };
  return { strictSchema: undefined, instruction: instructionFor(schema) };
}

const outputBounds = { depth: limits.bodyDepth, values: limits.bodyObjects };

/** The JSON of a last message, with or without a code fence; undefined when it is not JSON, or too large. */
export function structuredOutputIn(text: string): unknown {
  // Not a regular expression, which could take quadratic time for many blank lines.
  const trimmed = text.trim();
  const isFenced = trimmed.startsWith('```') && trimmed.endsWith('```') && trimmed.length > 6;
  if (exceededBound(Buffer.from(text), outputBounds)) return undefined;
  try {
    return JSON.parse(isFenced ? trimmed.slice(3, -3).replace(/^json(?=\s)/, '') : text);
  } catch {
    return undefined;
  }
}

const instructionFor = (schema: unknown): string =>
  `# Output\nA program reads the last message of your turn: it must contain only JSON that is valid for this JSON Schema.\n${JSON.stringify(schema)}`;

const keywords = new Set(
  [
    'type title description enum const properties required additionalProperties items anyOf $ref $defs definitions',
    'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf pattern format minItems maxItems',
  ].flatMap((line) => line.split(' ')),
);

const formats = new Set('date-time time date duration email hostname ipv4 ipv6 uuid'.split(' '));
const types = new Set('object array string number integer boolean null'.split(' '));
const mostDepth = 10;

function isStrict(schema: unknown): boolean {
  return isObject(schema) && schema.type === 'object' && !('anyOf' in schema) && isSupported(schema, 1);
}

function isSupported(schema: unknown, depth: number): boolean {
  if (!isObject(schema) || depth > mostDepth || !Object.keys(schema).every((key) => keywords.has(key)))
    return false;
  const { type, format, properties, items, anyOf, $ref, $defs, definitions } = schema;
  const isConstrained = [type, schema.enum, schema.const, anyOf, $ref].some((value) => value !== undefined);
  const all = (schemas: unknown): boolean =>
    schemas === undefined || Object.values(Object(schemas)).every((each) => isSupported(each, depth + 1));
  return (
    isConstrained &&
    (type === undefined || [type].flat().every((each) => types.has(String(each)))) &&
    (format === undefined || formats.has(String(format))) &&
    ($ref === undefined || (typeof $ref === 'string' && $ref.startsWith('#'))) &&
    (![type].flat().includes('object') || hasOnlyRequiredFields(schema)) &&
    (![type].flat().includes('array') || isObject(items)) &&
    (items === undefined || isSupported(items, depth + 1)) &&
    all(properties) &&
    all(anyOf) &&
    all($defs) &&
    all(definitions)
  );
}

function hasOnlyRequiredFields({
  properties,
  required,
  additionalProperties,
}: Readonly<Record<string, unknown>>): boolean {
  if (additionalProperties !== false || !isObject(properties) || !Array.isArray(required)) return false;
  return Object.keys(properties).every((name) => required.includes(name));
}

/** The provider refuses a schema that names its dialect. */
function withoutDialect(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const { $schema: _, ...rest } = schema;
  return rest;
}

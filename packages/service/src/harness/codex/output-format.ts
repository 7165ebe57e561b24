/**
 * The provider can hold a model to a schema, but only to one in its strict mode, which knows few keywords and wants
 * every field required. Any other schema is written into the instructions. The runner checks what comes back anyway.
 */
export interface Output {
  /** For the provider; undefined when it would refuse it. */
  readonly strictSchema: unknown;
  /** For the instructions; empty when the provider sees to it. */
  readonly instruction: string;
}

export function outputOf(schemaText: string): Output | undefined {
  if (schemaText === '') return undefined;
  const schema = withoutDialect(JSON.parse(schemaText));
  if (isStrict(schema)) return { strictSchema: schema, instruction: '' };
  return { strictSchema: undefined, instruction: instructionFor(schema) };
}

/** The JSON that a last message is, with or without a fence around it; undefined when it is none. */
export function structuredOutputIn(text: string): unknown {
  // Without an expression that could read blank lines over and over: an agent may write very many.
  const trimmed = text.trim();
  const isFenced = trimmed.startsWith('```') && trimmed.endsWith('```') && trimmed.length > 6;
  try {
    return JSON.parse(isFenced ? trimmed.slice(3, -3).replace(/^json(?=\s)/, '') : text);
  } catch {
    return undefined;
  }
}

const instructionFor = (schema: unknown): string =>
  `# Output\nThe last message of your turn is read by a program: it must be nothing but JSON that fits this JSON Schema.\n${JSON.stringify(schema)}`;

const keywords = new Set(
  [
    'type title description enum const properties required additionalProperties items anyOf $ref $defs definitions',
    'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf pattern format minItems maxItems',
  ].flatMap((line) => line.split(' ')),
);

const formats = new Set('date-time time date duration email hostname ipv4 ipv6 uuid'.split(' '));
const types = new Set('object array string number integer boolean null'.split(' '));
const depthMost = 10;

function isStrict(schema: unknown): boolean {
  return isObject(schema) && schema.type === 'object' && !('anyOf' in schema) && fits(schema, 1);
}

function fits(schema: unknown, depth: number): boolean {
  if (!isObject(schema) || depth > depthMost || !Object.keys(schema).every((key) => keywords.has(key)))
    return false;
  const { type, format, properties, items, anyOf, $ref, $defs, definitions } = schema;
  const says = [type, schema.enum, schema.const, anyOf, $ref].some((value) => value !== undefined);
  const all = (schemas: unknown): boolean =>
    schemas === undefined || Object.values(Object(schemas)).every((each) => fits(each, depth + 1));
  return (
    says &&
    (type === undefined || [type].flat().every((each) => types.has(String(each)))) &&
    (format === undefined || formats.has(String(format))) &&
    ($ref === undefined || (typeof $ref === 'string' && $ref.startsWith('#'))) &&
    (![type].flat().includes('object') || hasStrictFields(schema)) &&
    (![type].flat().includes('array') || isObject(items)) &&
    (items === undefined || fits(items, depth + 1)) &&
    all(properties) &&
    all(anyOf) &&
    all($defs) &&
    all(definitions)
  );
}

function hasStrictFields({ properties, required, additionalProperties }: Schema): boolean {
  if (additionalProperties !== false || !isObject(properties) || !Array.isArray(required)) return false;
  return Object.keys(properties).every((name) => required.includes(name));
}

/** The provider knows one dialect, and refuses to be told which. */
function withoutDialect(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const { $schema: _, ...rest } = schema;
  return rest;
}

type Schema = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

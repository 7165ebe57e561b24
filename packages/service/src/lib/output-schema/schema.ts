import { Ajv, type AnySchema, type ErrorObject, type Options } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';

/**
 * A JSON Schema (draft 2020-12, or 07 where it says so). Only the worker thread compiles and evaluates one: callers
 * write schemas, and either step may never end.
 */
export interface Schema {
  /** What is wrong with a value; empty when it is valid. */
  errorsIn(value: unknown): readonly ErrorObject[];
}

/** References are compiled once each and not copied to where they are used, which could double with every level. */
const options: Options = {
  strict: false,
  allErrors: true,
  verbose: true,
  logger: false,
  inlineRefs: false,
  code: { optimize: false },
};
const mostProblems = 20;
const problemLength = 500;

/** Throws an Error that says what is wrong when the text is not a JSON Schema. */
export function compileSchema(text: string): Schema {
  const schema: unknown = JSON.parse(text);
  // One for each schema: names that a schema declares with $id must not meet those of another.
  const ajv = isDraft7(schema) ? new Ajv(options) : new Ajv2020(options);
  formats.default(ajv);
  const validate = ajv.compile(schema as AnySchema);
  return { errorsIn: (value) => (validate(value) ? [] : (validate.errors ?? [])) };
}

function isDraft7(schema: unknown): boolean {
  const dialect = typeof schema === 'object' && schema !== null && '$schema' in schema ? schema.$schema : '';
  return typeof dialect === 'string' && dialect.includes('draft-07');
}

/** The errors as text, few and short enough for a reply. */
export const problemsIn = (schema: Schema, value: unknown): string[] =>
  schema
    .errorsIn(value)
    .slice(0, mostProblems)
    .map((e) => `${e.instancePath || 'the output'} ${e.message ?? 'is not valid'}`.slice(0, problemLength));

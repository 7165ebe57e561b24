import { Ajv, type AnySchema, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';

/** A JSON Schema (draft 2020-12, or 07 where it says so). Only the worker compiles one: both steps may take for ever. */
export interface Schema {
  readonly schema: unknown;
  /** What is wrong with a value; empty when it fits. */
  problemsOf(value: unknown): string[];
}

/** References are compiled once each and not copied to where they are used, which could double with every level. */
const options: Options = {
  strict: false,
  allErrors: true,
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
  return { schema, problemsOf: (value) => (validate(value) ? [] : problemsIn(validate)) };
}

function isDraft7(schema: unknown): boolean {
  const dialect = typeof schema === 'object' && schema !== null && '$schema' in schema ? schema.$schema : '';
  return typeof dialect === 'string' && dialect.includes('draft-07');
}

function problemsIn({ errors }: ValidateFunction): string[] {
  return (errors ?? [])
    .slice(0, mostProblems)
    .map((e) => `${e.instancePath || 'the output'} ${e.message ?? 'is not valid'}`.slice(0, problemLength));
}

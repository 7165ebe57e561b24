import { Ajv, type AnySchema, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { withinTime } from './within-time.ts';

/** A tenant's schema and an agent's output are not ours: a catastrophic `pattern` must not stop the whole runner. */
const checkMs = 1000;

/** A JSON Schema (draft 2020-12, or 07 where it says so) that can be asked what is wrong with a value. */
export interface OutputSchema {
  readonly schema: unknown;
  /** What is wrong with the value, in words; empty when it fits. */
  errorsOf(value: unknown): string[];
}

/** Throws an Error, in words, when the text is not a JSON Schema. */
export function compileOutputSchema(text: string): OutputSchema {
  const schema: unknown = JSON.parse(text);
  const validate = withinTime(checkMs, () => validator(schema));
  return {
    schema,
    errorsOf: (value) => {
      try {
        return withinTime(checkMs, () => (validate(value) ? [] : messagesOf(validate)));
      } catch (error) {
        return [`the output could not be checked: ${String(error instanceof Error ? error.message : error)}`];
      }
    },
  };
}

function validator(schema: unknown): ValidateFunction {
  const options = { strict: false, allErrors: true, logger: false } as const;
  const ajv = isDraft7(schema) ? new Ajv(options) : new Ajv2020(options);
  formats.default(ajv);
  return ajv.compile(schema as AnySchema);
}

function isDraft7(schema: unknown): boolean {
  const dialect = typeof schema === 'object' && schema !== null && '$schema' in schema ? schema.$schema : '';
  return typeof dialect === 'string' && dialect.includes('draft-07');
}

function messagesOf(validate: ValidateFunction): string[] {
  return (validate.errors ?? [])
    .slice(0, 20)
    .map((e) => `${e.instancePath || 'the output'} ${e.message ?? 'is not valid'}`);
}

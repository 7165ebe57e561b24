import { limits } from '@muster/sdk/contract';
import { Ajv, type SchemaObject } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { invalid, type Refusal } from '../domain/refusal.ts';
import { isObject, unsafePlace } from '../lib/json.ts';

// Schemas are only compiled to see whether they can be, and are forgotten again.
const draft2020 = new Ajv2020({ strict: false, logger: false });
const draft07 = new Ajv({ strict: false, logger: false });
formats.default(draft2020 as unknown as Ajv);
formats.default(draft07);

/** An output schema must be a JSON Schema object of draft 2020-12 or 07 that can be compiled. */
export function refuseOutputSchema(text: string): Refusal | null {
  if (Buffer.byteLength(text) > limits.outputSchemaBytes) {
    return invalid('outputSchema', `must be at most ${limits.outputSchemaBytes} bytes`);
  }
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch {
    return invalid('outputSchema', 'must be a JSON Schema as a string; this is not JSON');
  }
  if (!isObject(schema)) return invalid('outputSchema', 'must be a JSON Schema object');
  const unsafe = unsafePlace(schema, limits.documentDepth);
  if (unsafe) return invalid('outputSchema', `${unsafe.path}: ${unsafe.problem}`);
  const dialect = String(schema.$schema ?? '');
  const { $schema: _, ...body } = schema;
  if (dialect && !/draft-07|2020-12/.test(dialect)) {
    return invalid('outputSchema', 'must be of draft 2020-12 or draft 07');
  }
  const ajv = dialect.includes('draft-07') ? draft07 : draft2020;
  try {
    ajv.compile(body as SchemaObject);
    return null;
  } catch (error) {
    return invalid('outputSchema', `is not a valid JSON Schema: ${(error as Error).message}`);
  } finally {
    ajv.removeSchema(body as SchemaObject);
  }
}

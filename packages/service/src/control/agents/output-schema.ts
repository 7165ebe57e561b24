import { hash } from 'node:crypto';
import { limits } from '@muster/sdk/contract';
import { exhausted, invalid, type Refusal } from '../../domain/refusal.ts';
import { isObject, unsafePlace } from '../../lib/json.ts';
import { type SchemaAnswer, schemaWorker } from '../../lib/output-schema/schema-worker.ts';

/** An output schema must be a JSON Schema object of draft 2020-12 or 07, of limited size, that can be compiled. */
export async function refuseOutputSchema(tenant: number, text: string): Promise<Refusal | null> {
  const bytes = Buffer.byteLength(text);
  if (bytes > limits.outputSchemaBytes)
    return invalid('outputSchema', `must be at most ${limits.outputSchemaBytes} bytes; got ${bytes}`);
  const digest = hash('sha256', text);
  const refused = known.has(digest) ? null : refuseShape(text);
  if (refused) return refused;
  const answer = await (known.get(digest) ?? compiled(tenant, text, digest));
  switch (answer.type) {
    case 'done':
      return null;
    case 'bad-schema':
      return invalid('outputSchema', `is not a valid JSON Schema: ${answer.message}`);
    case 'over-limit':
      return invalid('outputSchema', `is too complex to be compiled: ${answer.message}`);
    case 'busy':
      return exhausted(`outputSchema: ${answer.message} for this tenant; retry later`);
  }
}

/** Results for the newest schemas, by digest: many agents are spawned with the same schema. */
const known = new Map<string, Promise<SchemaAnswer>>();
const maxKnown = 1000;

function compiled(tenant: number, schema: string, digest: string): Promise<SchemaAnswer> {
  const answer = schemaWorker.run(`tenant ${tenant}`, { schema }, limits.outputSchemasWaiting);
  known.set(digest, answer);
  for (const oldest of known.keys()) if (known.size > maxKnown) known.delete(oldest);
  const forget = () => known.delete(digest);
  // These depend on how busy the machine is.
  answer.then(({ type }) => (type === 'busy' || type === 'over-limit') && forget(), forget);
  return answer;
}

/** Checks that need one pass over the schema and no compilation. */
function refuseShape(text: string): Refusal | null {
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch {
    return invalid('outputSchema', 'must be a JSON Schema as a string; this is not JSON');
  }
  if (!isObject(schema))
    return invalid('outputSchema', 'must be a JSON Schema that is an object, such as {"type": "object"}');
  const unsafe = unsafePlace(schema, limits.documentDepth);
  if (unsafe) return invalid('outputSchema', `${unsafe.path}: ${unsafe.problem}`);
  const dialect = String(schema.$schema ?? '');
  if (dialect && !/draft-07|2020-12/.test(dialect)) {
    const got = JSON.stringify(dialect.slice(0, 100));
    return invalid('outputSchema', `$schema: must be that of draft 2020-12 or draft 07; got ${got}`);
  }
  const { nodes, references } = sizeOf(schema);
  if (nodes > limits.outputSchemaNodes) {
    return invalid(
      'outputSchema',
      `must have at most ${limits.outputSchemaNodes} objects and arrays; it has ${nodes}`,
    );
  }
  return references > limits.outputSchemaReferences
    ? invalid(
        'outputSchema',
        `must have at most ${limits.outputSchemaReferences} references ($ref); it has ${references}`,
      )
    : null;
}

/** Objects and arrays, and how many of them refer to another place of the schema. */
function sizeOf(schema: Record<string, unknown>): { nodes: number; references: number } {
  let nodes = 0;
  let references = 0;
  const waiting: object[] = [schema];
  for (let node = waiting.pop(); node; node = waiting.pop()) {
    nodes += 1;
    if ('$ref' in node || '$dynamicRef' in node) references += 1;
    for (const inner of Object.values(node))
      if (typeof inner === 'object' && inner !== null) waiting.push(inner);
  }
  return { nodes, references };
}

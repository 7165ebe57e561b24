import type { OutputFormat } from '@anthropic-ai/claude-agent-sdk';

/**
 * Claude returns structured output as the arguments of a tool, which must be an object. Any other schema is put into
 * an object for it, and what comes back is taken out again.
 */
export interface Output {
  readonly format: OutputFormat;
  take(output: unknown): unknown;
}

export function outputOf(schemaText: string): Output | undefined {
  if (schemaText === '') return undefined;
  const schema: unknown = JSON.parse(schemaText);
  if (isObject(schema) && schema.type === 'object')
    return { format: formatOf(schema), take: (output) => output };
  const { $defs, definitions } = isObject(schema) ? schema : {};
  const wrapped = {
    type: 'object',
    properties: { output: schema },
    required: ['output'],
    $defs,
    definitions,
  };
  return { format: formatOf(wrapped), take: (output) => (isObject(output) ? output.output : undefined) };
}

/** Claude knows one dialect and refuses a schema that names another; ours is checked by the runner anyway. */
function formatOf({ $schema: _, ...schema }: Record<string, unknown>): OutputFormat {
  return { type: 'json_schema', schema: JSON.parse(JSON.stringify(schema)) as Record<string, unknown> };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

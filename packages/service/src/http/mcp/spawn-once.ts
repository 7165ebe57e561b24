import { isTerminal, type SpawnRequest } from '@muster/sdk/contract';
import { z } from 'zod';
import type { Spawned } from '../../control/control.ts';
import { isRefusal, type Refusal } from '../../control/refusal.ts';
import { digestOf } from '../../lib/token.ts';
import type { ToolCall } from './tool.ts';

/** A schema comes as an object or as its text; the interface takes the text. */
export const outputSchema = z
  .union([z.string(), z.record(z.string(), z.unknown())])
  .describe('A JSON Schema that its result has to fit.');

export const schemaText = (schema: z.output<typeof outputSchema> | undefined): string | undefined =>
  typeof schema === 'object' ? JSON.stringify(schema) : schema;

/** A model repeats a call that it is unsure of: that is the same spawn, unless the agent that it made has ended. */
export async function spawnOnce(
  { context, caller }: ToolCall,
  body: SpawnRequest,
): Promise<Spawned | Refusal> {
  const { control } = context;
  const holder = await control.find(caller, body.agentId);
  const ended = !isRefusal(holder) && isTerminal(holder.phase) ? holder.id : '';
  return control.spawn(caller, body, digestOf([body, ended]));
}

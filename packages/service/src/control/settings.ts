import { limits, type PersonaDocument, type QueueRequest, type SpawnRequest } from '@muster/sdk/contract';
import type { PersonaCopy, SettingsChange } from '../domain/agent.ts';
import { invalid, isRefusal, type Refusal } from '../domain/refusal.ts';
import type { Catalog } from './catalog/catalog.ts';
import { refuseOutputSchema } from './output-schema.ts';
import { personaTasks } from './tasks.ts';

/** What a spawn or a follow-up sets, with the persona copied as it stands now. Empty leaves a setting unchanged. */
export async function settingsChange(
  catalog: Catalog,
  tenant: number,
  request: Pick<
    SpawnRequest & QueueRequest,
    'agent' | 'model' | 'reasoningEffort' | 'serviceTier' | 'fastMode' | 'outputSchema'
  >,
): Promise<SettingsChange | Refusal> {
  if (request.outputSchema) {
    const refused = await refuseOutputSchema(tenant, request.outputSchema);
    if (refused) return refused;
  }
  const persona = request.agent ? await copyPersona(catalog, tenant, request.agent, 'agent') : undefined;
  if (isRefusal(persona)) return persona;
  return {
    ...(persona && { persona }),
    ...(request.model && { model: request.model }),
    ...(request.reasoningEffort && { reasoningEffort: request.reasoningEffort }),
    ...(request.serviceTier && { serviceTier: request.serviceTier }),
    ...(request.fastMode !== undefined && { fastMode: request.fastMode }),
    ...(request.outputSchema && { outputSchema: request.outputSchema }),
  };
}

export async function copyPersona(
  catalog: Catalog,
  tenant: number,
  name: string,
  field: string,
): Promise<PersonaCopy | Refusal> {
  const document = (await catalog.document(tenant, 'persona', name)) as PersonaDocument | undefined;
  if (!document) return invalid(field, `there is no persona "${name}"`);
  const tasks = personaTasks(name, document.tasks, field);
  if (isRefusal(tasks)) return tasks;
  return {
    name,
    instructions: document.instructions ?? '',
    model: document.model ?? '',
    reasoningEffort: document.reasoningEffort ?? '',
    serviceTier: document.serviceTier ?? '',
    fastMode: document.fastMode ?? null,
    tasks,
  };
}

export function refuseDescription(text: string | undefined, field: string): Refusal | null {
  return text !== undefined && Buffer.byteLength(text) > limits.descriptionBytes
    ? invalid(field, `must be at most ${limits.descriptionBytes} bytes`)
    : null;
}

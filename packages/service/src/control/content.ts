import { limits, type QueueRequest, type SpawnRequest, type TaskInput } from '@muster/sdk/contract';
import { unsafePlace } from '../lib/json.ts';
import { digestOf } from '../lib/token.ts';
import { tasksFrom } from './tasks.ts';

/**
 * A digest of what a request means, to tell a retry from another message under the same id: instants in any zone,
 * defaults written out or left out, and keys in any order are the same. `digestOf` leaves out what is empty.
 */
export const contentDigest = (request: QueueRequest & SpawnRequest): string => {
  const {
    tasks,
    deliverAt,
    outputSchema,
    preempt,
    replace: _,
    followUpId: __,
    agentId,
    persona,
    workspace,
    ...rest
  } = request;
  return digestOf({
    ...rest,
    agentId: agentId && { ...agentId, workspace: agentId.workspace || workspace },
    workspace: agentId ? '' : workspace,
    agent: request.agent || persona,
    tasks: tasks?.map(taskMeaning),
    deliverAt: deliverAt && new Date(deliverAt).toISOString(),
    outputSchema: outputSchema && schemaMeaning(outputSchema),
    preempt: preempt || '',
  });
};

/** A task with no id gets another one with each try. */
const taskMeaning = (input: TaskInput) => ({ ...tasksFrom([input])[0], id: input.id });

/** A schema as JSON, so that white space and the order of its keys are nothing; as text where it is none. */
function schemaMeaning(text: string): unknown {
  if (text.length > limits.outputSchemaBytes) return text;
  try {
    const schema: unknown = JSON.parse(text);
    return unsafePlace(schema, limits.documentDepth) ? text : { schema };
  } catch {
    return text;
  }
}

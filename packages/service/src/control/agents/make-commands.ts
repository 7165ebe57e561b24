import {
  type Kind,
  limits,
  type OwnModels,
  type PersonaDocument,
  type QueueRequest,
  type SpawnRequest,
  type Task,
  type TaskInput,
  type UpdateTaskRequest,
  type WorkspaceDocument,
} from '@muster/sdk/contract';
import type { Identity, PersonaCopy, SettingsChange } from '../../domain/agent.ts';
import { cycleOf, describeCycle } from '../../domain/checklist.ts';
import { merge } from '../../domain/commands/label-agent.ts';
import type { QueueFollowUp, RepeatFollowUp } from '../../domain/commands/queue-follow-up.ts';
import type { SpawnAgent } from '../../domain/commands/spawn-agent.ts';
import type { UpdateTask } from '../../domain/commands/tasks.ts';
import type { Policy } from '../../domain/policy.ts';
import { invalid, isRefusal, type Refusal, refuseDescription } from '../../domain/refusal.ts';
import { mintId, mintTaskId } from '../../lib/ids.ts';
import { unsafePlace } from '../../lib/json.ts';
import { splitUrl } from '../../lib/repositories.ts';
import { digestOf } from '../../lib/token.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Document } from '../catalog/document.ts';
import { refuseOutputSchema } from './output-schema.ts';

/** The models of the service: the one of an agent for which nothing names another, and the operator's own names. */
export interface ServiceModels {
  readonly defaultModel: string;
  readonly ownModels: OwnModels;
}

type DocumentReader = (kind: Kind, name: string) => Promise<Document | undefined>;

/** Reads each document once. */
function readOnce(catalog: Catalog, tenant: number): DocumentReader {
  const documents = new Map<string, Promise<Document | undefined>>();
  return (kind, name) => {
    const id = `${kind}/${name}`;
    const document = documents.get(id) ?? catalog.document(tenant, kind, name);
    documents.set(id, document);
    return document;
  };
}

/** Makes commands from requests, with everything copied into them that they need to know from the catalog. */
export async function spawnCommand(
  catalog: Catalog,
  request: SpawnRequest,
  identity: Identity,
  { defaultModel, ownModels }: ServiceModels,
): Promise<SpawnAgent | Refusal> {
  const read = readOnce(catalog, identity.tenant);
  const personaName = request.agent || request.persona || '';
  if (request.agent && request.persona && request.agent !== request.persona) {
    return invalid('persona', 'differs from agent; give one of the two');
  }
  const [change, document] = await Promise.all([
    settingsChange(read, identity.tenant, { ...request, agent: personaName }),
    read('workspace', identity.workspace || 'default'),
    // What most workspaces use is read together with them.
    read('pool', 'default'),
    read('persona', 'default'),
    read('policy', 'default'),
  ]);
  if (isRefusal(change)) return change;
  const workspace = (document ?? {}) as WorkspaceDocument;
  const pool = workspace.pool || 'default';
  const [missing, persona, policies] = await Promise.all([
    refuseUnresolved(read, workspace, pool),
    change.persona ?? copyPersona(read, workspace.persona || 'default', 'workspace.persona'),
    policiesOf(read, workspace),
  ]);
  if (missing) return missing;
  if (isRefusal(persona)) return persona;
  return {
    type: 'spawn',
    id: mintId(),
    identity,
    description: request.description ?? '',
    expectedOutput: request.expectedOutput ?? '',
    change: { ...change, persona },
    defaultModel: workspace.model || defaultModel,
    ownModels,
    pool,
    policies,
    budgetUsd: request.budgetUsd ?? (identity.path.length === 1 ? usualBudget(policies) : null),
    repos: reposOf(workspace),
    labels: merge({}, request.labels ?? {}),
    tasks: tasksFrom(request.tasks),
    // A child has its parent's workspace, and the caller who spawned the parent was warned.
    warning: document || identity.path.length > 1 ? '' : missingWorkspace(identity.workspace),
  };
}

/** A workspace named `default` need not exist. */
const missingWorkspace = (name: string): string =>
  name === 'default'
    ? ''
    : `The workspace "${name}" has no resource in the catalog: the agent has no repository.`;

const policiesOf = (read: DocumentReader, { policy }: WorkspaceDocument): Promise<Policy[]> =>
  Promise.all(
    [...new Set(['default', policy || 'default'])].map(async (name) => ({
      name,
      document: (await read('policy', name)) ?? null,
    })),
  );

/** The smallest of the policies: a workspace can only narrow that of the tenant. */
function usualBudget(policies: readonly Policy[]): number | null {
  const amounts = policies.flatMap(({ document }) => document?.budgetUsd ?? []);
  return amounts.length > 0 ? Math.min(...amounts) : null;
}

/** A name that resolves to nothing is refused when it is used. */
async function refuseUnresolved(
  read: DocumentReader,
  { environment, policy }: WorkspaceDocument,
  pool: string,
): Promise<Refusal | null> {
  const names = Object.entries({ pool, environment, policy }).filter(([, name]) => name) as [Kind, string][];
  const documents = await Promise.all(names.map(([kind, name]) => read(kind, name)));
  const [kind, name] = names.find((_, i) => !documents[i]) ?? [];
  return kind === undefined
    ? null
    : invalid('agentId.workspace', `the workspace names the ${kind} "${name}", which does not exist`);
}

/** Without credentials: only the runner may see the password in a URL. */
const reposOf = (workspace: WorkspaceDocument): string[] =>
  (workspace.repos ?? [])
    .map((repo) => (typeof repo === 'string' ? repo : (repo.url ?? '')))
    .filter(Boolean)
    .map((url) => splitUrl(url).shownUrl);

export async function queueCommand(
  catalog: Catalog,
  request: QueueRequest,
  tenant: number,
  ownModels: OwnModels,
  attachmentIds: readonly string[] | Refusal,
): Promise<QueueFollowUp | Refusal> {
  const { followUpId, description = '', deliverAt, preempt = false, steer } = request;
  const change = await settingsChange((kind, name) => catalog.document(tenant, kind, name), tenant, request);
  if (isRefusal(change)) return refuseDescription(description, 'description') ?? change;
  if (isRefusal(attachmentIds)) return refuseDescription(description, 'description') ?? attachmentIds;
  // Written out: a field that replaces one of a spread object takes V8 several microseconds.
  return {
    type: 'queue',
    followUpId: followUpId || crypto.randomUUID(),
    replace: request.replace ?? false,
    digest: contentDigest(request),
    minted: !followUpId,
    description,
    tasks: tasksFrom(request.tasks),
    change,
    attachmentIds,
    ownModels,
    preempt,
    deliverAt: deliverAt ? new Date(deliverAt).toISOString() : null,
    steer: steer ?? false,
  };
}

/** For a message that is refused: a known one is answered first. */
export const repeatCommand = (request: QueueRequest): RepeatFollowUp => ({
  type: 'repeat',
  followUpId: request.followUpId ?? '',
  replace: request.replace ?? false,
  digest: contentDigest(request),
});

export const updateTaskCommand = (
  { agentId: _, status, activation, ...fields }: UpdateTaskRequest,
  id: string,
): UpdateTask => ({
  ...fields,
  type: 'updateTask',
  id,
  status: status === 'TASK_STATUS_UNSPECIFIED' ? undefined : status,
  activation: activation && activationFrom(activation),
});

/** What a spawn or a follow-up sets, with a copy of the current persona. Empty leaves a setting unchanged. */
async function settingsChange(
  read: DocumentReader,
  tenant: number,
  request: Pick<
    SpawnRequest & QueueRequest,
    'agent' | 'model' | 'reasoningEffort' | 'serviceTier' | 'fastMode' | 'outputSchema'
  >,
): Promise<SettingsChange | Refusal> {
  const { agent, model, reasoningEffort, serviceTier, fastMode, outputSchema } = request;
  const refused = outputSchema ? await refuseOutputSchema(tenant, outputSchema) : null;
  if (refused) return refused;
  const persona = agent ? await copyPersona(read, agent, 'agent') : undefined;
  if (isRefusal(persona)) return persona;
  const change: { -readonly [Field in keyof SettingsChange]: SettingsChange[Field] } = {};
  if (persona) change.persona = persona;
  if (model) change.model = model;
  if (reasoningEffort) change.reasoningEffort = reasoningEffort;
  if (serviceTier) change.serviceTier = serviceTier;
  if (fastMode !== undefined) change.fastMode = fastMode;
  if (outputSchema) change.outputSchema = outputSchema;
  return change;
}

async function copyPersona(
  read: DocumentReader,
  name: string,
  field: string,
): Promise<PersonaCopy | Refusal> {
  const document = (await read('persona', name)) as PersonaDocument | undefined;
  if (!document) return invalid(field, `persona "${name}" not found`);
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

/** The tasks of a checklist from those of a request: with ids where they are absent, and without a persona. */
export const tasksFrom = (inputs: readonly TaskInput[] | undefined): Task[] =>
  (inputs ?? []).map((input) => ({
    id: input.id || mintTaskId(),
    subject: input.subject ?? '',
    description: input.description ?? '',
    status: statusFrom(input.status),
    blocks: [...new Set(input.blocks)],
    blockedBy: [...new Set(input.blockedBy)],
    activation: activationFrom(input.activation),
    persona: '',
    dedupKey: input.dedupKey ?? '',
    ephemeral: input.ephemeral ?? false,
  }));

const statusFrom = (status: TaskInput['status']): Task['status'] =>
  !status || status === 'TASK_STATUS_UNSPECIFIED' ? 'TASK_STATUS_PENDING' : status;

const activationFrom = (activation: TaskInput['activation']): Task['activation'] =>
  activation?.filesModified ? { filesModified: { pattern: activation.filesModified.pattern ?? '' } } : null;

/** A persona's tasks get new ids with each copy, which no task of another message can have. */
function personaTasks(
  persona: string,
  inputs: readonly TaskInput[] | undefined,
  field: string,
): Task[] | Refusal {
  const tasks = tasksFrom(inputs);
  const cycle = cycleOf(tasks);
  if (cycle) return invalid(field, `persona "${persona}": ${describeCycle(cycle)}`);
  const copies = tasks.map((task) => ({ ...task, id: mintTaskId() }));
  const newIds = new Map(tasks.map(({ id }, i) => [id, copies[i]?.id]));
  const rename = (ids: readonly string[]) => ids.map((id) => newIds.get(id)).filter((id) => id !== undefined);
  return copies.map((task) => ({
    ...task,
    blocks: rename(task.blocks),
    blockedBy: rename(task.blockedBy),
    persona,
  }));
}

type Content = Exclude<keyof (QueueRequest & SpawnRequest), 'followUpId' | 'replace' | 'persona'>;

/**
 * A digest of what a request means, to tell a retry from another message under the same id: instants in any zone,
 * defaults written out or left out, and keys in any order are the same. `digestOf` leaves out what is empty. All fields
 * are written out because spreading a request costs more than its digest; the type lets none be forgotten.
 */
export function contentDigest(
  request: QueueRequest & SpawnRequest,
  agentId?: SpawnRequest['agentId'],
): string {
  const { tasks, deliverAt, outputSchema, workspace } = request;
  const content: Record<Content, unknown> = {
    agentId: agentId && { ...agentId, workspace: agentId.workspace || workspace },
    workspace: agentId ? '' : workspace,
    description: request.description,
    expectedOutput: request.expectedOutput,
    // A task without an id gets another one with each try.
    tasks: tasks?.map((input) => ({ ...tasksFrom([input])[0], id: input.id })),
    agent: request.agent || request.persona,
    model: request.model,
    reasoningEffort: request.reasoningEffort,
    serviceTier: request.serviceTier,
    fastMode: request.fastMode,
    outputSchema: outputSchema && comparableSchema(outputSchema),
    labels: request.labels,
    // 0 is an amount, not an absent one.
    budgetUsd: request.budgetUsd?.toString(),
    preempt: request.preempt || '',
    steer: request.steer || '',
    attachmentIds: request.attachmentIds && [...new Set(request.attachmentIds)],
    deliverAt: deliverAt && new Date(deliverAt).toISOString(),
  };
  return digestOf(content);
}

/** A schema as JSON, so that white space and the order of its keys do not count; invalid ones as text. */
function comparableSchema(text: string): unknown {
  if (text.length > limits.outputSchemaBytes) return text;
  try {
    const schema: unknown = JSON.parse(text);
    return unsafePlace(schema, limits.documentDepth) ? text : { schema };
  } catch {
    return text;
  }
}

import {
  backendOfModel,
  modelExpected,
  type SpawnRequest,
  type WorkspaceDocument,
} from '@muster/sdk/contract';
import type { Identity, Settings } from '../domain/agent.ts';
import { deduplicated, refuseTasks } from '../domain/checklist.ts';
import { merge } from '../domain/commands/label-agent.ts';
import type { SpawnAgent } from '../domain/commands/spawn-agent.ts';
import { invalid, isRefusal, type Refusal } from '../domain/refusal.ts';
import { applied, refuseSettings } from '../domain/settings.ts';
import { mintId } from '../lib/ids.ts';
import { splitUrl } from '../lib/repositories.ts';
import type { Catalog } from './catalog/catalog.ts';
import { copyPersona, settingsChange } from './settings.ts';
import { tasksFrom } from './tasks.ts';

/** Where an agent is spawned, and which model it has when nothing names one. */
export interface SpawnPlace {
  readonly identity: Identity;
  /** Empty for a root. */
  readonly parentModel: () => Promise<string>;
  readonly defaultModel: string;
}

/** Everything a spawn needs to know from the catalog, copied into the command. */
export async function prepareSpawn(
  catalog: Catalog,
  request: SpawnRequest,
  { identity, parentModel, defaultModel }: SpawnPlace,
): Promise<SpawnAgent | Refusal> {
  const personaName = request.agent || request.persona || '';
  if (request.agent && request.persona && request.agent !== request.persona) {
    return invalid('persona', 'differs from agent; give one of the two');
  }
  const [change, document] = await Promise.all([
    settingsChange(catalog, identity.tenant, { ...request, agent: personaName }),
    catalog.document(identity.tenant, 'workspace', identity.workspace || 'default'),
  ]);
  if (isRefusal(change)) return change;
  const workspace = (document ?? {}) as WorkspaceDocument;
  const pool = workspace.pool || 'default';
  const [missing, persona] = await Promise.all([
    refuseUnresolved(catalog, identity.tenant, workspace, pool),
    change.persona ??
      copyPersona(catalog, identity.tenant, workspace.persona || 'default', 'workspace.persona'),
  ]);
  if (missing) return missing;
  if (isRefusal(persona)) return persona;
  const model = change.model || persona.model || (await parentModel()) || workspace.model || defaultModel;
  const backend = backendOfModel(model);
  if (!backend)
    return invalid(change.model ? 'model' : 'agent', `the model "${model}" is unknown; use ${modelExpected}`);
  const unset: Settings = { ...noSettings, model };
  const refused = refuseSettings({ ...change, persona }, unset, backend);
  if (refused) return refused;

  const tasks = tasksFrom(request.tasks);
  const badTasks = refuseTasks(tasks, persona.tasks, [], true);
  if (badTasks) return badTasks;
  return {
    type: 'spawn',
    id: mintId(),
    identity,
    description: request.description ?? '',
    expectedOutput: request.expectedOutput ?? '',
    settings: { ...applied(unset, { ...change, persona }), model },
    backend,
    pool,
    repos: reposOf(workspace),
    labels: merge({}, request.labels ?? {}),
    tasks: [...persona.tasks, ...deduplicated(tasks)],
    // A child has its parent's workspace, of which the parent's caller was told.
    warning: document || identity.path.length > 1 ? '' : missingWorkspace(identity.workspace),
  };
}

/** There may be none of the name `default`. */
const missingWorkspace = (name: string): string =>
  name === 'default'
    ? ''
    : `The workspace "${name}" has no resource in the catalog: the agent has no repository.`;

const noSettings: Settings = {
  persona: '',
  instructions: '',
  model: '',
  reasoningEffort: '',
  serviceTier: '',
  fastMode: false,
  outputSchema: '',
  explicit: [],
};

/** A name that resolves to nothing is refused at use. */
async function refuseUnresolved(
  catalog: Catalog,
  tenant: number,
  workspace: WorkspaceDocument,
  pool: string,
): Promise<Refusal | null> {
  const { environment } = workspace;
  const [hasPool, hasEnvironment] = await Promise.all([
    catalog.document(tenant, 'pool', pool),
    environment ? catalog.document(tenant, 'environment', environment) : true,
  ]);
  if (hasPool && hasEnvironment) return null;
  const missing = hasPool ? `environment "${environment}"` : `pool "${pool}"`;
  return invalid('agentId.workspace', `the workspace names the ${missing}, which does not exist`);
}

/** As everybody may see them: a URL's password is the runner's business. */
const reposOf = (workspace: WorkspaceDocument): string[] =>
  (workspace.repos ?? [])
    .map((repo) => (typeof repo === 'string' ? repo : (repo.url ?? '')))
    .filter(Boolean)
    .map((url) => splitUrl(url).shownUrl);

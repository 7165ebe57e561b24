import {
  type Backend,
  backendOfModel,
  isTerminal,
  limits,
  modelExpected,
  type OwnModels,
  type Task,
} from '@muster/sdk/contract';
import {
  type Agent,
  type AgentState,
  type Identity,
  type Labels,
  newAgent,
  type PersonaCopy,
  type Settings,
  type SettingsChange,
} from '../agent.ts';
import { deduplicated, joined, refuseTasks } from '../checklist.ts';
import { type Decision, decided } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { type Policy, refusePolicy } from '../policy.ts';
import {
  alreadyExists,
  exhausted,
  invalid,
  isRefusal,
  precondition,
  type Refusal,
  refuseDescription,
} from '../refusal.ts';
import { applied, refuseSettings } from '../settings.ts';
import { pend } from '../settle.ts';

import { refuseAllotted } from './set-budget.ts';

export interface SpawnAgent {
  readonly type: 'spawn';
  readonly id: string;
  /** An empty workspace takes the parent's. */
  readonly identity: Identity;
  readonly description: string;
  readonly expectedOutput: string;
  /** With the persona that the request names, else that of the workspace. */
  readonly change: SettingsChange & { readonly persona: PersonaCopy };
  /** The model where neither the request nor the persona nor the parent has one. */
  readonly defaultModel: string;
  /** The model names that the operator added. */
  readonly ownModels?: OwnModels;
  readonly pool: string;
  /** Those of the tenant and of the workspace. */
  readonly policies?: readonly Policy[];
  /** The own budget of the agent; null if it has none. */
  readonly budgetUsd: number | null;
  readonly repos: readonly string[];
  readonly labels: Labels;
  readonly tasks: readonly Task[];
  /** Of the request. */
  readonly traceparent?: string | undefined;
  /** For the caller; empty if there is none. */
  readonly warning: string;
}

/** A new agent, waiting for its first run. The root of its tree is locked, so no kill can miss it. */
export function spawnAgent(
  loaded: LoadedAgents,
  command: SpawnAgent,
  parent: AgentState | null,
): Decision<AgentState> {
  const settings = firstSettings(command, parent);
  if (isRefusal(settings)) return settings;
  const tasks = firstTasks(command);
  if (isRefusal(tasks)) return tasks;
  const refused =
    (parent ? refuseParent(loaded, command, parent) : null) ?? refusePolicy(settings, command.policies ?? []);
  if (refused) return refused;
  const identity = { ...command.identity, workspace: parent?.agent.workspace ?? command.identity.workspace };
  const path = identity.path.join('/');

  const drafts: Draft[] = [];
  const holder = loaded.holder(identity);
  if (holder) {
    if (!isTerminal(holder.agent.phase) || loaded.liveDescendants(holder.agent.id) > 0) {
      return alreadyExists(`the agent ${path} exists in workspace ${identity.workspace} and has not ended`);
    }
    const former = Draft.of(holder, loaded.now);
    former.set({ current: false });
    drafts.push(former);
  }

  const { description, expectedOutput, repos, traceparent } = command;
  const { backend, ...agentSettings } = settings;
  const agent = newAgent({
    id: command.id,
    identity,
    parent: parent?.agent ?? null,
    pool: command.pool,
    backend,
    labels: command.labels,
    settings: agentSettings,
    budgetUsd: command.budgetUsd,
    now: loaded.now,
  });
  const draft = Draft.create(agent, { description, expectedOutput, repos, traceparent }, tasks, loaded.now);
  draft.log('AGENT_SPAWNED', {
    text: description,
    data: { model: settings.model, persona: settings.persona, backend: settings.backend },
  });
  if (command.warning) draft.log('WARNING', { text: command.warning });
  pend(draft);
  drafts.push(draft);
  if (parent) {
    const above = Draft.of(parent, loaded.now);
    above.log('CHILD_SPAWNED', { text: path, data: { child: identity.path } });
    drafts.push(above);
  }
  return decided(loaded, draft.state, drafts);
}

/** What is wrong with a spawn whose parent was not found. */
export function refuseSpawn(command: SpawnAgent): Refusal | null {
  const first = [firstSettings(command, null), firstTasks(command)];
  return first.find(isRefusal) ?? null;
}

export const otherWorkspace = (given: string, parent: Agent): Refusal =>
  invalid('agentId.workspace', `must be that of the parent, "${parent.workspace}"; got "${given}"`);

function refuseParent(
  loaded: LoadedAgents,
  { identity, budgetUsd }: SpawnAgent,
  { agent }: AgentState,
): Refusal | null {
  const path = agent.path.join('/');
  if (identity.workspace && identity.workspace !== agent.workspace)
    return otherWorkspace(identity.workspace, agent);
  if (isTerminal(agent.phase)) return precondition('AGENT_ENDED', path, `the parent ${path} has ended`);
  if (loaded.liveDescendants(agent.root) >= limits.liveDescendantsPerRoot) {
    return exhausted(`the tree of ${agent.path[0]} has ${limits.liveDescendantsPerRoot} live agents`);
  }
  return budgetUsd === null ? null : refuseAllotted(loaded, agent.id, budgetUsd, 'budgetUsd');
}

const unset: Settings = {
  persona: '',
  instructions: '',
  model: '',
  reasoningEffort: '',
  serviceTier: '',
  fastMode: false,
  outputSchema: '',
  explicit: [],
};

type FirstSettings = Settings & { readonly backend: Backend };

/** The settings of the first run. They fix the backend for the agent's whole life. */
function firstSettings(
  { change, defaultModel, ownModels, description, expectedOutput }: SpawnAgent,
  parent: AgentState | null,
): FirstSettings | Refusal {
  const tooLong =
    refuseDescription(description, 'description') ?? refuseDescription(expectedOutput, 'expectedOutput');
  if (tooLong) return tooLong;
  const model = change.model || change.persona.model || parent?.agent.settings.model || defaultModel;
  const backend = backendOfModel(model, ownModels);
  if (!backend)
    return invalid(
      change.model ? 'model' : 'agent',
      `the model "${model}" is unknown; use ${modelExpected(ownModels)}`,
    );
  const refused = refuseSettings(change, { ...unset, model }, backend, ownModels);
  return refused ?? { ...applied({ ...unset, model }, change), model, backend };
}

function firstTasks({ tasks, change }: SpawnAgent): Task[] | Refusal {
  const brought = change.persona.tasks;
  return refuseTasks(tasks, brought, [], true) ?? joined([], [...brought, ...deduplicated(tasks)]);
}

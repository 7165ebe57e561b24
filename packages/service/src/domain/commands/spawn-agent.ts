import { type Backend, isTerminal, limits, type Task } from '@muster/sdk/contract';
import {
  type Agent,
  type AgentState,
  freshMemory,
  type Identity,
  type Labels,
  noUsage,
  type Settings,
} from '../agent.ts';
import { joined, mirrored } from '../checklist.ts';
import { type Decision, decided } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { alreadyExists, exhausted, invalid, notFound, precondition, type Refusal } from '../refusal.ts';
import { pend } from '../settle.ts';

export interface SpawnAgent {
  readonly type: 'spawn';
  readonly id: string;
  /** An empty workspace takes the parent's. */
  readonly identity: Identity;
  readonly description: string;
  readonly expectedOutput: string;
  readonly settings: Settings;
  readonly backend: Backend;
  readonly pool: string;
  readonly repos: readonly string[];
  readonly labels: Labels;
  readonly tasks: readonly Task[];
  /** What its caller should know, or nothing. */
  readonly warning: string;
}

/** A new agent, waiting for its first run. The root of its tree is locked, so no kill can miss it. */
export function spawnAgent(
  loaded: LoadedAgents,
  command: SpawnAgent,
  parent: AgentState | Refusal | null,
): Decision<AgentState> {
  if (parent && 'refused' in parent) return parent;
  const above = parent ? refuseParent(loaded, command, parent) : null;
  if (above) return above;
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

  const draft = Draft.create(newAgent(command, identity, parent, loaded.now), [], loaded.now);
  draft.checklist = mirrored(joined([], command.tasks));
  draft.log('AGENT_SPAWNED', {
    text: command.description,
    data: { model: command.settings.model, persona: command.settings.persona, backend: command.backend },
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

function refuseParent(loaded: LoadedAgents, { identity }: SpawnAgent, { agent }: AgentState): Refusal | null {
  const path = agent.path.join('/');
  if (identity.workspace && identity.workspace !== agent.workspace) {
    return invalid('agentId.workspace', `a child has its parent's workspace, "${agent.workspace}"`);
  }
  if (isTerminal(agent.phase)) return precondition('AGENT_ENDED', path, `the parent ${path} has ended`);
  if (loaded.liveDescendants(agent.root) >= limits.liveDescendantsPerRoot) {
    return exhausted(`the tree of ${agent.path[0]} has ${limits.liveDescendantsPerRoot} live agents`);
  }
  return null;
}

export const missingParent = (path: readonly string[]): Refusal =>
  notFound(`the parent agent ${path.slice(0, -1).join('/')} does not exist`);

function newAgent(command: SpawnAgent, identity: Identity, parent: AgentState | null, now: string): Agent {
  return {
    tenant: identity.tenant,
    ownerProvider: identity.ownerProvider,
    account: identity.account,
    workspace: identity.workspace,
    path: identity.path,
    id: command.id,
    root: parent?.agent.root ?? command.id,
    parent: parent?.agent.id ?? null,
    ancestors: parent ? [...parent.agent.ancestors, parent.agent.id] : [],
    current: true,
    pool: command.pool,
    backend: command.backend,
    description: command.description,
    expectedOutput: command.expectedOutput,
    repos: command.repos,
    labels: command.labels,
    createdAt: now,
    phase: 'PHASE_UNSPECIFIED',
    reason: 'STARTING',
    since: now,
    claimableAt: null,
    runCount: 0,
    sequence: 0,
    queued: 0,
    deferred: 0,
    nextDeliverAt: null,
    progressAt: now,
    endedAt: null,
    settings: command.settings,
    memory: freshMemory,
    result: { response: '', structuredOutput: null, error: null, branch: '' },
    usage: noUsage,
    home: null,
    deferral: null,
    rehearsed: null,
    sandboxed: null,
    session: '',
    unpushed: null,
    checkpointAt: null,
  };
}

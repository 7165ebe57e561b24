import type { WorkspaceDocument } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Catalog } from '../control/catalog/catalog.ts';
import { type ServiceModels, spawnCommand } from '../control/make-commands.ts';
import type { Reads } from '../control/read.ts';
import type { Tenants } from '../control/tenants.ts';
import type { Transact } from '../control/transact.ts';
import { agentIdOfAgent, dashboardUrl } from '../control/views.ts';
import type { AgentState, Identity } from '../domain/agent.ts';
import { isRefusal } from '../domain/refusal.ts';
import { digestOf } from '../lib/token.ts';
import { askByNumber, findTriggered, saveTriggered } from '../store/statements/change-requests.ts';
import { insertItems } from '../store/statements/outbox.ts';
import type { ChangeRequests } from './change-requests.ts';
import type { HostEvent, Permission, Person, RepoPath } from './host.ts';
import { type Integration, IntegrationError } from './integrations.ts';
import { triggerAgainMessage, triggerMessage } from './messages.ts';
import { messageId, recordName, repoAt } from './names.ts';

/** Why an event had no effect; null if it had one. */
export type Ignored = string | null;

type TriggerEvent = Extract<HostEvent, { type: 'trigger' }>;

export interface TriggersOptions {
  readonly database: pg.Pool;
  readonly catalog: Catalog;
  readonly reads: Reads;
  readonly tenants: Tenants;
  readonly transact: Transact;
  readonly changeRequests: ChangeRequests;
  readonly publicUrl: () => string;
  readonly models: ServiceModels;
}

/** Another trigger of the same issue spawns its agent at this moment, or an agent of another origin has its name. */
export class NameTakenError extends IntegrationError {}

interface SpawnedAgent {
  readonly id: string;
  readonly url: string;
}

/** Issues and change requests that ask for an agent. One agent works on each; a second request is a message to it. */
export class Triggers {
  readonly #options: TriggersOptions;

  constructor(options: TriggersOptions) {
    this.#options = options;
  }

  async handle(
    integration: Integration,
    deliveryId: string,
    sender: Person | null,
    event: TriggerEvent,
  ): Promise<Ignored> {
    const { database, changeRequests } = this.#options;
    const { tenant, name } = integration;
    const { repo, subject } = event;
    const self = await integration.host.self();
    if (!sender || sender.id === self.id) return "the integration's own account did this";
    const unwanted = refuseTrigger(integration, event, self);
    if (unwanted) return unwanted;
    const unheard = await changeRequests.refuseToHear(integration, repo, sender);
    if (unheard) return unheard;
    const permission = await changeRequests.permissionOf(integration, repo, sender);
    if (subject.type === 'change-request') {
      // A comment on the change request of an agent reaches it as such.
      const asked = await askByNumber(database, tenant, name, repo, subject.number);
      if (asked.length > 0) return null;
      const request = await integration.host.changeRequest(repo, subject.number);
      if (request.isFork) return 'the change request is from a fork';
    }
    const [agent] = await findTriggered(database, tenant, name, repo, subject.type, subject.number);
    // It spawned this agent before.
    if (agent?.delivery === deliveryId) return null;
    const record = recordName(name, repo, subject.number, subject.type);
    if (agent && agent.phase !== 'PHASE_CANCELED') {
      if (event.by !== 'mention' && !integration.host.capabilities.namesAdditions)
        return 'an agent works on it, and the host does not say what was added';
      if (isFound(agent.delivery, event)) return 'it was found at the host before this delivery arrived';
      const description = triggerAgainMessage(repo, event, sender, permission);
      const id = messageId(record, 'trigger', deliveryId);
      const told = await changeRequests.tell({ tenant, id: agent.id }, { description, tasks: [] }, id);
      return isRefusal(told) ? told.message : null;
    }
    const workspace = integration.workspace || (await this.#workspaceOf(integration, repo));
    if (!workspace) return `no workspace lists the repository ${repo}`;
    const author = await this.#permissionOfAuthor(integration, repo, event.author, sender, permission);
    const description = triggerMessage(repo, event, sender, { sender: permission, author });
    const spawned = await this.#spawn(integration, deliveryId, record, workspace, description);
    if (typeof spawned === 'string') return spawned;
    await this.#announce(integration, event, record, spawned);
    // At last: after a crash before it, the delivery is processed again from the start.
    const { type, number } = subject;
    await saveTriggered(database, tenant, name, repo, type, number, spawned.id, deliveryId);
    return null;
  }

  async #permissionOfAuthor(
    integration: Integration,
    repo: RepoPath,
    author: Person,
    sender: Person,
    permission: Permission,
  ): Promise<Permission> {
    return author.id === sender.id
      ? permission
      : this.#options.changeRequests.permissionOf(integration, repo, author);
  }

  async #workspaceOf({ tenant, url }: Integration, repo: RepoPath): Promise<string | null> {
    const workspaces = await this.#options.catalog.documents(tenant, 'workspace');
    // Hosts ignore the case of paths, and send it as it was when the repository was named.
    const path = repo.toLowerCase();
    const lists = ({ repos = [] }: WorkspaceDocument) =>
      repos.some(
        (one) => repoAt(url, typeof one === 'string' ? one : (one.url ?? ''))?.toLowerCase() === path,
      );
    return workspaces.find(({ document }) => lists(document as WorkspaceDocument))?.name ?? null;
  }

  /** Spawns the agent, once per delivery; or says why it can't be. */
  async #spawn(
    integration: Integration,
    deliveryId: string,
    record: string,
    workspace: string,
    description: string,
  ): Promise<SpawnedAgent | string> {
    const { catalog, reads, tenants, transact, publicUrl, models } = this.#options;
    const { tenant, name, profile, persona } = integration;
    const identity: Identity = {
      tenant,
      ownerProvider: 'PROVIDER_SERVICE_PROFILE',
      account: profile,
      workspace,
      path: [record],
    };
    const key = {
      tenant,
      keyId: `integration/${name}`,
      key: digestOf(deliveryId),
      digest: digestOf(record),
    };
    const stored = await reads.storedReply(key);
    if (stored) return stored.reply as SpawnedAgent;
    const command = await spawnCommand(catalog, { description, agent: persona }, identity, models);
    if (isRefusal(command)) return command.message;
    const tenantName = await tenants.name(tenant);
    const of = ({ agent }: AgentState): SpawnedAgent => ({
      id: agent.id,
      url: dashboardUrl(publicUrl(), agentIdOfAgent(tenantName, agent)),
    });
    const reply = await transact.command<SpawnedAgent>({ identity }, command, { of, key });
    if (!isRefusal(reply)) return reply;
    // Tried again, it is a message to the agent that the other trigger spawned.
    if (reply.status === 'ALREADY_EXISTS') throw new NameTakenError(reply.message);
    return reply.message;
  }

  /** Comments once, with a link to the agent. */
  async #announce(
    { tenant, name }: Integration,
    { repo, subject }: TriggerEvent,
    record: string,
    { id, url }: SpawnedAgent,
  ): Promise<void> {
    const item = {
      tenant,
      topic: 'codehost',
      target: name,
      lane: record,
      kind: 'comment',
      agent: id,
      data: { repo, subject, body: `An agent works on this: ${url}` },
      key: `triggered/${record}/${id}`,
    } as const;
    await insertItems(this.#options.database, [item], new Date().toISOString());
  }
}

/** A trigger that was found at the host takes the place of its delivery. */
export const foundId = (event: TriggerEvent, at: string): string => {
  const { repo, subject, by } = event;
  return `found/${subject.type}/${repo}/${subject.number}/${by}/${at}`;
};

/** A change within this time after a label or assignment is that of the label itself. */
export const sameChangeMs = 5_000;

/** Whether that delivery is what was found at the host: a later one of the same kind is another trigger. */
function isFound(found: string, event: TriggerEvent): boolean {
  const start = foundId(event, '');
  const at = found.startsWith(start) ? Date.parse(found.slice(start.length)) : Number.NaN;
  return Date.parse(event.updatedAt) <= at + sameChangeMs;
}

/** Why an event is not a trigger of this integration. */
function refuseTrigger({ triggers }: Integration, event: TriggerEvent, self: Person): string | null {
  const { by, value, comment, body, title } = event;
  if (by === 'label')
    return triggers.label && value === triggers.label
      ? null
      : `the integration is not triggered by the label ${value}`;
  if (by === 'assigned')
    return triggers.assigned && value === self.login ? null : 'it was assigned to somebody else';
  const text = comment ? comment.body : `${title}\n${body}`;
  return triggers.mention && mentions(text, triggers.mention) ? null : 'the integration is not mentioned';
}

/** The name as a word of its own. */
function mentions(text: string, name: string): boolean {
  const isPart = (character: string | undefined) => character !== undefined && /[\w-]/.test(character);
  const [where, what] = [text.toLowerCase(), name.toLowerCase()];
  for (let at = where.indexOf(what); at >= 0; at = where.indexOf(what, at + 1)) {
    if (!isPart(where[at - 1]) && !isPart(where[at + what.length])) return true;
  }
  return false;
}

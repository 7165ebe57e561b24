import type pg from 'pg';
import type { Tenants } from '../control/access/tenants.ts';
import { type ServiceModels, spawnCommand } from '../control/agents/make-commands.ts';
import type { Reads } from '../control/agents/read.ts';
import { agentIdOfAgent, dashboardUrl } from '../control/agents/views.ts';
import type { Transact } from '../control/batches/transact.ts';
import type { Catalog } from '../control/catalog/catalog.ts';
import type { AgentState, Identity } from '../domain/agent.ts';
import { isRefusal } from '../domain/refusal.ts';
import { digestOf } from '../lib/token.ts';
import {
  askByNumber,
  findTriggered,
  noteTrigger,
  pathsOfTriggered,
  saveTriggered,
} from '../store/statements/change-requests.ts';
import { HostError } from '../work/host-error.ts';
import type { ChangeRequests } from './change-requests.ts';
import type { Cause, Permission, Person, RepoPath, Trigger, TriggerEvent } from './host.ts';
import { type Integration, IntegrationError, type Integrations } from './integrations.ts';
import { writeItem } from './items.ts';
import { triggerAgainMessage, triggerMessage } from './messages.ts';
import { messageId, recordName } from './names.ts';
import { orRefusal } from './or-refusal.ts';
import type { People } from './people.ts';
import { workspaceOf } from './workspace-of.ts';

/** Why an event had no effect; null if it had one. */
export type Ignored = string | null;

export interface TriggersOptions {
  readonly database: pg.Pool;
  readonly catalog: Catalog;
  readonly reads: Reads;
  readonly tenants: Tenants;
  readonly transact: Transact;
  readonly integrations: Pick<Integrations, 'before' | 'isRenamed'>;
  readonly changeRequests: Pick<ChangeRequests, 'tell' | 'isRenamed'>;
  readonly people: People;
  readonly publicUrl: () => string;
  readonly models: ServiceModels;
}

/** Another trigger of the same issue spawns its agent at this moment, or an agent of another origin has its name. */
export class NameTakenError extends IntegrationError {}

interface SpawnedAgent {
  readonly id: string;
  readonly url: string;
}

/** A trigger that counts. */
interface Wanted {
  readonly integration: Integration;
  readonly trigger: Trigger & { readonly repo: RepoPath };
  readonly sender: Person;
  readonly permission: Permission;
  readonly effectId: string;
  /** The name of the agent. */
  readonly record: string;
}

/** Issues and change requests that ask for an agent. One agent works on each; a second request is a message to it. */
export class Triggers {
  readonly #options: TriggersOptions;

  constructor(options: TriggersOptions) {
    this.#options = options;
  }

  /**
   * `effectId` is the same for the same content: hosts do not sign the id of a delivery, so one that is sent again under
   * another id has no further effect.
   */
  async handle(
    integration: Integration,
    effectId: string,
    sender: Person | null,
    { causes, ...event }: TriggerEvent,
  ): Promise<Ignored> {
    const { database, people, changeRequests } = this.#options;
    const { tenant, name } = integration;
    const { repo, subject } = event;
    const self = await integration.host.self();
    if (!sender || sender.id === self.id) return "the integration's own account did this";
    const refusals = causes.map((cause) => refuseTrigger(integration, { ...event, ...cause }, self));
    const cause = causes[refusals.indexOf(null)];
    if (!cause) return refusals[0] ?? 'nobody asks for an agent';
    const trigger = { ...event, ...cause };
    const other = await this.#triggeredBefore(integration, trigger, repo);
    if (other) return `the integration "${other}" covers ${repo}, too, and takes precedence`;
    const unheard = await people.refuseToHear(integration, repo, sender);
    if (unheard) return unheard;
    const permission = await people.permissionOf(integration, repo, sender);
    if (subject.type === 'change-request') {
      // A comment on the change request of an agent reaches it as such.
      const asked = await askByNumber(database, tenant, name, repo, subject.number, 0, false);
      if (asked.length > 0) return null;
      const request = await integration.host.changeRequest(repo, subject.number);
      if (request.isFork) return 'the change request is from a fork';
      if (await changeRequests.isRenamed(integration, request)) return null;
    }
    const agent = await this.#triggered(integration, trigger);
    const effects = agent?.delivery.split(' ') ?? [];
    if (effects.includes(effectId)) return null;
    const record = recordName(name, repo, subject.number, subject.type);
    const wanted = { integration, trigger, sender, permission, effectId, record };
    return agent && agent.phase !== 'PHASE_CANCELED'
      ? this.#tellAgain(wanted, agent.id, effects)
      : this.#begin(wanted);
  }

  /** The agent that was spawned for it, maybe before its repository was renamed. */
  async #triggered(integration: Integration, { repo, subject }: Wanted['trigger']) {
    const { database, integrations } = this.#options;
    const issue = [integration.tenant, integration.name, repo, subject.type, subject.number] as const;
    const [agent] = await findTriggered(database, ...issue);
    if (agent) return agent;
    const earlier = await pathsOfTriggered(database, ...issue);
    if (!(await integrations.isRenamed(integration, earlier, repo))) return undefined;
    return (await findTriggered(database, ...issue))[0];
  }

  /** An agent works on it already. */
  async #tellAgain(wanted: Wanted, agentId: string, effects: readonly string[]): Promise<Ignored> {
    const { integration, trigger, sender, permission, effectId, record } = wanted;
    const { database, changeRequests } = this.#options;
    const { tenant, name, host } = integration;
    const { repo, subject, by } = trigger;
    if (by !== 'mention' && !host.capabilities.namesAdditions)
      return 'an agent works on it, and the host does not say what was added';
    if (effects.some((effect) => isFound(effect, trigger)))
      return 'it was found at the host before this delivery arrived';
    const description = triggerAgainMessage(repo, trigger, sender, permission);
    const id = messageId(record, 'trigger', effectId);
    const told = await changeRequests.tell({ tenant, id: agentId }, { description, tasks: [] }, id);
    if (isRefusal(told)) return told.message;
    await noteTrigger(database, tenant, name, repo, subject.type, subject.number, effectId);
    return null;
  }

  /** Spawns the agent, and says so at the host. */
  async #begin(wanted: Wanted): Promise<Ignored> {
    const { integration, trigger, sender, permission, effectId, record } = wanted;
    const { database, catalog, people } = this.#options;
    const { repo, subject } = trigger;
    const workspace = await workspaceOf(catalog, integration, repo);
    if (!workspace) {
      await this.#post(wanted, null, `unlisted/${record}`, unlistedComment(integration, repo));
      return `no workspace lists the repository ${repo}`;
    }
    const author =
      trigger.author.id === sender.id
        ? permission
        : await people.permissionOf(integration, repo, trigger.author);
    const named = { ...trigger, author: await nameOf(integration, trigger.author) };
    const description = triggerMessage(repo, named, sender, { sender: permission, author });
    const spawned = await this.#spawn(integration, effectId, record, workspace, description);
    if (typeof spawned === 'string') return spawned;
    const { id, url } = spawned;
    await this.#post(wanted, id, `triggered/${record}/${id}`, `An agent works on this: ${url}`);
    // At last: after a crash before it, the delivery is processed again from the start.
    const { tenant, name } = integration;
    await saveTriggered(database, tenant, name, repo, subject.type, subject.number, id, effectId);
    return null;
  }

  /** Of several integrations that an event triggers, one spawns an agent. */
  async #triggeredBefore(integration: Integration, trigger: Trigger, repo: RepoPath): Promise<string | null> {
    for (const other of await this.#options.integrations.before(integration, repo)) {
      const login = trigger.by === 'assigned' && other.triggers.assigned ? await other.account() : '';
      if (refuseTrigger(other, trigger, { login }) === null) return other.name;
    }
    return null;
  }

  /** Spawns the agent, once per effect; or says why it can't be. */
  async #spawn(
    integration: Integration,
    effectId: string,
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
      key: digestOf(effectId),
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

  /** Comments once. */
  async #post(
    { integration: { tenant, name }, trigger: { repo, subject }, record }: Wanted,
    agent: string | null,
    key: string,
    body: string,
  ): Promise<void> {
    await writeItem(this.#options.database, {
      ...{ tenant, target: name, lane: record, kind: 'comment', agent, key },
      data: { repo, subject, body },
    });
  }
}

const unlistedComment = ({ url }: Integration, repo: RepoPath): string =>
  [
    'No agent was started: no workspace in Muster lists this repository.',
    `Add \`${url}/${repo}.git\` to \`repos\` of a workspace, and ask again.`,
  ].join(' ');

type FoundCause = Pick<TriggerEvent, 'repo' | 'subject'> & Pick<Cause, 'by'>;

/** A trigger that was found at the host takes the place of its delivery. */
export const foundId = ({ repo, subject, by }: FoundCause, at: string): string =>
  `found/${subject.type}/${repo}/${subject.number}/${by}/${at}`;

/** A change within this time after a label or assignment is that of the label itself. */
export const sameChangeMs = 5_000;

/** Whether that effect is what was found at the host: a later one of the same kind is another trigger. */
function isFound(found: string, event: FoundCause & Pick<Trigger, 'updatedAt'>): boolean {
  const start = foundId(event, '');
  const at = found.startsWith(start) ? Date.parse(found.slice(start.length)) : Number.NaN;
  return Date.parse(event.updatedAt) <= at + sameChangeMs;
}

/** Why an event is not a trigger of this integration. */
function refuseTrigger(
  { triggers }: Pick<Integration, 'triggers'>,
  event: Trigger,
  self: Pick<Person, 'login'>,
): string | null {
  const { by, value, comment, body, title, isClosed, subject } = event;
  if (isClosed && by !== 'mention')
    return `the ${subject.type === 'issue' ? 'issue' : 'change request'} is closed`;
  if (by === 'label')
    return triggers.label && value === triggers.label
      ? null
      : `the integration is not triggered by the label ${value}`;
  if (by === 'assigned')
    return triggers.assigned && value === self.login ? null : 'it was assigned to somebody else';
  const text = comment ? comment.body : `${title}\n${body}`;
  return triggers.mention && mentions(text, triggers.mention) ? null : 'the integration is not mentioned';
}

/** Some hosts send only the number of the author. */
async function nameOf({ host }: Integration, author: Person): Promise<Person> {
  const found = author.login === '' && host.account ? await orRefusal(host.account(author.id)) : author;
  return found instanceof HostError ? { ...author, login: `account ${author.id}` } : found;
}

/** What somebody wrote: without code, and without what they quote of others. Linear in the text. */
export function ownWords(markdown: string): string {
  let fence = '';
  const lines = markdown.split('\n').filter((line) => {
    const [, mark = ''] = /^ {0,3}(`{3,}|~{3,})/.exec(line) ?? [];
    const isEnd = fence !== '' && mark.startsWith(fence);
    const isInside = fence !== '' || mark !== '';
    fence = isEnd ? '' : fence || mark;
    return !isInside && !/^ {0,3}>/.test(line);
  });
  return lines.map((line) => line.replace(/`+[^`]*`+/g, ' ')).join('\n');
}

/** Whether a text contains the name as a separate word. */
function mentions(markdown: string, name: string): boolean {
  const text = ownWords(markdown);
  const isPart = (character: string | undefined) => character !== undefined && /[\w-]/.test(character);
  const [where, what] = [text.toLowerCase(), name.toLowerCase()];
  for (let at = where.indexOf(what); at >= 0; at = where.indexOf(what, at + 1)) {
    if (!isPart(where[at - 1]) && !isPart(where[at + what.length])) return true;
  }
  return false;
}

import {
  type AgentIdInput,
  type AgentStatus,
  type BodyOf,
  limits,
  type QueueRequest,
  type ReplyOf,
  type SpawnReply,
  type SpawnRequest,
  type Task,
  type UpdateTaskRequest,
} from '@muster/sdk/contract';
import type pg from 'pg';
import type { AgentState, Identity, Labels } from '../domain/agent.ts';
import type { Queued, QueueFollowUp } from '../domain/commands/queue-follow-up.ts';
import type { AgentCommand, ReplyTo } from '../domain/decide.ts';
import { invalid, isRefusal, type Refusal } from '../domain/refusal.ts';
import { mintName } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import { backendsOf, type ModelTable } from '../lib/models.ts';
import type { ServiceSecrets } from '../lib/service-secret.ts';
import type { OtherWorkers } from '../lib/worker-channel.ts';
import type { Wanted } from '../store/agent-store.ts';
import type { DatabaseConfig } from '../store/connection.ts';
import { postgresAgentStore } from '../store/postgres-agent-store.ts';
import type { FoundRow } from '../store/statements/find-agents.ts';
import { ping } from '../store/statements/tick.ts';
import { Attachments } from './attachments.ts';
import { blockOnStateError } from './block-on-state-error.ts';
import { BrowserSessions } from './browser-sessions.ts';
import { Catalog } from './catalog/catalog.ts';
import { sealAgain } from './catalog/seal-again.ts';
import { Checkpoints } from './checkpoints.ts';
import { type NamedAgent, nameAgent, refuseEmptyPath } from './identify.ts';
import { Keys } from './keys.ts';
import { Lists } from './lists.ts';
import { LiveOutput } from './live-output.ts';
import { Maintenance } from './maintenance.ts';
import {
  contentDigest,
  queueCommand,
  type ServiceModels,
  spawnCommand,
  tasksFrom,
  updateTaskCommand,
} from './make-commands.ts';
import { Notifications } from './notifications.ts';
import { OwnRuns } from './own-runs.ts';
import { PageTokens } from './page-tokens.ts';
import { refuseAgent, refuseTasks } from './permit.ts';
import type { Principal } from './principal.ts';
import { Reads } from './read.ts';
import { Runners } from './runners.ts';
import { SignInCodes } from './sign-in-codes.ts';
import { Tenants } from './tenants.ts';
import { Threads } from './threads.ts';
import { Timers } from './timers.ts';
import { type Transact, transact } from './transact.ts';
import { agentIdOfAgent, dashboardUrl } from './views.ts';
import { Waits } from './waits.ts';
import { Wakes } from './wakes.ts';

export interface ControlOptions {
  readonly database: pg.Pool;
  readonly connection: DatabaseConfig;
  readonly log: Log;
  readonly secrets: ServiceSecrets;
  readonly publicUrl: () => string;
  readonly defaultModel: string;
  /** The model names that the operator added. */
  readonly models: ModelTable;
  readonly leaseMs: number;
  /** How long entries are kept, and how many of a live agent. */
  readonly timelineDays: number;
  readonly timelineEntries: number;
  readonly onBatch?: (size: number) => void;
  /** Null when this process serves its port alone. */
  readonly workers: OtherWorkers | null;
  readonly onMaintenance?: (task: string, seconds: number) => void;
}

/** Commands of callers that are complete without a look into the catalog. */
type PlainCommand = Extract<
  AgentCommand,
  { type: 'clear' | 'createTasks' | 'kill' | 'label' | 'remove' | 'reopen' | 'retry' | 'stop' | 'updateTask' }
>;

/** The reply to a spawn, and what its caller should know beside it. */
export type Spawned = SpawnReply & { readonly warning?: string };

/** The operations of the API. Each identifies the agent, checks the caller's permission, and sends a command or reads. */
export class Control {
  readonly keys: Keys;
  readonly tenants: Tenants;
  readonly catalog: Catalog;
  readonly reads: Reads;
  readonly lists: Lists;
  readonly runners: Runners;
  readonly ownRuns: OwnRuns;
  readonly waits: Waits;
  readonly checkpoints: Checkpoints;
  readonly attachments: Attachments;
  readonly browserSessions: BrowserSessions;
  readonly signInCodes: SignInCodes;
  readonly threads: Threads;
  readonly live: LiveOutput;
  readonly wakes = new Wakes();
  readonly timers: Timers;
  readonly transact: Transact;
  readonly pageTokens: PageTokens;
  readonly models: ServiceModels;
  readonly #notifications: Notifications;
  readonly #maintenance: Maintenance;
  readonly #options: ControlOptions;
  #hasStarted = false;

  constructor(options: ControlOptions) {
    const { database, log, publicUrl } = options;
    this.#options = options;
    this.models = { defaultModel: options.defaultModel, ownModels: backendsOf(options.models) };
    this.transact = transact({
      store: postgresAgentStore(database),
      perform: (effects) => this.wakes.perform(effects),
      onBatch: options.onBatch,
    });
    this.tenants = new Tenants(database);
    this.keys = new Keys(database, options.secrets, options.workers);
    this.pageTokens = new PageTokens(options.secrets);
    const shared = {
      ...options,
      tenants: this.tenants,
      keys: this.keys,
      pageTokens: this.pageTokens,
      wakes: this.wakes,
      transact: this.transact,
      blockOnStateError: blockOnStateError(this.transact, log),
    };
    this.catalog = new Catalog(shared);
    this.reads = new Reads(database, this.tenants, publicUrl, (runner) => this.runners.isAbsent(runner));
    this.lists = new Lists({
      ...shared,
      reads: this.reads,
      find: (caller, agentId, field) => this.find(caller, agentId, field),
    });
    this.ownRuns = new OwnRuns(database, this.transact, this.reads);
    this.waits = new Waits(this.reads, this.wakes, this.ownRuns);
    this.runners = new Runners({ ...shared, catalog: this.catalog });
    this.checkpoints = new Checkpoints(database, this.tenants);
    this.attachments = new Attachments(database, this.tenants);
    this.browserSessions = new BrowserSessions(shared);
    this.signInCodes = new SignInCodes(database);
    this.threads = new Threads({
      ...shared,
      find: async (caller, agentId, access) => {
        if (access === 'read') return this.find(caller, agentId);
        const refuse = access === 'reply' ? refuseTasks : undefined;
        const identity = await this.#target(caller, agentId, refuse);
        return isRefusal(identity) ? identity : this.reads.find({ identity });
      },
    });
    this.timers = new Timers(shared);
    this.#maintenance = new Maintenance({
      ...options,
      sealAgain: () => sealAgain(database, options.secrets),
    });
    this.#notifications = new Notifications({ ...options, wakes: this.wakes });
    this.live = new LiveOutput({ ...shared, notifications: this.#notifications });
  }

  async start(): Promise<void> {
    await this.#notifications.listen();
    this.timers.start();
    this.#maintenance.start();
    this.#hasStarted = true;
  }

  /** Why requests can't be served yet, or null: the migrations, the first key and the timers come first. */
  async unready(): Promise<string | null> {
    if (!this.#hasStarted) return 'the service is starting';
    return ping(this.#options.database).then(
      () => null,
      () => 'the database does not answer',
    );
  }

  async close(): Promise<void> {
    this.timers.close();
    this.live.close();
    await this.#maintenance.close();
    await this.transact.idle();
    await this.#notifications.close();
  }

  async spawn(caller: Principal, request: SpawnRequest, idempotencyKey: string): Promise<Spawned | Refusal> {
    const given = request.agentId?.workspace;
    if (given && request.workspace && given !== request.workspace) {
      return invalid('workspace', 'differs from agentId.workspace; give one of the two');
    }
    const named = nameAgent({ ...request.agentId, workspace: given || request.workspace }, caller);
    const above = caller.role === 'agent' ? (caller.agent?.path ?? []) : [];
    const agent: NamedAgent = named.path.length > 0 ? named : { ...named, path: [...above, mintName()] };
    const refused = refuseAgent(caller, 'spawn', agent);
    if (refused) return refused;
    const tenant = await this.tenants.existing(agent.tenant);
    if (isRefusal(tenant)) return tenant;
    const key = idempotencyKey
      ? {
          tenant: caller.tenant.id,
          keyId: caller.keyId,
          key: idempotencyKey,
          digest: contentDigest(request, request.agentId),
        }
      : undefined;
    // A repeated request gets its first reply, even if what it names is gone by now.
    const stored = key && (await this.reads.storedReply(key));
    if (stored && stored.digest === key?.digest) return stored.reply as Spawned;

    const identity = await this.#spawnIdentity({ ...agent, tenant });
    if (isRefusal(identity)) return identity;
    const command = await spawnCommand(this.catalog, request, identity, this.models);
    if (isRefusal(command)) return command;
    const reply = await this.transact.command<Spawned>({ identity }, command, {
      of: (state) => this.#spawnReply(agent, state, command.warning),
      key,
    });
    return isRefusal(reply) ? ((await this.#otherOwner(caller, identity, reply)) ?? reply) : reply;
  }

  /** A missing parent that another account owns: the request names the wrong owner for the child. */
  async #otherOwner(caller: Principal, identity: Identity, refusal: Refusal): Promise<Refusal | null> {
    const isOther = identity.account !== caller.account || identity.ownerProvider !== caller.ownerProvider;
    if (refusal.status !== 'NOT_FOUND' || identity.path.length === 1 || !isOther) return null;
    const owner = await this.reads.ownerOf(identity.tenant, identity.path.slice(0, -1));
    if (!owner) return null;
    const field = owner.account === identity.account ? 'agentId.ownerProvider' : 'agentId.account';
    return invalid(field, "a child has its parent's owner");
  }

  /** A root without a workspace goes to `default`; a child takes its parent's, which decides the pool it runs in. */
  async #spawnIdentity(identity: Identity): Promise<Identity | Refusal> {
    if (identity.workspace) return identity;
    if (identity.path.length === 1) return { ...identity, workspace: 'default' };
    const parent = await this.reads.find({ identity: { ...identity, path: identity.path.slice(0, -1) } });
    if (!isRefusal(parent)) return { ...identity, workspace: parent.workspace };
    return parent.status === 'NOT_FOUND' ? { ...identity, workspace: '' } : parent;
  }

  #spawnReply({ tenant }: NamedAgent, { agent }: AgentState, warning: string): Spawned {
    const agentId = agentIdOfAgent(tenant, agent);
    return {
      ...(warning && { warning }),
      agentId,
      phase: agent.phase,
      runCount: String(agent.runCount),
      dashboardUrl: dashboardUrl(this.#options.publicUrl(), agentId),
    };
  }

  async queue(caller: Principal, request: QueueRequest): Promise<Queued | Refusal> {
    const identity = await this.#target(caller, request.agentId);
    if (isRefusal(identity)) return identity;
    const command = await queueCommand(this.catalog, request, identity.tenant, this.models.ownModels);
    const attachmentIds = await this.#attachmentIds(identity, request.attachmentIds ?? []);
    const byAgent = caller.role === 'agent' && ({ byAgent: true } as const);
    return this.transact.command({ identity }, { ...command, ...attachmentIds, ...byAgent });
  }

  /** What is wrong with one is said after what is wrong with the agent. */
  async #attachmentIds(
    identity: Identity,
    ids: readonly string[],
  ): Promise<Pick<QueueFollowUp, 'attachmentIds'>> {
    const agent = ids.length > 0 && (await this.reads.find({ identity }));
    if (!agent || isRefusal(agent)) return {};
    return { attachmentIds: await this.attachments.named(agent, ids) };
  }

  async listFollowUps(
    caller: Principal,
    request: BodyOf<'listFollowUps'>,
  ): Promise<ReplyOf<'listFollowUps'> | Refusal> {
    const agent = await this.find(caller, request.agentId);
    if (isRefusal(agent)) return agent;
    const list = `queue/${agent.id}`;
    const after = request.pageToken ? this.pageTokens.open(list, request.pageToken) : '';
    if (isRefusal(after)) return after;
    const { followUps, next } = await this.reads.queue(agent, after, request.pageSize || limits.pageSize);
    return { followUps, nextPageToken: next === null ? '' : this.pageTokens.seal(list, next) };
  }

  /** Sends an agent a command that needs nothing but the agent itself. */
  async command<C extends PlainCommand>(
    caller: Principal,
    agentId: AgentIdInput | undefined,
    command: C,
    refuse?: typeof refuseTasks,
  ): Promise<ReplyTo<C> | Refusal> {
    const identity = await this.#target(caller, agentId, refuse);
    return isRefusal(identity) ? identity : this.transact.command<ReplyTo<C>>({ identity }, command);
  }

  async label(
    caller: Principal,
    { agentId, labels = {} }: BodyOf<'labels'>,
  ): Promise<{ labels: Labels } | Refusal> {
    const merged = await this.command(caller, agentId, { type: 'label', labels });
    return isRefusal(merged) ? merged : { labels: merged };
  }

  async createTasks(
    caller: Principal,
    { agentId, tasks }: BodyOf<'createTasks'>,
  ): Promise<{ tasks: Task[] } | Refusal> {
    const command = { type: 'createTasks' as const, tasks: tasksFrom(tasks) };
    const created = await this.command(caller, agentId, command, refuseTasks);
    return isRefusal(created) ? created : { tasks: [...created] };
  }

  async updateTask(caller: Principal, request: UpdateTaskRequest): Promise<{ task: Task } | Refusal> {
    if (!request.id) return invalid('id', 'name the task');
    const command = updateTaskCommand(request, request.id);
    const task = await this.command(caller, request.agentId, command, refuseTasks);
    return isRefusal(task) ? task : { task };
  }

  /** The agent that a reader names, if it may be read. */
  async find(
    caller: Principal,
    agentId: AgentIdInput | undefined,
    field?: string,
  ): Promise<FoundRow | Refusal> {
    const wanted = await this.#readTarget(caller, agentId, field);
    return isRefusal(wanted) ? wanted : this.reads.find(wanted);
  }

  /** The agent that a caller names, if it may be commanded. */
  async commandable(caller: Principal, agentId: AgentIdInput | undefined): Promise<FoundRow | Refusal> {
    const identity = await this.#target(caller, agentId, refuseTasks);
    return isRefusal(identity) ? identity : this.reads.find({ identity });
  }

  /** One part of the newest checkpoint. It holds the agent's files and conversation, so reading it requires `command`. */
  async checkpoint(caller: Principal, request: BodyOf<'checkpoint'>) {
    const identity = await this.#target(caller, request.agentId);
    if (isRefusal(identity)) return identity;
    const agent = await this.reads.find({ identity });
    return isRefusal(agent) ? agent : this.checkpoints.download(agent, request);
  }

  async status(caller: Principal, agentId: AgentIdInput | undefined): Promise<AgentStatus | Refusal> {
    const wanted = await this.#readTarget(caller, agentId);
    const status = isRefusal(wanted) ? wanted : await this.reads.status(wanted);
    if (!isRefusal(status)) await this.ownRuns.acknowledge(caller, status);
    return status;
  }

  async timeline(caller: Principal, request: BodyOf<'timeline'>) {
    const after = sequenceIn(request.afterSequence);
    const before = sequenceIn(request.beforeSequence);
    if (after !== null && before !== null)
      return invalid('beforeSequence', 'may not be combined with afterSequence');
    if ((after ?? 0) < 0) return invalid('afterSequence', 'must be 0 or more');
    if ((before ?? 0) < 0) return invalid('beforeSequence', 'must be 0 or more');
    const agent = await this.find(caller, request.agentId);
    if (isRefusal(agent)) return agent;
    return this.reads.timeline(
      agent,
      before === null ? { after: after ?? 0 } : { before },
      request.limit ?? 1000,
      request.types,
    );
  }

  /** The identity a command is for, once the caller may command it. */
  async #target(
    caller: Principal,
    agentId: AgentIdInput | undefined,
    refuse: (caller: Principal, agent: NamedAgent) => Refusal | null = (c, a) => refuseAgent(c, 'command', a),
  ): Promise<Identity | Refusal> {
    const agent = nameAgent(agentId, caller);
    return this.#identity(agent, refuseEmptyPath(agent) ?? refuse(caller, agent));
  }

  /** A link stays bound to its agent after another takes the name. */
  async #readTarget(
    caller: Principal,
    agentId: AgentIdInput | undefined,
    field?: string,
  ): Promise<Wanted | Refusal> {
    const named = nameAgent(agentId, caller);
    const refused = refuseEmptyPath(named, field) ?? refuseAgent(caller, 'read', named);
    const identity = await this.#identity(named, refused);
    if (isRefusal(identity)) return identity;
    const { role, agent } = caller;
    return role === 'share' && agent?.id ? { key: { tenant: agent.tenant, id: agent.id } } : { identity };
  }

  async #identity(agent: NamedAgent, refused: Refusal | null): Promise<Identity | Refusal> {
    if (refused) return refused;
    const tenant = await this.tenants.existing(agent.tenant);
    return isRefusal(tenant) ? tenant : { ...agent, tenant };
  }
}

/** Past the whole numbers that are safe, every sequence is behind every entry. */
const sequenceIn = (value: string | number | undefined): number | null =>
  value === undefined ? null : Math.min(Number(value), Number.MAX_SAFE_INTEGER);

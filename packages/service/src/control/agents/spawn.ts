import type { SpawnReply, SpawnRequest } from '@muster/sdk/contract';
import type { AgentState, Identity } from '../../domain/agent.ts';
import { invalid, isRefusal, type Refusal } from '../../domain/refusal.ts';
import { mintName } from '../../lib/ids.ts';
import { refuseAgent } from '../access/permit.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import type { Transact } from '../batches/transact.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { type NamedAgent, nameAgent } from './identify.ts';
import { contentDigest, type ServiceModels, spawnCommand } from './make-commands.ts';
import type { Reads } from './read.ts';
import { agentIdOfAgent, dashboardUrl } from './views.ts';

export interface SpawnsOptions {
  readonly tenants: Tenants;
  readonly catalog: Catalog;
  readonly reads: Reads;
  readonly transact: Transact;
  readonly models: ServiceModels;
  readonly publicUrl: () => string;
}

/** The reply to a spawn, and what its caller should know beside it. */
export type Spawned = SpawnReply & { readonly warning?: string };

export interface SpawnSettings {
  readonly traceparent?: string | undefined;
  /** The id of the agent, where the caller has to know it before. */
  readonly id?: string;
}

export interface SpawnedOnce {
  readonly id: string;
  readonly path: string;
  readonly note: string;
}

export class Spawns {
  readonly #options: SpawnsOptions;

  constructor(options: SpawnsOptions) {
    this.#options = options;
  }

  async spawn(
    caller: Principal,
    request: SpawnRequest,
    idempotencyKey: string,
    { traceparent, id }: SpawnSettings = {},
  ): Promise<Spawned | Refusal> {
    const { catalog, reads, transact, models } = this.#options;
    const named = await this.#named(caller, request);
    if (isRefusal(named)) return named;
    const { agent, tenant } = named;
    const key = idempotencyKey
      ? {
          tenant: caller.tenant.id,
          keyId: caller.keyId,
          key: idempotencyKey,
          digest: contentDigest(request, request.agentId),
        }
      : undefined;
    // A repeated request gets its first reply, even if what it names is gone by now.
    const stored = key && (await reads.storedReply(key));
    if (stored && stored.digest === key?.digest) return stored.reply as Spawned;

    const identity = await this.#spawnIdentity({ ...agent, tenant });
    if (isRefusal(identity)) return identity;
    const command = await spawnCommand(catalog, request, identity, models);
    if (isRefusal(command)) return command;
    const reply = await transact.command<Spawned>(
      { identity },
      { ...command, traceparent, ...(id && { id }) },
      {
        of: (state) => this.#spawnReply(agent, state, command.warning),
        key,
      },
    );
    return isRefusal(reply) ? ((await this.#otherOwner(caller, identity, reply)) ?? reply) : reply;
  }

  /**
   * Spawns one agent per key, whatever else the request says. Returns the agent that was spawned with the key, and the
   * note of who spawned it.
   */
  async spawnOnce(
    caller: Principal,
    request: SpawnRequest,
    key: string,
    note: string,
  ): Promise<SpawnedOnce | Refusal> {
    const { catalog, reads, transact, models } = this.#options;
    const named = await this.#named(caller, request);
    if (isRefusal(named)) return named;
    const replyKey = { tenant: caller.tenant.id, keyId: caller.keyId, key, digest: key };
    const stored = await reads.storedReply(replyKey);
    if (stored) return stored.reply as SpawnedOnce;
    const identity = await this.#spawnIdentity({ ...named.agent, tenant: named.tenant });
    if (isRefusal(identity)) return identity;
    const command = await spawnCommand(catalog, request, identity, models);
    if (isRefusal(command)) return command;
    const of = ({ agent }: AgentState): SpawnedOnce => ({ id: agent.id, path: agent.path.join('/'), note });
    return transact.command<SpawnedOnce>({ identity }, command, { of, key: replyKey });
  }

  /** The agent that a request names, if the caller may spawn it, and its tenant. */
  async #named(
    caller: Principal,
    request: SpawnRequest,
  ): Promise<{ readonly agent: NamedAgent; readonly tenant: number } | Refusal> {
    const given = request.agentId?.workspace;
    if (given && request.workspace && given !== request.workspace) {
      return invalid('workspace', 'differs from agentId.workspace; give one of the two');
    }
    const named = nameAgent({ ...request.agentId, workspace: given || request.workspace }, caller);
    const above = caller.role === 'agent' ? (caller.agent?.path ?? []) : [];
    const agent: NamedAgent = named.path.length > 0 ? named : { ...named, path: [...above, mintName()] };
    const refused = refuseAgent(caller, 'spawn', agent);
    if (refused) return refused;
    const tenant = await this.#options.tenants.existing(agent.tenant);
    return isRefusal(tenant) ? tenant : { agent, tenant };
  }

  /** A missing parent that another account owns: the request names the wrong owner for the child. */
  async #otherOwner(caller: Principal, identity: Identity, refusal: Refusal): Promise<Refusal | null> {
    const isOther = identity.account !== caller.account || identity.ownerProvider !== caller.ownerProvider;
    if (refusal.status !== 'NOT_FOUND' || identity.path.length === 1 || !isOther) return null;
    const owner = await this.#options.reads.ownerOf(identity.tenant, identity.path.slice(0, -1));
    if (!owner) return null;
    const name = owner.account === identity.account ? 'ownerProvider' : 'account';
    return invalid(
      `agentId.${name}`,
      `must be that of the parent, "${owner[name]}"; got "${identity[name]}"`,
    );
  }

  /** A root without a workspace goes to `default`; a child takes its parent's, which decides the pool it runs in. */
  async #spawnIdentity(identity: Identity): Promise<Identity | Refusal> {
    if (identity.workspace) return identity;
    if (identity.path.length === 1) return { ...identity, workspace: 'default' };
    const parent = await this.#options.reads.find({
      identity: { ...identity, path: identity.path.slice(0, -1) },
    });
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
}

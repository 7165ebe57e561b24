import type { AgentIdInput } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Identity } from '../../domain/agent.ts';
import { isRefusal, notFound, type Refusal } from '../../domain/refusal.ts';
import type { AgentKey, Wanted } from '../../store/agent-store.ts';
import { isDeleted } from '../../store/statements/deleted-agents.ts';
import type { FoundRow } from '../../store/statements/find-agents.ts';
import { refuseAgent, refuseTasks } from '../access/permit.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import { type NamedAgent, nameAgent, refuseEmptyPath } from './identify.ts';
import type { Reads } from './read.ts';

/** The agents that requests name, once the caller may reach them. */
export class Targets {
  readonly #database: pg.Pool;
  readonly #tenants: Tenants;
  readonly #reads: Reads;

  constructor(database: pg.Pool, tenants: Tenants, reads: Reads) {
    this.#database = database;
    this.#tenants = tenants;
    this.#reads = reads;
  }

  /** The identity a command is for, once the caller may command it. */
  async command(
    caller: Principal,
    agentId: AgentIdInput | undefined,
    refuse: (caller: Principal, agent: NamedAgent) => Refusal | null = (c, a) => refuseAgent(c, 'command', a),
  ): Promise<Identity | Refusal> {
    const agent = nameAgent(agentId, caller);
    return this.#identity(agent, refuseEmptyPath(agent) ?? refuse(caller, agent));
  }

  /** The agent that a caller names, if it may be commanded. A run may act for its own agent, unless only others may. */
  async commandable(
    caller: Principal,
    agentId: AgentIdInput | undefined,
    by: 'anyone' | 'others' = 'anyone',
  ): Promise<FoundRow | Refusal> {
    const identity = await this.command(caller, agentId, by === 'anyone' ? refuseTasks : undefined);
    return isRefusal(identity) ? identity : this.#reads.find({ identity });
  }

  async read(
    caller: Principal,
    agentId: AgentIdInput | undefined,
    field?: string,
  ): Promise<Wanted | Refusal> {
    const named = readable(caller, agentId, field);
    return isRefusal(named) ? named : this.#wanted(caller, named);
  }

  /** The agent that a reader names, if it may be read. */
  async find(
    caller: Principal,
    agentId: AgentIdInput | undefined,
    field?: string,
  ): Promise<FoundRow | Refusal> {
    const wanted = await this.read(caller, agentId, field);
    return isRefusal(wanted) ? wanted : this.#reads.find(wanted);
  }

  /** The agents that a reader names, each once, if all of them may be read. */
  async findAll(caller: Principal, agentIds: readonly AgentIdInput[]): Promise<AgentKey[] | Refusal> {
    const named = new Map<string, NamedAgent>();
    for (const [i, agentId] of agentIds.entries()) {
      const agent = readable(caller, agentId, `agentIds[${i}].agent`);
      if (isRefusal(agent)) return agent;
      const { tenant, ownerProvider, account, workspace, path } = agent;
      const name = [tenant.provider, tenant.org, ownerProvider, account, workspace, ...path].join('/');
      named.set(name, agent);
    }
    const wanted: Wanted[] = [];
    for (const agent of named.values()) {
      const one = await this.#wanted(caller, agent);
      if (isRefusal(one)) return one;
      wanted.push(one);
    }
    return this.#reads.findAll(caller.tenant.id, wanted);
  }

  /** A link stays bound to its agent after another takes the name. */
  async #wanted({ role, agent }: Principal, named: NamedAgent): Promise<Wanted | Refusal> {
    if (role === 'share' && agent?.id) {
      const [found] = await isDeleted(this.#database, agent.tenant, agent.id);
      if (found?.deleted) return notFound('the agent was deleted');
      return { key: { tenant: agent.tenant, id: agent.id } };
    }
    const identity = await this.#identity(named, null);
    return isRefusal(identity) ? identity : { identity };
  }

  async #identity(agent: NamedAgent, refused: Refusal | null): Promise<Identity | Refusal> {
    if (refused) return refused;
    const tenant = await this.#tenants.existing(agent.tenant);
    return isRefusal(tenant) ? tenant : { ...agent, tenant };
  }
}

/** The agent that a request names, if the caller may read it. */
function readable(
  caller: Principal,
  agentId: AgentIdInput | undefined,
  field?: string,
): NamedAgent | Refusal {
  const named = nameAgent(agentId, caller);
  return refuseEmptyPath(named, field) ?? refuseAgent(caller, 'read', named) ?? named;
}

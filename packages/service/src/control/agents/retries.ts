import {
  type AgentId,
  type AgentIdInput,
  type BodyOf,
  limits,
  type Provider,
  type ReplyOf,
} from '@muster/sdk/contract';
import type { Identity } from '../../domain/agent.ts';
import { invalid, isRefusal, type Refusal } from '../../domain/refusal.ts';
import type { AgentKey, Wanted } from '../../store/agent-store.ts';
import { refuseAgent } from '../access/permit.ts';
import type { Principal } from '../access/principal.ts';
import type { Transact } from '../batches/transact.ts';
import type { Operation } from '../operation.ts';
import { type NamedAgent, nameAgent, refuseEmptyPath } from './identify.ts';
import type { Lists } from './lists.ts';
import type { Reads } from './read.ts';
import type { Targets } from './targets.ts';

export interface RetriesOptions {
  readonly transact: Transact;
  readonly reads: Reads;
  readonly lists: Lists;
  readonly targets: Targets;
}

type Retried = ReplyOf<'retryMany'>['agents'][number];

/** Retries many agents in one request, as after an outage. A caller who may not command one of them is refused as a whole. */
export class Retries {
  readonly #options: RetriesOptions;

  constructor(options: RetriesOptions) {
    this.#options = options;
  }

  readonly retryMany: Operation<'retryMany'> = async (caller, request) => {
    const { agentIds = [], labels = {}, workspace = '' } = request;
    const isFilter = Object.keys(labels).length > 0 || workspace !== '';
    if (agentIds.length > 0 && isFilter)
      return invalid('agentIds', 'may not be combined with labels or workspace');
    if (agentIds.length > 0) return this.#retryNamed(caller, agentIds);
    return isFilter
      ? this.#retryFiltered(caller, request)
      : invalid(
          'agentIds',
          `must name 1 to ${limits.agentsPerRetry} agents, unless labels or workspace is set`,
        );
  };

  async #retryNamed(
    caller: Principal,
    agentIds: readonly AgentIdInput[],
  ): Promise<ReplyOf<'retryMany'> | Refusal> {
    const { targets, reads } = this.#options;
    const names = agentIds.map((agentId) => nameAgent(agentId, caller));
    const unnamed = names.map((name, i) => refuseEmptyPath(name, `agentIds[${i}].agent`)).find(Boolean);
    if (unnamed) return unnamed;
    const identities = await Promise.all(agentIds.map((agentId) => targets.command(caller, agentId)));
    const refused = identities.find(isRefusal);
    if (refused) return refused;
    const agents = await Promise.all(
      (identities as Identity[]).map(async (identity, i) => {
        const { tenant, ownerProvider, account, path } = names[i] as NamedAgent;
        const found = await reads.find({ identity });
        const workspace = isRefusal(found) ? identity.workspace : found.workspace;
        const agentId = { tenant, ownerProvider, account, agent: [...path], workspace };
        return isRefusal(found) ? notRetried(agentId, found) : this.#retry(agentId, { key: found });
      }),
    );
    return { agents, more: false };
  }

  async #retryFiltered(
    caller: Principal,
    { account, tenant, labels, workspace }: BodyOf<'retryMany'>,
  ): Promise<ReplyOf<'retryMany'> | Refusal> {
    const { lists, reads } = this.#options;
    const query = await lists.query(caller, { account, tenant, labels, workspace, allDepths: true });
    if (isRefusal(query)) return query;
    const { owner } = query.scope;
    // Everybody's agents have no owner here, so only those may ask for them who may command any agent.
    const refused = refuseAgent(caller, 'command', {
      ...nameAgent({ tenant }, caller),
      ownerProvider: (owner?.provider ?? 'PROVIDER_UNSPECIFIED') as Provider,
      account: owner?.account ?? '',
    });
    if (refused) return refused;
    const scope = { ...query.scope, isRetryable: true };
    const { entries, keys, next } = await reads.list(scope, null, limits.agentsPerRetry);
    const agents = await Promise.all(
      entries.map(({ agentId }, i) =>
        this.#retry(agentId, { key: { tenant: scope.tenant, id: keys[i] as string } }),
      ),
    );
    return { agents, more: next !== null };
  }

  async #retry(agentId: AgentId, wanted: Wanted & { readonly key: AgentKey }): Promise<Retried> {
    const reply = await this.#options.transact.command(wanted, { type: 'retry' });
    return isRefusal(reply) ? notRetried(agentId, reply) : { agentId, retried: true, error: null };
  }
}

const notRetried = (agentId: AgentId, { status, message }: Refusal): Retried => ({
  agentId,
  retried: false,
  error: { code: status, message },
});

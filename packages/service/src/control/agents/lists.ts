import { type ListRequest, limits } from '@muster/sdk/contract';
import { denied, isRefusal, type Refusal } from '../../domain/refusal.ts';
import { hasMarks, refuseSeveral } from '../access/permit.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import type { Operation } from '../operation.ts';
import { accountScope } from './identify.ts';
import type { PageTokens } from './page-tokens.ts';
import type { ListScope, Reads } from './read.ts';
import type { Targets } from './targets.ts';

/** What a list shows, once the caller may see it. */
export interface ListQuery {
  readonly scope: ListScope;
  /** It begins behind this agent. */
  readonly before: string | null;
  readonly pageSize: number;
}

export interface ListsOptions {
  readonly tenants: Tenants;
  readonly reads: Reads;
  readonly pageTokens: PageTokens;
  readonly targets: Targets;
}

export class Lists {
  readonly #options: ListsOptions;

  constructor(options: ListsOptions) {
    this.#options = options;
  }

  readonly list: Operation<'list'> = async (caller, request) => {
    const query = await this.query(caller, request);
    if (isRefusal(query)) return query;
    const { entries, next } = await this.#options.reads.list(query.scope, query.before, query.pageSize);
    const { pageTokens } = this.#options;
    return { entries, nextPageToken: next === null ? '' : pageTokens.seal(nameOf(query.scope), next) };
  };

  async query(caller: Principal, request: ListRequest): Promise<ListQuery | Refusal> {
    const { pageTokens } = this.#options;
    const scope = await this.#scope(caller, request);
    if (isRefusal(scope)) return scope;
    const before = request.pageToken ? pageTokens.open(nameOf(scope), request.pageToken) : null;
    if (isRefusal(before)) return before;
    return { scope, before, pageSize: request.pageSize || limits.pageSize };
  }

  async #scope(caller: Principal, request: ListRequest): Promise<ListScope | Refusal> {
    const { tenants, targets } = this.#options;
    const owner = accountScope(request.account, caller);
    if (isRefusal(owner)) return owner;
    const hasParent = (request.parentId?.agent?.length ?? 0) > 0;
    const several = refuseSeveral(caller);
    if (several) return several;
    if (caller.role === 'agent' && !hasParent) return denied('a run may only list the agents below it');
    const tenant = await tenants.named(request.tenant ?? request.parentId?.tenant, caller);
    if (isRefusal(tenant)) return tenant;
    const parent = hasParent ? await targets.find(caller, request.parentId, 'parentId.agent') : null;
    if (isRefusal(parent)) return parent;
    return {
      tenant,
      parent,
      allDepths: request.allDepths ?? false,
      reader: hasMarks(caller, tenant) ? { provider: caller.ownerProvider, account: caller.account } : null,
      owner: owner && { provider: owner.ownerProvider, account: owner.account },
      includeTerminal: request.includeTerminal ?? false,
      endedSince: request.endedSince === undefined ? null : storable(request.endedSince),
      workspace: request.workspace ?? '',
      phases: (request.phases ?? []).filter((phase) => phase !== 'PHASE_UNSPECIFIED'),
      text: request.text ?? '',
      labels: request.labels ?? {},
    };
  }
}

/** The list that a page token belongs to. */
const nameOf = ({ tenant }: ListScope): string => `agents/${tenant}`;

const lastMs = Date.UTC(9999, 11, 31);

/** Clamps a time to what PostgreSQL can store; no agent ended outside of that range. */
const storable = (time: string): string =>
  new Date(Math.min(Math.max(Date.parse(time), 0), lastMs)).toISOString();

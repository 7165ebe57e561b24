import type pg from 'pg';
import { tasksFrom } from '../control/agents/make-commands.ts';
import type { Transact } from '../control/batches/transact.ts';
import type { QueueFollowUp } from '../domain/commands/queue-follow-up.ts';
import type { Refusal } from '../domain/refusal.ts';
import { oneLine } from '../lib/quoting/quote.ts';
import type { AgentKey } from '../store/agent-store.ts';
import {
  askByNumber,
  type ChangeRequestRow,
  insertChangeRequest,
  pathsOfRequest,
} from '../store/statements/change-requests.ts';
import type { PushedBranch } from '../store/statements/pushed-branches.ts';
import type { HostChangeRequest } from './host.ts';
import type { Integration, Integrations } from './integrations.ts';
import type { Message } from './messages.ts';
import { recordName } from './names.ts';

export interface ChangeRequestsOptions {
  readonly database: pg.Pool;
  readonly transact: Transact;
  readonly integrations: Pick<Integrations, 'isRenamed'>;
}

type Queued = Pick<QueueFollowUp, 'followUpId' | 'description' | 'tasks' | 'digest'> &
  Partial<Pick<QueueFollowUp, 'review'>> & { readonly reopen?: boolean };

/** Records change requests of agents, and tells agents about them. */
export class ChangeRequests {
  readonly #options: ChangeRequestsOptions;

  constructor(options: ChangeRequestsOptions) {
    this.#options = options;
  }

  /** Whether it is recorded with an earlier path of its repository. That record has the new path then, and is compared. */
  async isRenamed(integration: Integration, { repo, number, branch }: HostChangeRequest): Promise<boolean> {
    const { database, integrations } = this.#options;
    const { tenant, name } = integration;
    const earlier = await pathsOfRequest(database, tenant, name, repo, number, branch);
    const isRenamed = await integrations.isRenamed(integration, earlier, repo);
    if (isRenamed) await askByNumber(database, tenant, name, repo, number, 0, false);
    return isRenamed;
  }

  /** Records a change request from a branch that an agent has pushed. One that is recorded is compared. */
  async record(
    integration: Integration,
    request: HostChangeRequest,
    pushed: Pick<PushedBranch, 'tenant' | 'agent' | 'repo'>,
  ): Promise<void> {
    const { repo, number } = request;
    const { database } = this.#options;
    if (await this.isRenamed(integration, request)) return;
    const now = new Date().toISOString();
    const inserted = await insertChangeRequest(database, {
      tenant: pushed.tenant,
      name: recordName(integration.name, repo, number),
      integration: integration.name,
      repo,
      repo_url: pushed.repo,
      number,
      agent: pushed.agent,
      ...described(request),
      checks: { state: 'NONE', failing: [] },
      review: { state: 'NONE', openThreads: 0, resolvedThreads: 0 },
      rounds: 0,
      check_rounds: 0,
      paused: false,
      told: { state: request.state },
      created_at: now,
      updated_at: now,
    });
    if (inserted.length === 0)
      await askByNumber(database, pushed.tenant, integration.name, repo, number, 0, false);
  }

  /** Queues a message to the agent, which is reopened if it finished or failed. */
  tell(key: AgentKey, message: Message, id: string): Promise<unknown | Refusal> {
    return this.queue(key, messageFields(message, id));
  }

  queue(key: AgentKey, { reopen = true, ...fields }: Queued): Promise<unknown | Refusal> {
    const command = { type: 'queue', change: {}, preempt: false, replace: false, deliverAt: null } as const;
    return this.#options.transact.command(
      { key },
      { ...command, ...(reopen && { reopen: true }), ...fields },
    );
  }
}

export const messageFields = ({ description, tasks }: Message, id: string) => ({
  followUpId: id,
  description,
  tasks: tasksFrom(tasks.map((task, i) => ({ ...task, id: `${id.slice(0, 60)}-${i + 1}` }))),
  digest: id,
});

export const keyOf = ({ tenant, agent }: ChangeRequestRow): AgentKey => ({ tenant, id: agent });

/** What the record says about the request itself. */
export const described = (request: HostChangeRequest) => ({
  url: request.url,
  title: oneLine(request.title, 256),
  state: request.state,
  branch: request.branch,
  base: request.base,
  head_sha: request.headSha,
});

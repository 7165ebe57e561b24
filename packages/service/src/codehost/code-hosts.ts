import type { BodyOf, ReplyOf } from '@muster/sdk/contract';
import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { refuseAgent } from '../control/access/permit.ts';
import type { Principal } from '../control/access/principal.ts';
import { agentOfRow, nameTenant } from '../control/agents/identify.ts';
import type { Control } from '../control/control.ts';
import type { Effect } from '../deliveries/process.ts';
import type { FindRecipient } from '../deliveries/receive.ts';
import { denied, isRefusal, notFound, type Refusal, tooSoon } from '../domain/refusal.ts';
import type { HostRule } from '../lib/host-rules.ts';
import type { Log } from '../lib/log.ts';
import type { AgentKey } from '../store/agent-store.ts';
import {
  askAll,
  dueChangeRequests,
  readChangeRequest,
  syncByName,
} from '../store/statements/change-requests.ts';
import { askAllHooks, askHooks, dueHooks } from '../store/statements/deliveries.ts';
import { peekAgents } from '../store/statements/find-agents.ts';
import { duePushedBranches } from '../store/statements/pushed-branches.ts';
import type { Topic } from '../work/outbox.ts';
import { loopOf, type NewLoop } from '../work/work-loops.ts';
import { Administration } from './administration.ts';
import { ChangeRequests } from './change-requests.ts';
import { CompareChangeRequests } from './compare-change-requests.ts';
import { gitCredentialFor } from './git-credentials.ts';
import { Integrations } from './integrations.ts';
import { KnownThreads } from './known-threads.ts';
import { MissedTriggers } from './missed-triggers.ts';
import { OpenChangeRequests } from './open-change-requests.ts';
import { People } from './people.ts';
import { ReadingThread } from './reading-thread.ts';
import { findIntegration } from './recipients.ts';
import { followRename } from './renames.ts';
import { Sender } from './send.ts';
import { TakeDeliveries } from './take-deliveries.ts';
import { TellNews } from './tell-news.ts';
import { Triggers } from './triggers.ts';

export interface CodeHostsOptions {
  readonly database: pg.Pool;
  readonly control: Control;
  readonly log: Log;
  readonly publicUrl: () => string;
  readonly innerHosts: readonly HostRule[];
  /** Comments and checks that follow each other within this time are sent to the agent together. */
  readonly settleMs: number;
  /** Looks at the work that waits in the database: there may be some. */
  readonly nudge: () => void;
}

/** What happens to a change request within this time is one comparison. */
const mostCollectMs = 3_000;

/**
 * The loop with code hosts: deliveries come in, agents get messages, answers go out. This file puts its parts together; what
 * they do waits in the database, and any node does it.
 */
export class CodeHosts {
  readonly recipient: FindRecipient;
  readonly effect: Effect;
  readonly administration: Administration;
  /** Sends the items of the outbox that are for code hosts. */
  readonly topic: Topic;
  /** Change requests to compare, pushed branches, and hosts to ask for triggers whose delivery was lost. */
  readonly work: readonly NewLoop[];
  readonly #options: CodeHostsOptions;
  readonly #integrations: Integrations;
  readonly #opening: OpenChangeRequests;
  /** Replies do not wait for deliveries to be read, which may be much larger. */
  readonly #threads = { deliveries: new ReadingThread(), replies: new ReadingThread() };
  readonly #closing = new AbortController();

  constructor(options: CodeHostsOptions) {
    const { control, nudge } = options;
    const { catalog, transact, reads, tenants, models, metrics } = control;
    this.#options = options;
    const { signal } = this.#closing;
    const collectMs = Math.min(options.settleMs / 10, mostCollectMs);
    const given = { ...options, catalog, transact, reads, tenants, models, metrics, collectMs, signal };
    const integrations = new Integrations({
      ...{ ...given, parse: (bytes: Buffer) => this.#threads.replies.parseReply(bytes) },
      onRenamed: (integration, from, to) => followRename(given, integration, from, to),
    });
    const changeRequests = new ChangeRequests({ ...given, integrations });
    const people = new People();
    const shared = { ...given, integrations, changeRequests, people, threads: new KnownThreads() };
    const triggers = new Triggers(shared);
    const thread = this.#threads.deliveries;
    this.effect = new TakeDeliveries({ ...shared, triggers, thread }).effect;
    const missed = new MissedTriggers({ ...shared, triggers });
    const comparing = new CompareChangeRequests({ ...shared, news: new TellNews(shared) });
    this.#integrations = integrations;
    this.administration = new Administration({ ...shared, onRedelivery: nudge });
    this.#opening = new OpenChangeRequests({ ...shared, onItem: nudge });
    this.recipient = findIntegration(catalog);
    this.topic = new Sender({
      ...shared,
      warn: (key, text) => transact.command({ key }, { type: 'warn', text }),
      pageOf: async (key) => {
        const status = await reads.status({ key });
        return isRefusal(status) ? '' : status.dashboardUrl;
      },
      onOpened: (key) => this.#wake(key),
    });
    this.work = [
      loopOf('change request', dueChangeRequests, comparing),
      loopOf('pushed branch', duePushedBranches, this.#opening),
      loopOf('missed triggers', dueHooks, missed),
    ];
  }

  async start(): Promise<void> {
    await askAll(this.#options.database);
    await askAllHooks(this.#options.database);
  }

  /** Ends the calls to hosts, so that the work that makes them ends. */
  cancel(): void {
    this.#closing.abort();
  }

  /** After all work has ended. */
  async close(): Promise<void> {
    await Promise.all([this.#threads.deliveries.end(), this.#threads.replies.end()]);
  }

  /** Wakes those who wait for something of the agent, on every node. */
  async #wake({ tenant, id }: AgentKey): Promise<void> {
    const { database, control } = this.#options;
    const rows = await peekAgents(database, [tenant], [id]);
    control.wakes.perform(rows.map((row) => ({ ...row, type: 'changed' })));
  }

  /** Opens a change request from the branch that the agent has pushed. One that is open is returned. */
  open(
    caller: Principal,
    body: BodyOf<'openChangeRequest'>,
  ): Promise<ReplyOf<'openChangeRequest'> | Refusal> {
    return this.#opening.open(caller, body);
  }

  /** Compares one change request with its host, or all open ones of a tenant. */
  async sync(
    caller: Principal,
    { tenant: input, name = '' }: BodyOf<'syncChangeRequests'>,
  ): Promise<ReplyOf<'syncChangeRequests'> | Refusal> {
    const { database, control, settleMs, nudge } = this.#options;
    const tenant = await control.tenants.named(input, caller);
    if (isRefusal(tenant)) return tenant;
    const isAdmin = caller.role === 'admin' || caller.role === 'operator';
    if (!name && !isAdmin)
      return denied('only an admin may compare all change requests: name one of an agent of yours');
    const [row] = name ? await readChangeRequest(database, tenant, name) : [];
    if (name && !row) return notFound(`change-request "${name}" not found`);
    const refused = row && refuseAgent(caller, 'command', agentOfRow(row, nameTenant(input, caller)));
    if (refused) return refused;
    // More often than news are collected, it would tell nothing new.
    const intervalMs = Math.min(limits.syncSeconds * 1000, settleMs);
    const [result] = await syncByName(database, tenant, name || null, intervalMs, isAdmin);
    const { found = 0, asked = 0 } = result ?? {};
    const seconds = Math.ceil(intervalMs / 1000);
    if (found > 0 && asked === 0)
      return tooSoon(`a change request is compared on demand once in ${seconds} seconds`, seconds);
    if (!name) await askHooks(database, tenant, intervalMs);
    nudge();
    return { asked };
  }

  /** For a repository of a run that the caller's runner holds. */
  async gitCredential(
    caller: Principal,
    body: BodyOf<'runnerGitCredential'>,
  ): Promise<ReplyOf<'runnerGitCredential'> | Refusal> {
    const refused = await this.#options.control.runners.registry.refuse(caller, body.runnerId);
    return refused ?? gitCredentialFor({ ...this.#options, integrations: this.#integrations }, caller, body);
  }
}

import { setTimeout as pause } from 'node:timers/promises';
import type { BodyOf, ChangeRequest, Delivery, ReplyOf } from '@muster/sdk/contract';
import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { webhookUrlOf } from '../control/catalog/secrets.ts';
import type { Control } from '../control/control.ts';
import type { TenantInput } from '../control/identify.ts';
import { nameTenant } from '../control/identify.ts';
import { refuseResource } from '../control/permit.ts';
import type { Principal } from '../control/principal.ts';
import { changeRequestOf } from '../control/views.ts';
import { invalid, isRefusal, notFound, precondition, type Refusal } from '../domain/refusal.ts';
import type { HostRule } from '../lib/host-rules.ts';
import type { Log } from '../lib/log.ts';
import { readRepos } from '../lib/repositories.ts';
import {
  askAll,
  askByName,
  type DueChangeRequest,
  dueChangeRequests,
  findChangeRequests,
  findTriggers,
  postponeChangeRequest,
  readChangeRequestsOf,
} from '../store/statements/change-requests.ts';
import {
  askAllHooks,
  askHooks,
  type DeliveryRow,
  dueDeliveries,
  dueHooks,
  listDeliveries,
  repeatDelivery,
} from '../store/statements/deliveries.ts';
import type { DueRows } from '../store/statements/due-rows.ts';
import { dueItems, insertItems, readItem } from '../store/statements/outbox.ts';
import {
  branchesOf,
  duePushedBranches,
  type PushedBranch,
  postponePushedBranch,
  settlePushedBranch,
} from '../store/statements/pushed-branches.ts';
import { ChangeRequests } from './change-requests.ts';
import { gitCredentialFor } from './git-credentials.ts';
import { HostError } from './host.ts';
import { covers, type Integration, IntegrationError, Integrations } from './integrations.ts';
import { requestBody, titleOf } from './messages.ts';
import { MissedTriggers } from './missed-triggers.ts';
import { Processor } from './process-deliveries.ts';
import { DeliveryThread } from './read-delivery.ts';
import { Receiver } from './receive.ts';
import { retryMs } from './retries.ts';
import { Sender } from './send.ts';
import { Triggers } from './triggers.ts';
import { WorkLoop } from './work-loop.ts';

export interface CodeHostsOptions {
  readonly database: pg.Pool;
  readonly control: Control;
  readonly log: Log;
  readonly publicUrl: () => string;
  readonly innerHosts: readonly HostRule[];
  /** Comments and checks that follow each other within this time are told together. */
  readonly settleMs: number;
}

/** How long a caller waits for the host. The work goes on after that. */
const openWaitMs = 15_000;
const openPollMs = 100;

/**
 * The loop with code hosts: deliveries come in, agents are told, answers go out. Five kinds of work, each of which any
 * node does: deliveries to process, change requests to compare with their host, branches for which a change request may
 * be opened, items of the outbox to send, and hosts to ask for triggers that no delivery told.
 */
export class CodeHosts {
  readonly receiver: Receiver;
  readonly #options: CodeHostsOptions;
  readonly #integrations: Integrations;
  readonly #changeRequests: ChangeRequests;
  readonly #thread = new DeliveryThread();
  readonly #loops: readonly Pick<WorkLoop<never>, 'table' | 'nudge' | 'close'>[];
  /** How often in a row a change request could not be compared with its host. */
  readonly #failures = new Map<string, number>();
  readonly #closing = new AbortController();

  constructor(options: CodeHostsOptions) {
    const { database, control, log } = options;
    this.#options = options;
    const { catalog, transact } = control;
    const shared = { ...options, catalog, transact, reads: control.reads, tenants: control.tenants };
    const integrations = new Integrations({ ...shared, signal: this.#closing.signal });
    const changeRequests = new ChangeRequests({ ...shared, integrations });
    const triggers = new Triggers({ ...shared, changeRequests, models: control.models });
    const processor = new Processor({
      ...shared,
      integrations,
      changeRequests,
      triggers,
      thread: this.#thread,
    });
    const missed = new MissedTriggers({ database, integrations, changeRequests, triggers });
    const sender = new Sender({
      ...{ database, integrations, changeRequests, log },
      secretValues: (tenant) => catalog.secretValues(tenant),
    });
    this.#integrations = integrations;
    this.#changeRequests = changeRequests;
    const loop = <Row extends { readonly tenant: number }>(
      name: string,
      due: DueRows<Row>,
      work: (row: Row) => Promise<void>,
    ) => new WorkLoop<Row>({ name, database, due, work, log, onWork: () => this.#nudge() });
    this.#loops = [
      loop('delivery', dueDeliveries, (row) => processor.process(row)),
      loop('change request', dueChangeRequests, (row) => this.#look(row)),
      loop('pushed branch', duePushedBranches, (row) => this.#consider(row)),
      loop('outbox', dueItems, (row) => sender.send(row)),
      loop('missed triggers', dueHooks, (row) => missed.find(row)),
    ];
    this.receiver = new Receiver({ database, catalog, onDelivery: () => this.#nudge() });
  }

  async start(): Promise<void> {
    await askAll(this.#options.database);
    await askAllHooks(this.#options.database);
    this.#options.control.timers.onDue((table) => {
      for (const loop of this.#loops) if (loop.table === table) loop.nudge();
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#loops.map((loop) => loop.close()));
    await this.#thread.end();
  }

  /** One kind of work may lead to another. */
  #nudge(): void {
    for (const loop of this.#loops) loop.nudge();
  }

  async #look(row: DueChangeRequest): Promise<void> {
    const { database, log } = this.#options;
    const key = `${row.tenant}/${row.name}`;
    try {
      await this.#changeRequests.look(row);
      this.#failures.delete(key);
    } catch (error) {
      const failures = this.#failures.get(key) ?? 0;
      this.#failures.set(key, failures + 1);
      const askedMs = error instanceof HostError ? error.retryAfterMs : 0;
      const delayMs = Math.max(askedMs, retryMs(failures));
      await postponeChangeRequest(database, row.tenant, row.name, delayMs);
      if (!(error instanceof HostError || error instanceof IntegrationError)) throw error;
      const { tenant, integration, name } = row;
      log.warn(
        { tenant, integration, changeRequest: name, problem: error.message, delayMs },
        'change request not compared with its host',
      );
    }
  }

  /** Opens a change request for a branch, if its integration does that by itself. */
  async #consider(row: PushedBranch): Promise<void> {
    const { database } = this.#options;
    const key = [row.tenant, row.repo, row.branch] as const;
    try {
      const found = await this.#integrations.covering(row.tenant, row.repo);
      if (found) {
        const { integration, repo } = found;
        const known = await findChangeRequests(database, row.tenant, integration.name, repo, row.branch);
        const [newest] = known;
        const isOpen = newest?.state === 'OPEN' || newest?.state === 'DRAFT';
        if (isOpen) await askByName(database, row.tenant, newest.name);
        const opens = integration.changeRequests === 'auto' || integration.changeRequests === 'draft';
        // One that a person has closed is not opened again.
        if (opens && !isOpen && newest?.state !== 'CLOSED' && !integration.paused) {
          await this.#ask(found, row, { draft: integration.changeRequests === 'draft' }, known.length);
        }
      }
      await settlePushedBranch(database, ...key);
    } catch (error) {
      await postponePushedBranch(database, ...key, retryMs(6));
      if (!(error instanceof HostError || error instanceof IntegrationError)) throw error;
    }
  }

  /** Writes the item that opens a change request; returns its key. */
  async #ask(
    { integration, repo }: { readonly integration: Integration; readonly repo: string },
    { tenant, agent, branch, repo: repoUrl }: PushedBranch,
    { title, description, base, draft = false }: Omit<BodyOf<'openChangeRequest'>, 'agentId' | 'repo'>,
    earlier: number,
  ): Promise<string> {
    const { database, control } = this.#options;
    const status = await control.reads.status({ key: { tenant, id: agent } });
    if (isRefusal(status)) throw new IntegrationError(status.message);
    const closes = await findTriggers(database, tenant, agent, integration.name, repo);
    const text = description || status.response || status.description;
    const request = {
      branch,
      base:
        base ||
        (await this.#baseBranch(tenant, status.agentId.workspace, repoUrl)) ||
        (await integration.host.defaultBranch(repo)),
      title: title || titleOf(status.response, status.agentId.agent.join('/')),
      body: requestBody(
        text,
        status.dashboardUrl,
        closes.map(({ number }) => number),
      ),
      isDraft: draft,
    };
    const key = `open/${agent}/${integration.name}/${repo}/${branch}/${earlier}`;
    await insertItems(
      database,
      [
        {
          tenant,
          topic: 'codehost',
          target: integration.name,
          lane: `${repo} ${branch}`,
          kind: 'open',
          agent,
          data: { repo, repoUrl, request },
          key,
        },
      ],
      new Date().toISOString(),
    );
    this.#nudge();
    return key;
  }

  /** The base branch of a repository in its workspace; empty if that does not name one. */
  async #baseBranch(tenant: number, workspace: string, repoUrl: string): Promise<string> {
    const document = await this.#options.control.catalog.document(tenant, 'workspace', workspace);
    return readRepos(document ?? {}).find(({ shownUrl }) => shownUrl === repoUrl)?.baseBranch ?? '';
  }

  /** Opens a change request from the branch that the agent has pushed. One that is open is returned. */
  async open(
    caller: Principal,
    { agentId, repo: wanted, ...request }: BodyOf<'openChangeRequest'>,
  ): Promise<ReplyOf<'openChangeRequest'> | Refusal> {
    const { database, control } = this.#options;
    const agent = await control.commandable(caller, agentId);
    if (isRefusal(agent)) return agent;
    const all = await branchesOf(database, agent.tenant, agent.id);
    const path = agent.path;
    if (all.length === 0)
      return precondition('NOTHING_PUSHED', path, `the agent ${path} has not pushed a branch`);
    const pushed = all.filter(({ repo }) => !wanted || repo === wanted);
    if (pushed.length !== 1) {
      const repos = all.map(({ repo }) => repo).join(', ');
      return invalid(
        'repo',
        `must be a repository that the agent pushed to: ${repos}${wanted ? `; got ${wanted}` : ''}`,
      );
    }
    const [branch] = pushed as [PushedBranch];
    let key: string;
    try {
      const found = await this.#integrations.covering(agent.tenant, branch.repo);
      if (!found || found.integration.changeRequests === 'off')
        return precondition(
          'NO_INTEGRATION',
          branch.repo,
          found
            ? `the integration "${found.integration.name}" has changeRequests: off`
            : `no integration covers ${branch.repo}`,
        );
      const known = await findChangeRequests(
        database,
        agent.tenant,
        found.integration.name,
        found.repo,
        branch.branch,
      );
      const open = known.find(({ state }) => state === 'OPEN' || state === 'DRAFT');
      if (open) return { changeRequest: await this.#view(open) };
      key = await this.#ask(found, branch, request, known.length);
    } catch (error) {
      if (error instanceof HostError || error instanceof IntegrationError)
        return precondition('CODE_HOST', branch.repo, error.message);
      throw error;
    }
    return this.#opened(agent, key, branch);
  }

  async #opened(
    agent: { readonly tenant: number; readonly id: string },
    key: string,
    branch: PushedBranch,
  ): Promise<ReplyOf<'openChangeRequest'> | Refusal> {
    const { database } = this.#options;
    for (const endMs = Date.now() + openWaitMs; Date.now() < endMs; ) {
      const [item] = await readItem(database, agent.tenant, key);
      if (item?.state === 'FAILED') return precondition('CODE_HOST', branch.repo, item.error);
      if (item?.state === 'SENT') {
        const rows = await readChangeRequestsOf(database, [agent.tenant], [agent.id]);
        const row = rows.find((one) => one.branch === branch.branch);
        return { changeRequest: row ? await this.#view(row) : null };
      }
      await pause(openPollMs);
    }
    return { changeRequest: null };
  }

  async #view(row: Parameters<typeof changeRequestOf>[0]): Promise<ChangeRequest> {
    return changeRequestOf(row, await this.#options.control.tenants.name(row.tenant));
  }

  async sync(
    caller: Principal,
    { tenant: input, name = '' }: BodyOf<'syncChangeRequests'>,
  ): Promise<ReplyOf<'syncChangeRequests'> | Refusal> {
    const tenant = await this.#options.control.tenants.named(input, caller);
    if (isRefusal(tenant)) return tenant;
    const asked = await askByName(this.#options.database, tenant, name || null);
    if (name && asked.length === 0) return notFound(`change-request "${name}" not found`);
    if (!name) await askHooks(this.#options.database, tenant);
    this.#nudge();
    return { asked: asked.length };
  }

  async deliveries(
    caller: Principal,
    { tenant: input, name = '', states = [], pageSize, pageToken }: BodyOf<'listDeliveries'>,
  ): Promise<ReplyOf<'listDeliveries'> | Refusal> {
    const tenant = await this.#administered(caller, input, name);
    if (isRefusal(tenant)) return tenant;
    const { database, control } = this.#options;
    const list = `deliveries/${tenant}/${name}`;
    const place = pageToken ? control.pageTokens.open(list, pageToken) : '';
    if (isRefusal(place)) return place;
    const [at = 'infinity', id = ''] = place ? (JSON.parse(place) as string[]) : [];
    const limit = pageSize || limits.pageSize;
    const rows = await listDeliveries(database, tenant, name, states, at, id, limit + 1);
    const shown = rows.slice(0, limit);
    const last = shown.at(-1);
    const next = rows.length > limit && last ? JSON.stringify([last.received_at, last.id]) : '';
    return { entries: shown.map(deliveryOf), nextPageToken: next && control.pageTokens.seal(list, next) };
  }

  async redeliver(
    caller: Principal,
    { tenant: input, name = '', deliveryId = '' }: BodyOf<'redeliver'>,
  ): Promise<Delivery | Refusal> {
    const tenant = await this.#administered(caller, input, name);
    if (isRefusal(tenant)) return tenant;
    if (!deliveryId) return invalid('deliveryId', 'is required: the id of a delivery');
    const [row] = await repeatDelivery(this.#options.database, tenant, name, deliveryId);
    if (!row) return notFound(`the integration "${name}" has no delivery "${deliveryId}" whose body is kept`);
    this.#nudge();
    return deliveryOf(row);
  }

  /** Checks the credential, its permissions and the webhook, and says what is missing. */
  async test(
    caller: Principal,
    { tenant: input, name = '' }: BodyOf<'testIntegration'>,
  ): Promise<ReplyOf<'testIntegration'> | Refusal> {
    const tenant = await this.#administered(caller, input, name);
    if (isRefusal(tenant)) return tenant;
    const { database, control } = this.#options;
    const document = await control.catalog.document(tenant, 'integration', name);
    const webhookUrl = webhookUrlOf(this.#options.publicUrl(), String(document?.webhookUrl ?? ''));
    const checks: ReplyOf<'testIntegration'>['checks'] = [];
    let account = '';
    try {
      const integration = await this.#integrations.open(tenant, name);
      account = (await integration.host.self()).login;
      checks.push({ name: 'credential', ok: true, advice: '' });
      const repos = (await integration.host.repositories()).filter((repo) => covers(integration.repos, repo));
      const advice = 'Give the credential access to a repository that `repos` of the integration covers.';
      checks.push({ name: 'repositories', ok: repos.length > 0, advice: repos.length > 0 ? '' : advice });
      const [first] = repos;
      const needed = first ? await integration.host.requirements(first) : [];
      checks.push(
        ...needed.map((one) => ({ name: one.name, ok: one.isMet, advice: one.isMet ? '' : one.advice })),
      );
    } catch (error) {
      if (!(error instanceof HostError || error instanceof IntegrationError)) throw error;
      const advice = isUnaccepted(error) ? `${error.message}. ${newCredential}` : error.message;
      checks.push({ name: account ? 'host' : 'credential', ok: false, advice });
    }
    const [delivery] = await listDeliveries(database, tenant, name, [], 'infinity', '', 1);
    checks.push({
      name: 'webhook',
      ok: delivery !== undefined,
      advice: delivery ? '' : `No delivery has arrived yet. Add the webhook ${webhookUrl} at the host.`,
    });
    return { account, webhookUrl, checks };
  }

  /** For a repository of a run that the caller's runner holds. */
  gitCredential(
    caller: Principal,
    body: BodyOf<'runnerGitCredential'>,
  ): Promise<ReplyOf<'runnerGitCredential'> | Refusal> {
    return gitCredentialFor({ ...this.#options, integrations: this.#integrations }, caller, body);
  }

  /** The tenant of an integration that the caller may administer. */
  async #administered(caller: Principal, input: TenantInput, name: string): Promise<number | Refusal> {
    if (!name) return invalid('name', 'is required: the name of an integration');
    const { tenants, catalog } = this.#options.control;
    const tenant =
      refuseResource(caller, nameTenant(input, caller), 'integration') ??
      (await tenants.named(input, caller));
    if (isRefusal(tenant) || (await catalog.document(tenant, 'integration', name))) return tenant;
    return notFound(`integration "${name}" not found`);
  }
}

const isUnaccepted = (error: Error): boolean => error instanceof HostError && error.status === 401;
const newCredential =
  'The host does not accept the credential: create a new one and write it to the secret that the integration names.';

const deliveryOf = (row: DeliveryRow): Delivery => ({
  deliveryId: row.id,
  event: row.event,
  subject: row.subject,
  state: row.state,
  reason: row.reason,
  attempts: row.attempts,
  bytes: row.bytes,
  receivedAt: row.received_at,
  settledAt: row.settled_at,
});

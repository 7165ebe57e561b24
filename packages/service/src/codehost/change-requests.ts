import { hash } from 'node:crypto';
import type pg from 'pg';
import { tasksFrom } from '../control/make-commands.ts';
import type { Transact } from '../control/transact.ts';
import type { QueueFollowUp } from '../domain/commands/queue-follow-up.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import type { ThreadComments } from '../domain/thread.ts';
import type { AgentKey } from '../store/agent-store.ts';
import {
  type ChangeRequestRow,
  type DueChangeRequest,
  hasPersonWritten,
  insertChangeRequest,
  type Ledger,
  postponeChangeRequest,
  readLedger,
  saveChangeRequest,
  type Told,
} from '../store/statements/change-requests.ts';
import { peekAgents } from '../store/statements/find-agents.ts';
import { insertItems, readOwnPosts } from '../store/statements/outbox.ts';
import type { HostChangeRequest, HostComment, Permission, Person, RepoPath } from './host.ts';
import type { Integration, Integrations } from './integrations.ts';
import { checksMessage, conflictMessage, endMessage, type Message } from './messages.ts';
import { messageId, messagePrefix, recordName } from './names.ts';
import {
  areSubmitted,
  authorsOf,
  beginningOf,
  checksOf,
  type HostState,
  heard,
  isAtLeast,
  isComputing,
  type News,
  type ReviewNews,
  reviewOf,
  toldCommentBytes,
  unknownComments,
  whatIsNew,
} from './news.ts';
import { cutMarkdown, oneLine } from './quote.ts';

export interface ChangeRequestsOptions {
  readonly database: pg.Pool;
  readonly transact: Transact;
  readonly integrations: Integrations;
  /** Comments and checks that follow each other within this time are told together. */
  readonly settleMs: number;
}

const hourMs = 3_600_000;
/** How soon a message of a person resumes a change request that is paused. */
const pausedMs = 10_000;
/** A comment that may be the integration's own is looked at again after this time. */
const sendingMs = 2_000;
const logBytes = 16 * 1024;
const checksTold = 20;
/** Of a review. A message and its tasks must fit into a command. */
const mostTold = { threads: 100, bytes: 1024 * 1024 };
/** A permission that was taken away counts for so long. */
const permissionMs = 60_000;
const mostPermissions = 10_000;
/** A message that the agent has no room for is tried again after this time. */
const fullMs = 60_000;

/**
 * The change requests of agents. Each is compared with its host whenever something may have happened to it, and once an
 * hour: what is new becomes a message to the agent. So it does not matter which deliveries arrive, in which order and how
 * often.
 */
export class ChangeRequests {
  readonly #options: ChangeRequestsOptions;

  readonly #permissions = new Map<string, { readonly permission: Permission; readonly untilMs: number }>();

  constructor(options: ChangeRequestsOptions) {
    this.#options = options;
  }

  /** Records a change request of an agent. */
  async record(
    integration: Integration,
    request: HostChangeRequest,
    agent: AgentKey,
    repoUrl: string,
  ): Promise<string> {
    const { repo, number } = request;
    const name = recordName(integration.name, repo, number);
    const now = new Date().toISOString();
    await insertChangeRequest(this.#options.database, {
      tenant: agent.tenant,
      name,
      integration: integration.name,
      repo,
      repo_url: repoUrl,
      number,
      agent: agent.id,
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
    return name;
  }

  /** Compares one with its host, tells the agent what is new, and saves when to look again. */
  async look(row: DueChangeRequest): Promise<void> {
    const { database, integrations } = this.#options;
    const integration = await integrations.open(row.tenant, row.integration);
    if (integration.paused) return void (await postponeChangeRequest(database, row.tenant, row.name, hourMs));
    const { host } = integration;
    const request = await host.changeRequest(row.repo, row.number);
    const isOpen = request.state === 'OPEN' || request.state === 'DRAFT';
    const [threads, allReviews, checks, self] = await Promise.all([
      host.threads(row.repo, row.number),
      host.reviews(row.repo, row.number),
      isOpen ? host.checks(row.repo, request.headSha) : [],
      host.self(),
    ]);
    const reviews = [];
    for (const review of allReviews) {
      // Some hosts make a review of each reply.
      if (review.author.id === self.id) continue;
      if ((await this.refuseToHear(integration, row.repo, review.author)) === null) reviews.push(review);
    }
    const state: HostState = { request, threads, reviews, checks, self };
    const resumed = await this.#resumed(row);
    const { next, delayMs } = await this.#tell(integration, resumed, state);
    await saveChangeRequest(
      database,
      {
        ...next,
        ...described(request),
        checks: isOpen ? checksOf(checks, integration.checks.ignore) : row.checks,
        review: reviewOf(threads, reviews),
        updated_at: new Date().toISOString(),
      },
      isOpen ? Math.min(delayMs, hourMs) : null,
    );
  }

  /** After a message of a person the rounds start again. */
  async #resumed(row: DueChangeRequest): Promise<DueChangeRequest> {
    const { database } = this.#options;
    const [agent] = await peekAgents(database, [row.tenant], [row.agent]);
    const sequence = agent?.sequence ?? 0;
    const since = row.told.sequence;
    const [answer] =
      since === undefined || since === sequence
        ? []
        : await hasPersonWritten(database, row.tenant, row.agent, since, messagePrefix);
    const told: Told = { ...row.told, sequence };
    return answer?.written ? { ...row, told, rounds: 0, check_rounds: 0, paused: false } : { ...row, told };
  }

  /** Tells the agent one thing at a time: how it ended, a review, failed checks, a conflict. */
  async #tell(
    integration: Integration,
    row: DueChangeRequest,
    state: HostState,
  ): Promise<{ next: DueChangeRequest; delayMs: number }> {
    const { request } = state;
    const { settleMs } = this.#options;
    if (request.state === 'MERGED' || request.state === 'CLOSED') {
      return { next: await this.#tellEnd(integration, row, request), delayMs: hourMs };
    }
    const ledger = await readLedger(this.#options.database, row.tenant, row.agent, row.name);
    await this.#noteResolved(row, ledger, state);
    const news = await this.#news(integration, row, ledger, state);
    if (news === 'sending') return { next: row, delayMs: sendingMs };
    const checks = checksOf(state.checks, integration.checks.ignore);
    const what = whatIsNew(row, state, news, integration.checks, checks);
    if (what.type === 'nothing') {
      const { waiting: _, ...told } = row.told;
      const isPassing = checks.state === 'PASSING';
      return {
        next: { ...row, told, ...(isPassing && { check_rounds: 0 }) },
        delayMs: row.paused ? pausedMs : isComputing(request, Date.now()) ? settleMs : hourMs,
      };
    }
    if (row.paused) return { next: row, delayMs: pausedMs };
    const waitMs = this.#waitMs(row, what);
    if (waitMs > 0) {
      const until = row.told.waiting?.digest === what.digest ? row.told.waiting.untilMs : Date.now() + waitMs;
      return {
        next: { ...row, told: { ...row.told, waiting: { digest: what.digest, untilMs: until } } },
        delayMs: waitMs,
      };
    }
    const isUsedUp =
      row.rounds >= integration.rounds ||
      (what.type === 'checks' && row.check_rounds >= integration.checks.rounds);
    if (isUsedUp) return { next: await this.#pause(row, what.type), delayMs: pausedMs };
    const { waiting: _, ...told } = row.told;
    const sent = await this.#sendNews(integration, row, state, what);
    if (isRefusal(sent)) {
      const delayMs = sent.status === 'RESOURCE_EXHAUSTED' ? fullMs : hourMs;
      return { next: { ...row, told }, delayMs };
    }
    return {
      next: {
        ...row,
        rounds: row.rounds + 1,
        check_rounds: what.type === 'checks' ? row.check_rounds + 1 : row.check_rounds,
        told: {
          ...told,
          ...(what.type === 'checks' && { checksSha: request.headSha }),
          ...(what.type === 'conflict' && { conflictSha: request.headSha }),
        },
      },
      // What else is new is told next.
      delayMs: 0,
    };
  }

  /** How long to wait for more of the same. A review that was submitted is complete. */
  #waitMs({ told }: DueChangeRequest, what: News): number {
    if (what.type === 'review' && areSubmitted(what.threads)) return 0;
    if (told.waiting?.digest !== what.digest) return this.#options.settleMs;
    return Math.max(0, told.waiting.untilMs - Date.now());
  }

  /** Threads that were resolved or opened again at the host. */
  async #noteResolved(row: DueChangeRequest, ledger: Ledger, { threads }: HostState): Promise<void> {
    const { transact } = this.#options;
    const atHost = new Map(threads.map((thread) => [thread.id, thread]));
    for (const { id, host_id, state } of ledger.threads) {
      const thread = atHost.get(host_id);
      // One that can't be resolved there may be resolved here.
      if (!thread || (!thread.isResolved && !thread.canResolve)) continue;
      const to = thread.isResolved ? 'RESOLVED' : 'OPEN';
      const command = { type: 'resolveThread', threadId: id, state: to, byHost: true } as const;
      if (to !== state) await transact.command({ key: keyOf(row) }, command);
    }
  }

  /** Comments that people wrote who may be heard, and the agent does not know. */
  async #news(integration: Integration, row: DueChangeRequest, ledger: Ledger, { threads, self }: HostState) {
    const { database } = this.#options;
    const ids = threads.flatMap(({ comments }) => comments.map(({ id }) => id));
    const [own] = await readOwnPosts(database, row.tenant, row.integration, ids);
    const unknown = unknownComments(threads, new Set([...ledger.comments, ...(own?.posted ?? [])]), self);
    if (unknown.length === 0) return [];
    // The answer to a call that posted it may still be on its way.
    if (own?.is_sending && authorsOf(unknown).some(({ id }) => id === self.id)) return 'sending';
    const permissionOf = new Map<string, Permission>();
    for (const author of authorsOf(unknown))
      permissionOf.set(author.id, await this.permissionOf(integration, row.repo, author));
    const isHeard = ({ id }: Person) =>
      isAtLeast(permissionOf.get(id) ?? 'none', integration.minimumPermission);
    return beginningOf(heard(unknown, isHeard), mostTold).map((thread) => ({ ...thread, permissionOf }));
  }

  /** Why somebody is not heard; null if they are. */
  async refuseToHear(integration: Integration, repo: RepoPath, person: Person): Promise<string | null> {
    const permission = await this.permissionOf(integration, repo, person);
    const { minimumPermission } = integration;
    return isAtLeast(permission, minimumPermission)
      ? null
      : `${person.login} has the permission ${permission}; ${minimumPermission} is needed`;
  }

  /** By the host's own answer; a listed bot counts as an administrator. */
  async permissionOf(integration: Integration, repo: RepoPath, person: Person): Promise<Permission> {
    if (integration.bots.includes(person.id)) return 'admin';
    const key = JSON.stringify([integration.tenant, integration.name, repo, person.id]);
    const known = this.#permissions.get(key);
    if (known && known.untilMs > Date.now()) return known.permission;
    const permission = await integration.host.permissionOf(repo, person);
    if (this.#permissions.size >= mostPermissions) this.#permissions.clear();
    this.#permissions.set(key, { permission, untilMs: Date.now() + permissionMs });
    return permission;
  }

  async #sendNews(
    integration: Integration,
    row: DueChangeRequest,
    { request }: HostState,
    what: News,
  ): Promise<unknown | Refusal> {
    if (what.type === 'conflict') return this.tell(keyOf(row), conflictMessage(request), idOf(row, what));
    if (what.type === 'review') return this.#tellReview(row, request, what);
    const { host } = integration;
    const failed = await Promise.all(
      what.checks.slice(0, checksTold).map(async (check) => ({
        check,
        log: await host.endOfLog(row.repo, check, logBytes).catch(() => ''),
      })),
    );
    return this.tell(keyOf(row), checksMessage(request, failed), idOf(row, what));
  }

  #tellReview(
    row: DueChangeRequest,
    request: HostChangeRequest,
    what: ReviewNews,
  ): Promise<unknown | Refusal> {
    const id = idOf(row, what);
    const threads = what.threads.map(
      ({ thread, comments, permissionOf }): ThreadComments => ({
        id: threadIdOf(row, thread.id),
        place: {
          repo: row.repo_url,
          path: thread.path,
          line: thread.line ?? 0,
          startLine: thread.startLine ?? thread.line ?? 0,
          side: thread.side,
          quote: '',
          changeRequest: row.name,
          hostId: thread.id,
          url: thread.comments[0]?.url ?? request.url,
        },
        comments: comments.map((comment) => commentOf(comment, permissionOf)),
      }),
    );
    return this.#queue(keyOf(row), {
      followUpId: id,
      description: `People commented on your change request ${request.repo}#${request.number}. ${request.url}`,
      tasks: [],
      digest: id,
      review: { threads, tellAgain: row.name, taskIds: id.slice(0, 60) },
    });
  }

  async #tellEnd(
    integration: Integration,
    row: DueChangeRequest,
    request: HostChangeRequest,
  ): Promise<DueChangeRequest> {
    if (row.told.state === request.state) return row;
    const key = keyOf(row);
    if (request.state === 'MERGED' && integration.onMerged === 'finish')
      await this.#options.transact.command({ key }, { type: 'conclude' });
    else if (request.state === 'CLOSED' || integration.onMerged === 'inform')
      await this.#queue(key, {
        ...messageFields(endMessage(request), messageId(row.name, 'end', request.state, request.updatedAt)),
        reopen: false,
      });
    return { ...row, told: { ...row.told, state: request.state } };
  }

  /** One comment at the host says that it is paused. */
  async #pause(row: DueChangeRequest, because: News['type']): Promise<DueChangeRequest> {
    const now = new Date().toISOString();
    const body = [
      because === 'checks'
        ? `The checks failed ${row.check_rounds} times in a row after changes of the agent.`
        : `The agent has had ${row.rounds} rounds in this change request without a message of a person.`,
      'It is paused. A message to the agent in Muster resumes it.',
    ].join(' ');
    await insertItems(
      this.#options.database,
      [
        {
          tenant: row.tenant,
          topic: 'codehost',
          target: row.integration,
          lane: row.name,
          kind: 'comment',
          agent: row.agent,
          data: { repo: row.repo, subject: { type: 'change-request', number: row.number }, body },
          key: `paused/${row.name}/${row.told.sequence}`,
        },
      ],
      now,
    );
    return { ...row, paused: true };
  }

  /** Queues a message to the agent, which is reopened if it finished or failed. */
  tell(key: AgentKey, message: Message, id: string): Promise<unknown | Refusal> {
    return this.#queue(key, messageFields(message, id));
  }

  #queue(
    key: AgentKey,
    {
      reopen = true,
      ...fields
    }: Pick<QueueFollowUp, 'followUpId' | 'description' | 'tasks' | 'digest'> &
      Partial<Pick<QueueFollowUp, 'review'>> & { readonly reopen?: boolean },
  ): Promise<unknown | Refusal> {
    return this.#options.transact.command(
      { key },
      {
        type: 'queue',
        change: {},
        preempt: false,
        replace: false,
        deliverAt: null,
        ...(reopen && { reopen: true }),
        ...fields,
      },
    );
  }
}

const idOf = (row: ChangeRequestRow, what: News): string => messageId(row.name, what.type, what.digest);

const messageFields = ({ description, tasks }: Message, id: string) => ({
  followUpId: id,
  description,
  tasks: tasksFrom(tasks.map((task, i) => ({ ...task, id: `${id.slice(0, 60)}-${i + 1}` }))),
  digest: id,
});

const keyOf = ({ tenant, agent }: ChangeRequestRow): AgentKey => ({ tenant, id: agent });

/** The id of a thread in the ledger: the same whenever it is read. */
function threadIdOf({ tenant, name }: ChangeRequestRow, hostId: string): string {
  const digits = hash('sha256', JSON.stringify([tenant, name, hostId]), 'hex');
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-8${digits.slice(13, 16)}-a${digits.slice(17, 20)}-${digits.slice(20, 32)}`;
}

const commentOf = (comment: HostComment, permissionOf: ReadonlyMap<string, Permission>) => ({
  author: oneLine(comment.author.login, 100),
  kind: 'PERSON' as const,
  permission: permissionOf.get(comment.author.id) ?? 'none',
  body: cutMarkdown(comment.body, toldCommentBytes),
  at: comment.createdAt,
  url: comment.url,
  hostId: comment.id,
});

const described = (request: HostChangeRequest) => ({
  url: request.url,
  title: oneLine(request.title, 256),
  state: request.state,
  branch: request.branch,
  base: request.base,
  head_sha: request.headSha,
});

import type pg from 'pg';
import type { Log } from '../lib/log.ts';
import type { AgentKey } from '../store/agent-store.ts';
import { askWhenPosted, noteProblem } from '../store/statements/change-requests.ts';
import type { DueItem } from '../store/statements/outbox.ts';
import { HostError } from '../work/host-error.ts';
import { hasMarker, withMarker } from '../work/markers.ts';
import { ageMs, mostAgeMs, type Postponed, shortReason, type Topic } from '../work/outbox.ts';
import type { ChangeRequests } from './change-requests.ts';
import { type HostThread, type RepoPath, type Subject, subjectName } from './host.ts';
import { type Integration, IntegrationError, type Integrations } from './integrations.ts';
import type { Items } from './items.ts';
import { type KnownThreads, threadsKey } from './known-threads.ts';
import { fitted, mostPosted } from './messages.ts';
import { orRefusal } from './or-refusal.ts';

export interface SenderOptions {
  readonly database: pg.Pool;
  readonly integrations: Integrations;
  readonly changeRequests: Pick<ChangeRequests, 'record'>;
  readonly threads: KnownThreads;
  readonly collectMs: number;
  /** An entry in the timeline of an agent. */
  readonly warn: (agent: AgentKey, text: string) => Promise<unknown>;
  /** The page of an agent; empty if it is gone. */
  readonly pageOf: (agent: AgentKey) => Promise<string>;
  /** Wakes those who wait for a change request of the agent. */
  readonly onOpened: (agent: AgentKey) => Promise<unknown>;
  readonly log: Log;
}

/** Clocks differ: comments are searched from a little before the item was written. */
const skewMs = 10 * 60_000;
/** A person has to change the integration, or its credential, first. */
const integrationErrorMs = 5 * 60_000;
/** An item that a permission is missing for is tried again after a successful test of the integration, and once an hour. */
const permissionMs = 60 * 60_000;
const mostPermissionAgeMs = 30 * 24 * 3_600_000;

/** How the host refuses a comment that nobody may write any more, whatever their permission. */
const isFinalText = /locked|archived|read.?only|blocked/i;

/** The host shows the repository no more, or never did: the credential has no access to it. */
class UnreachedError extends HostError {
  constructor(repo: RepoPath, { message }: Error) {
    super('refused', 404, `the credential does not reach ${repo}: ${message}`);
  }
}

/** What each kind of item does, and the permission that it takes. */
const kinds: Readonly<Record<string, { readonly does: string; readonly needs: string }>> = {
  comment: { does: 'comment', needs: 'issues: write' },
  reply: { does: 'reply to a review thread', needs: 'pull requests: write' },
  resolve: { does: 'resolve a review thread', needs: 'contents: write' },
  reopen: { does: 'open a review thread again', needs: 'contents: write' },
  open: { does: 'open a change request', needs: 'pull requests: write' },
};

/** An item on its way, with what sending it takes. */
interface Post {
  readonly integration: Integration;
  readonly item: DueItem;
  readonly masked: (text: string) => string;
  /** A text as it is posted, with its marker. */
  readonly bodyOf: (text: string, ending?: string) => string;
}

/** Posts items of the outbox to code hosts. Each takes effect once, also when an answer of the host is lost. */
export class Sender implements Topic {
  readonly #options: SenderOptions;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  async send(item: DueItem, masked: (text: string) => string): Promise<string | null> {
    const integration = await this.#options.integrations.open(item.tenant, item.target);
    if (integration.paused) throw new IntegrationError('the integration is paused');
    // Masked before it is cut: a part of a secret would not be recognized.
    const isLong = JSON.stringify(item.data).length > mostPosted;
    const page =
      item.agent && isLong ? await this.#options.pageOf({ tenant: item.tenant, id: item.agent }) : '';
    const bodyOf = (text: string, ending = '') =>
      withMarker([fitted(masked(text), page), ending].filter(Boolean).join('\n\n'), item.marker);
    try {
      return await this.#post({ integration, item, masked, bodyOf });
    } catch (error) {
      const isMissing = error instanceof HostError && error.status === 404;
      const repo = String(item.data.repo);
      // Its repository may be there, and only the issue or the thread gone.
      const path = isMissing ? await orRefusal(integration.host.path(repo)) : null;
      throw path instanceof HostError ? new UnreachedError(repo, path) : error;
    }
  }

  #post(post: Post): Promise<string | null> {
    switch (post.item.kind as keyof Items) {
      case 'comment':
        return this.#comment(post);
      case 'reply':
        return this.#reply(post);
      case 'resolve':
      case 'reopen':
        return this.#settleThread(post);
      case 'open':
        return this.#openChangeRequest(post);
      default:
        throw new HostError('refused', 0, `unknown kind of item: ${post.item.kind}`);
    }
  }

  /** Tries again after a while, if a person may have granted by then what is missing. */
  postponed(item: DueItem, error: Error): Postponed | null {
    const reason = shortReason(error);
    if (lacksPermission(item, error) && ageMs(item) < mostPermissionAgeMs)
      return { state: 'QUEUED', reason: lackingText(item, reason), delayMs: permissionMs };
    const isUnusable = error instanceof IntegrationError || isUnaccepted(error);
    return isUnusable && ageMs(item) <= mostAgeMs
      ? { state: item.state, reason, delayMs: integrationErrorMs }
      : null;
  }

  async sent(item: DueItem): Promise<void> {
    const { database, collectMs } = this.#options;
    const { tenant, target, lane, kind } = item;
    await noteProblem(database, tenant, lane, 'postProblem', '');
    // Not every host reports that a thread was resolved.
    if (kind === 'reply' || kind === 'resolve' || kind === 'reopen')
      await askWhenPosted(database, tenant, target, lane, collectMs);
    await this.#wakeWaiting(item);
  }

  /** Said when it begins to wait for a permission or another credential, not again each time. */
  async waits(item: DueItem, error: Error): Promise<void> {
    const isLacking = lacksPermission(item, error);
    const text = isLacking ? lackingText(item, shortReason(error)) : shortReason(error);
    if ((isLacking || isUnaccepted(error)) && item.error !== text)
      await this.#warn(item, `${text}. It is posted after a successful \`muster integration test\`.`);
  }

  async givenUp(item: DueItem, reason: string): Promise<void> {
    await this.#warn(item, reason);
    await this.#wakeWaiting(item);
  }

  async #wakeWaiting({ tenant, agent, data }: DueItem): Promise<void> {
    if (agent && data.isAsked === true) await this.#options.onOpened({ tenant, id: agent });
  }

  /** In the log, on the record that it is about, and once for each reason in the timeline of the agent. */
  async #warn({ tenant, target, lane, kind, agent, data }: DueItem, reason: string): Promise<void> {
    const { database, log, warn } = this.#options;
    log.warn({ tenant, integration: target, kind, problem: reason }, 'not posted to the code host');
    const isAnswer = kind !== 'open' && kind !== 'comment';
    const noted = await noteProblem(database, tenant, lane, 'postProblem', `${kind}: ${reason}`);
    if (!agent || (isAnswer && noted.length === 0)) return;
    const what = `${kinds[kind]?.does ?? kind} in ${String(data.repo)}`;
    await warn({ tenant, id: agent }, `The integration "${target}" could not ${what}: ${reason}`);
  }

  async #comment({ integration, item, bodyOf }: Post): Promise<string> {
    const { repo, subject, body } = item.data as unknown as Items['comment'];
    const known = await this.#posted(integration, item, repo, subject);
    return known ?? (await integration.host.comment(repo, subject, bodyOf(body))).id;
  }

  async #reply({ integration, item, bodyOf }: Post): Promise<string> {
    const { repo, number, body } = item.data as unknown as Items['reply'];
    const thread = await this.#thread(integration, item);
    const inThread = thread.comments.find((comment) => hasMarker(comment.body, item.marker));
    if (inThread) return inThread.id;
    // Where a reply can't be added to a thread, it becomes a separate comment.
    const known = await this.#posted(integration, item, repo, { type: 'change-request', number });
    return known ?? (await integration.host.reply(repo, number, thread, bodyOf(body))).id;
  }

  async #settleThread({ integration: { host }, integration, item }: Post): Promise<string | null> {
    const { repo, number } = item.data as unknown as Items['resolve'];
    const isResolved = item.kind === 'resolve';
    const thread = await this.#thread(integration, item);
    if (thread.isResolved === isResolved || !host.capabilities.resolvesThreads) return null;
    if (isResolved && !thread.canResolve) return null;
    await host.resolve(repo, number, thread, isResolved);
    return '';
  }

  async #openChangeRequest({ integration, item, masked, bodyOf }: Post): Promise<string | null> {
    const { repo, repoUrl, request, ending } = item.data as unknown as Items['open'];
    const { host } = integration;
    if (!item.agent) return null;
    const posted = { ...request, title: masked(request.title), body: bodyOf(request.body, ending) };
    const opened =
      (await host.changeRequestsFrom(repo, request.branch))[0] ??
      (await host.openChangeRequest(repo, {
        ...posted,
        base: request.base || (await host.defaultBranch(repo)),
      }));
    const pushed = { tenant: item.tenant, agent: item.agent, repo: repoUrl };
    await this.#options.changeRequests.record(integration, opened, pushed);
    return subjectName(opened.repo, opened.number);
  }

  /** The id of the comment that an earlier attempt posted, if it may have. */
  async #posted(
    { host }: Integration,
    { created_at, marker, state }: DueItem,
    repo: RepoPath,
    subject: Subject,
  ): Promise<string | null> {
    if (state !== 'SENDING') return null;
    const since = new Date(Date.parse(created_at) - skewMs).toISOString();
    const comments = await host.comments(repo, subject, since);
    return comments.find(({ body }) => hasMarker(body, marker))?.id ?? null;
  }

  /** One that was read shortly before is good enough for what was never sent, and for what may be done twice. */
  async #thread({ host }: Integration, item: DueItem): Promise<HostThread> {
    const { repo, number, threadId } = item.data as unknown as Items['reply'];
    const key = threadsKey({ tenant: item.tenant, integration: item.target, repo, number });
    const known = this.#options.threads.find(key, threadId);
    const isNew = item.state === 'QUEUED' && item.attempts === 0;
    if (known && isNew && (item.kind === 'reply' || (item.kind === 'resolve' && !known.isResolved)))
      return known;
    const threads = await host.threads(repo, number);
    this.#options.threads.note(key, threads);
    const thread = threads.find(({ id }) => id === threadId);
    if (!thread) throw new HostError('refused', 404, 'the thread is gone');
    return thread;
  }
}

const lackingText = ({ kind }: DueItem, reason: string): string =>
  `${reason}. It needs ${kinds[kind]?.needs}`;

const isUnaccepted = (error: Error): boolean => error instanceof HostError && error.status === 401;

/** Not if a caller waits for it: the reply says so immediately. */
function lacksPermission({ data }: DueItem, error: Error): boolean {
  if (data.isAsked === true || !(error instanceof HostError) || error.kind !== 'refused') return false;
  return error instanceof UnreachedError || (error.status === 403 && !isFinalText.test(error.message));
}

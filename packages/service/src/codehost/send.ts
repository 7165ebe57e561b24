import type pg from 'pg';
import type { Log } from '../lib/log.ts';
import { ValueMask } from '../lib/value-mask.ts';
import { askWhenPosted } from '../store/statements/change-requests.ts';
import { type DueItem, postponeItem, settleItem } from '../store/statements/outbox.ts';
import type { ChangeRequests } from './change-requests.ts';
import { HostError, type HostThread, type NewChangeRequest, type RepoPath, type Subject } from './host.ts';
import { type Integration, IntegrationError, type Integrations } from './integrations.ts';
import { hasMarker, withMarker } from './markers.ts';
import { retryMs } from './retries.ts';

/** What an item of the outbox asks of a host, by its kind. */
export interface Items {
  readonly comment: { readonly repo: RepoPath; readonly subject: Subject; readonly body: string };
  readonly reply: {
    readonly repo: RepoPath;
    readonly number: number;
    readonly threadId: string;
    readonly body: string;
  };
  readonly resolve: { readonly repo: RepoPath; readonly number: number; readonly threadId: string };
  readonly reopen: Items['resolve'];
  readonly open: { readonly repo: RepoPath; readonly repoUrl: string; readonly request: NewChangeRequest };
}

export interface SenderOptions {
  readonly database: pg.Pool;
  readonly integrations: Integrations;
  readonly changeRequests: ChangeRequests;
  /** The values of a tenant's secrets: they are masked in everything that is posted. */
  readonly secretValues: (tenant: number) => Promise<readonly string[]>;
  readonly log: Log;
}

/** An item is given up after this time. */
const mostAgeMs = 3 * 24 * 3_600_000;
/** Clocks differ: comments are searched from a little before the item was written. */
const skewMs = 10 * 60_000;
/** A person has to change the integration, or its credential, first. */
const integrationErrorMs = 5 * 60_000;

/** Sends items of the outbox. Each takes effect once, also when an answer of the host is lost. */
export class Sender {
  readonly #options: SenderOptions;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  async send(item: DueItem): Promise<void> {
    const { database, log } = this.#options;
    const { tenant, id } = item;
    const isOld = Date.parse(item.created_at) + mostAgeMs < Date.now();
    try {
      const integration = await this.#options.integrations.open(tenant, item.target);
      if (integration.paused) throw new IntegrationError('the integration is paused');
      const posted = await this.#post(integration, item);
      await settleItem(database, tenant, id, posted === null ? 'DROPPED' : 'SENT', posted ?? '', '');
    } catch (error) {
      const reason = (error as Error).message.slice(0, 1000);
      const isUnusable =
        error instanceof IntegrationError || (error instanceof HostError && error.status === 401);
      if (isUnusable && !isOld)
        return void (await postponeItem(database, tenant, id, item.state, reason, integrationErrorMs));
      if (error instanceof HostError && error.kind === 'limited' && !isOld)
        return void (await postponeItem(database, tenant, id, item.state, reason, error.retryAfterMs));
      const isFinal = isOld || (error instanceof HostError && error.kind === 'refused');
      if (!isFinal)
        return void (await postponeItem(database, tenant, id, 'SENDING', reason, retryMs(item.attempts)));
      log.warn(
        { err: error, tenant, integration: item.target, kind: item.kind },
        'not posted to the code host',
      );
      return void (await settleItem(database, tenant, id, 'FAILED', '', reason));
    }
    // Not every host reports that a thread was resolved. If this fails, what was posted stays so.
    if (item.kind === 'reply' || item.kind === 'resolve' || item.kind === 'reopen')
      await askWhenPosted(database, tenant, item.target, item.lane);
  }

  /** The host's id of what was posted; null if there was nothing to do. */
  async #post(integration: Integration, item: DueItem): Promise<string | null> {
    const { host } = integration;
    const { marker } = item;
    const mask = new ValueMask(await this.#options.secretValues(item.tenant));
    const bodyOf = (text: string) => withMarker(mask.text(text), marker);
    switch (item.kind as keyof Items) {
      case 'comment': {
        const { repo, subject, body } = item.data as unknown as Items['comment'];
        const known = item.state === 'SENDING' ? await this.#posted(integration, item, repo, subject) : null;
        return known ?? (await host.comment(repo, subject, bodyOf(body))).id;
      }
      case 'reply': {
        const { repo, number, body } = item.data as unknown as Items['reply'];
        const thread = await this.#thread(integration, item);
        const inThread = thread.comments.find((comment) => hasMarker(comment.body, marker));
        if (inThread) return inThread.id;
        // Where a reply can't be added to a thread, it becomes a comment of its own.
        const subject = { type: 'change-request', number } as const;
        const known = item.state === 'SENDING' ? await this.#posted(integration, item, repo, subject) : null;
        return known ?? (await host.reply(repo, number, thread, bodyOf(body))).id;
      }
      case 'resolve':
      case 'reopen': {
        const { repo, number } = item.data as unknown as Items['resolve'];
        const isResolved = item.kind === 'resolve';
        const thread = await this.#thread(integration, item);
        if (thread.isResolved === isResolved || !host.capabilities.resolvesThreads) return null;
        if (isResolved && !thread.canResolve) return null;
        await host.resolve(repo, number, thread, isResolved);
        return '';
      }
      case 'open': {
        const { repo, repoUrl, request } = item.data as unknown as Items['open'];
        if (!item.agent) return null;
        const masked = { ...request, title: mask.text(request.title), body: bodyOf(request.body) };
        const opened =
          (await host.changeRequestsFrom(repo, request.branch))[0] ??
          (await host.openChangeRequest(repo, masked));
        const agent = { tenant: item.tenant, id: item.agent };
        await this.#options.changeRequests.record(integration, opened, agent, repoUrl);
        return '';
      }
      default:
        throw new HostError('refused', 0, `unknown kind of item: ${item.kind}`);
    }
  }

  /** The id of the comment that an earlier attempt posted, if it did. */
  async #posted(
    { host }: Integration,
    { created_at, marker }: DueItem,
    repo: RepoPath,
    subject: Subject,
  ): Promise<string | null> {
    const since = new Date(Date.parse(created_at) - skewMs).toISOString();
    const comments = await host.comments(repo, subject, since);
    return comments.find(({ body }) => hasMarker(body, marker))?.id ?? null;
  }

  async #thread({ host }: Integration, item: DueItem): Promise<HostThread> {
    const { repo, number, threadId } = item.data as unknown as Items['reply'];
    const thread = (await host.threads(repo, number)).find(({ id }) => id === threadId);
    if (!thread) throw new HostError('refused', 404, 'the thread is gone');
    return thread;
  }
}

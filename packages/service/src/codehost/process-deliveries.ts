import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { askByHead, askByNumber } from '../store/statements/change-requests.ts';
import { type DueDelivery, postponeDelivery, settleDelivery } from '../store/statements/deliveries.ts';
import { readOwnPosts } from '../store/statements/outbox.ts';
import { findPushedBranch } from '../store/statements/pushed-branches.ts';
import type { ChangeRequests } from './change-requests.ts';
import { HostError, type HostEvent, type Person } from './host.ts';
import { covers, type Integration, IntegrationError, type Integrations } from './integrations.ts';
import { repoUrls } from './names.ts';
import type { DeliveryThread } from './read-delivery.ts';
import { retryMs } from './retries.ts';
import type { Ignored, Triggers } from './triggers.ts';

export interface ProcessorOptions {
  readonly database: pg.Pool;
  readonly integrations: Integrations;
  readonly changeRequests: ChangeRequests;
  readonly triggers: Triggers;
  readonly thread: DeliveryThread;
}

/** While an item of the outbox may be on its way, a delivery of the integration's own account may be its echo. */
const echoMs = 2_000;
const retryDaysMs = limits.deliveryRetryDays * 24 * 3_600_000;

/**
 * Gives deliveries their effect. Processing one again has no further effect: what follows from it is asked of the host,
 * or has an id that derives from it.
 */
export class Processor {
  readonly #options: ProcessorOptions;

  constructor(options: ProcessorOptions) {
    this.#options = options;
  }

  async process(row: DueDelivery): Promise<void> {
    const { database } = this.#options;
    const key = [row.tenant, row.integration, row.id] as const;
    const named = { event: row.event, subject: '' };
    const settle = (state: 'DONE' | 'IGNORED' | 'FAILED', reason: string) =>
      settleDelivery(database, ...key, state, named.event, named.subject, reason.slice(0, 1000));
    try {
      const outcome = await this.#effect(row, named);
      if (outcome === 'later') return void (await postponeDelivery(database, ...key, '', echoMs));
      const { ignored, failed } = outcome;
      await settle(failed ? 'FAILED' : ignored === null ? 'DONE' : 'IGNORED', failed ?? ignored ?? '');
    } catch (error) {
      const reason = (error as Error).message.slice(0, 1000);
      const isKnown = error instanceof HostError || error instanceof IntegrationError;
      const isOld = Date.parse(row.received_at) + retryDaysMs < Date.now();
      const isGone = error instanceof HostError && error.status === 404;
      if (isGone) {
        await settle('IGNORED', reason);
      } else if (isOld) {
        await settle('FAILED', reason);
      } else {
        const waitMs = error instanceof HostError ? error.retryAfterMs : 0;
        await postponeDelivery(database, ...key, reason, Math.max(waitMs, retryMs(row.attempts)));
      }
      if (!isKnown) throw error;
    }
  }

  /** Notes the delivery's own names of its event and subject in `named`. */
  async #effect(
    row: DueDelivery,
    named: { event: string; subject: string },
  ): Promise<'later' | { ignored: Ignored; failed?: string }> {
    const { database, integrations, thread } = this.#options;
    if (!row.body || !row.headers) return { ignored: null, failed: 'its body was deleted' };
    const integration = await integrations.open(row.tenant, row.integration);
    if (integration.paused) return { ignored: 'the integration is paused' };
    const answer = await thread.read({ type: integration.type, headers: row.headers, body: row.body });
    if (answer.type === 'unreadable') return { ignored: null, failed: answer.reason };
    const { sender, isWritten, commentIds, events, event, subject } = answer.delivery;
    Object.assign(named, { event, subject });
    const self = sender && isWritten ? await integration.host.self() : null;
    const isOwn = self !== null && sender?.id === self.id;
    if (isOwn && commentIds.length > 0) {
      const [own] = await readOwnPosts(database, row.tenant, row.integration, [...commentIds]);
      if (commentIds.every((id) => own?.posted.includes(id))) return { ignored: 'the integration posted it' };
      if (own?.is_sending) return 'later';
    }
    const reasons: Ignored[] = [];
    const commenter = self && !isOwn ? sender : null;
    for (const one of events) reasons.push(await this.#apply(integration, row, { sender, commenter }, one));
    const hasEffect = reasons.some((reason) => reason === null);
    return { ignored: hasEffect ? null : (reasons.find(Boolean) ?? 'nothing to do') };
  }

  async #apply(
    integration: Integration,
    row: DueDelivery,
    { sender, commenter }: { readonly sender: Person | null; readonly commenter: Person | null },
    event: HostEvent,
  ): Promise<Ignored> {
    const { database, triggers, changeRequests } = this.#options;
    if (event.type === 'ignored') return event.reason;
    if (!covers(integration.repos, event.repo)) return `the integration does not cover ${event.repo}`;
    if (event.type === 'trigger') return triggers.handle(integration, row.id, sender, event);
    if (event.type === 'checks') {
      const asked = await askByHead(database, row.tenant, row.integration, event.repo, event.sha);
      return asked.length > 0 ? null : 'no change request of an agent has this commit';
    }
    const asked = await askByNumber(database, row.tenant, row.integration, event.repo, event.number);
    if (asked.length === 0) return this.#find(integration, event.repo, event.number);
    return commenter && changeRequests.refuseToHear(integration, event.repo, commenter);
  }

  /** A change request that someone else opened from an agent's branch is the agent's. */
  async #find(integration: Integration, repo: string, number: number): Promise<Ignored> {
    const { database, changeRequests } = this.#options;
    const request = await integration.host.changeRequest(repo, number);
    if (request.isFork) return 'the change request is from a fork';
    const urls = repoUrls(integration.url, repo);
    const [pushed] = await findPushedBranch(database, integration.tenant, urls, request.branch);
    if (!pushed) return 'no agent pushed its branch';
    await changeRequests.record(
      integration,
      request,
      { tenant: pushed.tenant, id: pushed.agent },
      pushed.repo,
    );
    return null;
  }
}

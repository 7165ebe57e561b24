import { coversRepo } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Effect, Outcome } from '../deliveries/process.ts';
import { askByBranch, askByHead, askByNumber } from '../store/statements/change-requests.ts';
import { type DueDelivery, readDeliveryBody } from '../store/statements/deliveries.ts';
import { readOwnPosts } from '../store/statements/outbox.ts';
import { findPushedBranch } from '../store/statements/pushed-branches.ts';
import { markersOf } from '../work/markers.ts';
import type { ChangeRequests } from './change-requests.ts';
import { type HostEvent, type Person, subjectName } from './host.ts';
import type { Integration, Integrations } from './integrations.ts';
import { repoUrls } from './names.ts';
import type { People } from './people.ts';
import type { ReadDelivery, ReadingThread } from './reading-thread.ts';
import type { Ignored, Triggers } from './triggers.ts';

export interface TakeDeliveriesOptions {
  readonly database: pg.Pool;
  readonly integrations: Integrations;
  readonly changeRequests: ChangeRequests;
  readonly people: People;
  readonly triggers: Triggers;
  readonly thread: ReadingThread;
  readonly collectMs: number;
}

/** While an item of the outbox may be on its way, a delivery of the integration's own account may be its echo. */
const echoMs = 2_000;

/**
 * What deliveries of code hosts lead to. Processing one again has no further effect: its results are read from the host,
 * or have ids that derive from it.
 */
export class TakeDeliveries {
  readonly #options: TakeDeliveriesOptions;

  constructor(options: TakeDeliveriesOptions) {
    this.#options = options;
  }

  /** Notes the delivery's own names of its event and subject in `named`. */
  readonly effect: Effect = async (row, name, named) => {
    const { database, integrations, people } = this.#options;
    const { type, paused, repos } = await integrations.describe(row.tenant, name);
    if (paused) return ignored('the integration is paused');
    const read = await this.#read(type, row);
    if (typeof read === 'string') return { state: 'FAILED', reason: read };
    const { digest, sender, isWritten, commentIds, events, event, subject } = read;
    Object.assign(named, { event, subject });
    // What is unwanted needs no credential.
    const unwanted = events.map((one) => unwantedReason(repos, one));
    if (unwanted.every((reason) => reason !== null)) return ignored(unwanted[0] ?? 'nothing to do');
    const integration = await integrations.open(row.tenant, name);
    const isAboutRequest = events.some(({ type: about }) => about === 'change-request');
    const self = sender && (isWritten || isAboutRequest) ? await people.selfOf(integration) : null;
    const isOwn = self !== null && sender?.id === self.id;
    const mentions = mentionsIn(events);
    const ids = isOwn ? commentIds : mentions.ids;
    if (ids.length > 0 && (isOwn || mentions.markers.length > 0)) {
      const [own] = await readOwnPosts(database, row.tenant, name, ids, mentions.markers);
      if (ids.every((id) => own?.posted.includes(id)))
        return ignored(isOwn ? 'the integration posted it' : 'another integration posted it');
      if (own?.is_sending) return { state: 'LATER', afterMs: echoMs };
    }
    const reasons: Ignored[] = [];
    const commenter = isWritten && !isOwn ? sender : null;
    for (const one of events)
      reasons.push(await this.#apply(integration, digest, { sender, commenter, isOwn }, one));
    const hasEffect = reasons.some((reason) => reason === null);
    return hasEffect ? { state: 'DONE', reason: '' } : ignored(reasons.find(Boolean) ?? 'nothing to do');
  };

  /** Why it can't be read, or what it says. */
  async #read(
    type: Integration['type'],
    { tenant, integration, id, headers }: DueDelivery,
  ): Promise<ReadDelivery | string> {
    const deleted = 'its body was deleted';
    const { database, thread } = this.#options;
    let isDeleted = false;
    const answer = await thread.read(async () => {
      const [found] = await readDeliveryBody(database, tenant, integration, id);
      isDeleted = !found?.body || !headers;
      return { delivery: { type, headers: headers ?? {}, body: found?.body ?? new Uint8Array() } };
    });
    if (answer.type === 'delivery') return answer.delivery;
    return isDeleted || answer.type !== 'unreadable' ? deleted : answer.reason;
  }

  async #apply(
    integration: Integration,
    digest: string,
    {
      sender,
      commenter,
      isOwn,
    }: { readonly sender: Person | null; readonly commenter: Person | null; readonly isOwn: boolean },
    event: HostEvent,
  ): Promise<Ignored> {
    const { database, triggers, people, collectMs } = this.#options;
    const { tenant, name } = integration;
    const unwanted = unwantedReason(integration.repos, event);
    if (event.type === 'ignored' || unwanted !== null) return unwanted;
    if (event.type === 'trigger') return triggers.handle(integration, digest, sender, event);
    if (event.type === 'checks') {
      const asked = await askByHead(database, tenant, name, event.repo, event.sha, collectMs);
      return asked.length > 0 ? null : 'no change request of an agent has this commit';
    }
    if (event.type === 'branch') {
      const asked = await askByBranch(database, tenant, name, event.repo, event.branch, collectMs);
      return asked.length > 0 ? null : 'no change request of an agent is from this branch or to it';
    }
    const asked = await askByNumber(database, tenant, name, event.repo, event.number, collectMs, isOwn);
    if (asked.length === 0) return this.#find(integration, event.repo, event.number);
    return commenter && people.refuseToHear(integration, event.repo, commenter);
  }

  /** A change request that someone else opened from an agent's branch is the agent's. */
  async #find(integration: Integration, repo: string, number: number): Promise<Ignored> {
    const { database, changeRequests, integrations } = this.#options;
    const request = await integration.host.changeRequest(repo, number);
    if (request.isFork) return 'the change request is from a fork';
    if (await changeRequests.isRenamed(integration, request)) return null;
    const urls = repoUrls(integration.url, repo);
    const [pushed] = await findPushedBranch(database, integration.tenant, urls, request.branch);
    if (!pushed) return 'no agent pushed its branch';
    const owner = await integrations.ofAgent(pushed);
    if (owner && owner.integration.name !== integration.name)
      return `the change request belongs to the integration "${owner.integration.name}"`;
    await changeRequests.record(integration, request, pushed);
    return null;
  }
}

const ignored = (reason: string): Outcome => ({ state: 'IGNORED', reason });

/** By what texts that mention somebody are known, if another integration has posted them. */
function mentionsIn(events: readonly HostEvent[]): { ids: readonly string[]; markers: readonly string[] } {
  const found = events
    .filter((event) => event.type === 'trigger')
    .filter(({ causes }) => causes.every(({ by }) => by === 'mention'));
  return {
    ids: found.map(({ comment, repo, subject }) => comment?.id ?? subjectName(repo, subject.number)),
    markers: markersOf(found.map(({ comment, body }) => comment?.body ?? body)),
  };
}

/** Why an event has no effect, as far as the delivery itself says. */
function unwantedReason(repos: readonly string[], event: HostEvent): string | null {
  if (event.type === 'ignored') return event.reason;
  return coversRepo(repos, event.repo) ? null : `the integration does not cover ${event.repo}`;
}

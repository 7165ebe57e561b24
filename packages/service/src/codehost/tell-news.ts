import type pg from 'pg';
import type { Transact } from '../control/batches/transact.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import { type DueChangeRequest, type Ledger, readLedger } from '../store/statements/change-requests.ts';
import { readOwnPosts } from '../store/statements/outbox.ts';
import { hasMarker, markersOf } from '../work/markers.ts';
import { type ChangeRequests, keyOf, messageFields } from './change-requests.ts';
import { hourMs, pausedMs } from './comparison-budget.ts';
import type { HostChangeRequest, HostComment, Permission, Person } from './host.ts';
import type { Integration } from './integrations.ts';
import { writeItem } from './items.ts';
import { checksMessage, conflictMessage, endMessage, pushedMessage, reviewMessage } from './messages.ts';
import { messageId } from './names.ts';
import {
  areSubmitted,
  authorsOf,
  beginningOf,
  checksOf,
  type HeardThread,
  type HostState,
  heard,
  isComputing,
  type News,
  type ReviewNews,
  unknownComments,
  whatIsNew,
} from './news.ts';
import { isAtLeast, type People } from './people.ts';
import { threadsToTell } from './told-threads.ts';

export interface TellNewsOptions {
  readonly database: pg.Pool;
  readonly transact: Transact;
  readonly changeRequests: ChangeRequests;
  readonly people: People;
  /** Comments and checks that follow each other within this time are sent together. */
  readonly settleMs: number;
}

/** The record after a comparison, and when to look again. */
export interface Compared {
  readonly next: DueChangeRequest;
  readonly delayMs: number;
}

/** A comment that may be the integration's own is looked at again after this time. */
const sendingMs = 2_000;
const [logBytes, checksTold] = [16 * 1024, 20];
/** Of a review. A message and its tasks must fit into a command. */
const mostTold = { threads: 100, bytes: 1024 * 1024 };
/** A message that the agent has no room for is tried again after this time. */
const fullMs = 60_000;

/** Tells agents what is new in their change requests. */
export class TellNews {
  readonly #options: TellNewsOptions;

  constructor(options: TellNewsOptions) {
    this.#options = options;
  }

  /** Tells the agent one thing at a time: how it ended, a review, failed checks, pushes of others, a conflict. */
  async tell(integration: Integration, compared: DueChangeRequest, state: HostState): Promise<Compared> {
    const { request } = state;
    if (request.state === 'MERGED' || request.state === 'CLOSED')
      return { next: await this.#tellEnd(integration, compared, request), delayMs: hourMs };
    const row = asOpen(compared, state);
    const ledger = await readLedger(this.#options.database, row.tenant, row.agent, row.name);
    await this.#noteResolved(row, ledger, state);
    const comments = await this.#newComments(integration, row, ledger, state);
    if (comments === 'sending') return { next: row, delayMs: sendingMs };
    const checks = checksOf(state.checks, integration.checks.ignore);
    const news = whatIsNew(row, state, comments, integration.checks, checks);
    if (news.type === 'nothing') return this.#nothing(row, request, checks.state === 'PASSING');
    if (row.paused) return { next: row, delayMs: pausedMs };
    const waitMs = this.#waitMs(row, news);
    if (waitMs > 0) return waiting(row, news, waitMs);
    if (isUsedUp(integration, row, news))
      return { next: await this.#pause(row, news.type), delayMs: pausedMs };
    const refused = await this.#send(integration, row, state, news);
    const { waiting: _, ...told } = row.told;
    if (isRefusal(refused)) {
      const isFull = refused.status === 'RESOURCE_EXHAUSTED';
      return { next: { ...row, told }, delayMs: isFull ? fullMs : hourMs };
    }
    // The rest comes in the next message.
    return { next: afterTelling({ ...row, told }, news, request.headSha), delayMs: 0 };
  }

  #nothing(row: DueChangeRequest, request: HostChangeRequest, isPassing: boolean): Compared {
    const { waiting: _, computing: tries = 0, ...told } = row.told;
    const isAskedAgain = isComputing(request);
    const next = {
      ...row,
      told: { ...told, ...(isAskedAgain && { computing: tries + 1 }) },
      ...(isPassing && { check_rounds: 0 }),
    };
    return { next, delayMs: row.paused ? pausedMs : isAskedAgain ? this.#computingMs(tries) : hourMs };
  }

  /** Hosts compute whether there is a conflict when they are asked for it. */
  #computingMs(tries: number): number {
    return Math.min(this.#options.settleMs * 2 ** Math.min(tries, 12), hourMs);
  }

  /** How long to wait for more of the same. A review that was submitted is complete. */
  #waitMs({ told }: DueChangeRequest, news: News): number {
    if (news.type === 'review' && areSubmitted(news.threads)) return 0;
    if (told.waiting?.digest !== news.digest) return this.#options.settleMs;
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

  /** New comments of people with the permission that the integration asks for. */
  async #newComments(
    integration: Integration,
    row: DueChangeRequest,
    ledger: Ledger,
    { threads, self }: HostState,
  ): Promise<readonly HeardThread[] | 'sending'> {
    const { database, people } = this.#options;
    const comments = threads.flatMap((thread) => thread.comments);
    const ids = comments.map(({ id }) => id);
    const markers = markersOf(comments.map(({ body }) => body));
    const [own] = await readOwnPosts(database, row.tenant, row.integration, ids, markers);
    const unknown = unknownComments(threads, new Set([...ledger.comments, ...(own?.posted ?? [])]), self);
    if (unknown.length === 0) return [];
    // The answer to a call that posted it may still be on its way.
    const isMaybeOwn = ({ author, body }: HostComment) => author.id === self.id || hasMarker(body);
    if (own?.is_sending && unknown.some((thread) => thread.comments.some(isMaybeOwn))) return 'sending';
    const permissionOf = new Map<string, Permission>();
    for (const author of authorsOf(unknown))
      permissionOf.set(author.id, await people.permissionOf(integration, row.repo, author));
    const isHeard = ({ id }: Person) =>
      isAtLeast(permissionOf.get(id) ?? 'none', integration.minimumPermission);
    return beginningOf(heard(unknown, isHeard), mostTold).map((thread) => ({ ...thread, permissionOf }));
  }

  #send(
    integration: Integration,
    row: DueChangeRequest,
    { request }: HostState,
    news: News,
  ): Promise<unknown | Refusal> {
    const { changeRequests } = this.#options;
    const [key, id] = [keyOf(row), messageId(row.name, news.type, news.digest)];
    switch (news.type) {
      case 'review':
        return this.#tellReview(row, request, news, id);
      case 'checks':
        return this.#tellChecks(integration, row, request, news.checks, id);
      case 'pushed':
        return changeRequests.tell(key, pushedMessage(request), id);
      case 'conflict':
        return changeRequests.tell(key, conflictMessage(request), id);
    }
  }

  async #tellChecks(
    { host }: Integration,
    row: DueChangeRequest,
    request: HostChangeRequest,
    checks: HostState['checks'],
    id: string,
  ): Promise<unknown | Refusal> {
    const failed = await Promise.all(
      checks.slice(0, checksTold).map(async (check) => ({
        check,
        log: await host.endOfLog(row.repo, check, logBytes).catch(() => ''),
      })),
    );
    return this.#options.changeRequests.tell(keyOf(row), checksMessage(request, failed), id);
  }

  async #tellReview(
    row: DueChangeRequest,
    request: HostChangeRequest,
    news: ReviewNews,
    id: string,
  ): Promise<unknown | Refusal> {
    const threads = await threadsToTell(row, request, news.threads);
    return this.#options.changeRequests.queue(keyOf(row), {
      followUpId: id,
      description: reviewMessage(request),
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
    const { transact, changeRequests } = this.#options;
    const key = keyOf(row);
    const id = messageId(row.name, 'end', request.state, request.updatedAt);
    if (request.state === 'MERGED' && integration.onMerged === 'finish')
      await transact.command({ key }, { type: 'conclude' });
    else if (request.state === 'CLOSED' || integration.onMerged === 'inform')
      await changeRequests.queue(key, { ...messageFields(endMessage(request), id), reopen: false });
    return { ...row, told: { ...row.told, state: request.state, endedMs: Date.now() } };
  }

  /** One comment at the host says that it is paused. */
  async #pause(row: DueChangeRequest, because: News['type']): Promise<DueChangeRequest> {
    const body = [
      because === 'checks'
        ? `The checks failed ${row.check_rounds} times in a row after changes of the agent.`
        : `The agent has had ${row.rounds} rounds in this change request without a message of a person.`,
      'It is paused. A message to the agent in Muster resumes it.',
    ].join(' ');
    await writeItem(this.#options.database, {
      ...{ tenant: row.tenant, target: row.integration, lane: row.name, kind: 'comment', agent: row.agent },
      key: `paused/${row.name}/${row.told.sequence}`,
      data: { repo: row.repo, subject: { type: 'change-request', number: row.number }, body },
    });
    return { ...row, paused: true };
  }
}

/** The record of one that is open. It may have been closed before, and may be closed again. */
function asOpen(row: DueChangeRequest, { request, tip }: HostState): DueChangeRequest {
  const { endedMs: _, knownSha = request.headSha, ...told } = row.told;
  const known = tip === request.headSha ? request.headSha : knownSha;
  return { ...row, told: { ...told, state: request.state, knownSha: known } };
}

function waiting(row: DueChangeRequest, { digest }: News, waitMs: number): Compared {
  const { waiting: before } = row.told;
  const untilMs = before?.digest === digest ? before.untilMs : Date.now() + waitMs;
  return { next: { ...row, told: { ...row.told, waiting: { digest, untilMs } } }, delayMs: waitMs };
}

const isUsedUp = ({ rounds, checks }: Integration, row: DueChangeRequest, { type }: News): boolean =>
  row.rounds >= rounds || (type === 'checks' && row.check_rounds >= checks.rounds);

const afterTelling = (row: DueChangeRequest, { type }: News, headSha: string): DueChangeRequest => ({
  ...row,
  rounds: row.rounds + 1,
  check_rounds: row.check_rounds + (type === 'checks' ? 1 : 0),
  told: {
    ...row.told,
    ...(type === 'checks' && { checksSha: headSha }),
    ...(type === 'conflict' && { conflictSha: headSha }),
    ...(type === 'pushed' && { knownSha: headSha }),
  },
});

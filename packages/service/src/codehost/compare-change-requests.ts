import type pg from 'pg';
import type { Transact } from '../control/batches/transact.ts';
import type { Log } from '../lib/log.ts';
import {
  type DueChangeRequest,
  hasPersonWritten,
  noteProblem,
  postponeChangeRequest,
  saveChangeRequest,
  type Told,
} from '../store/statements/change-requests.ts';
import { peekAgents } from '../store/statements/find-agents.ts';
import { releaseItems } from '../store/statements/outbox.ts';
import { HostError } from '../work/host-error.ts';
import { spentInWork } from '../work/reply-budget.ts';
import { retryMs, type Worker } from '../work/work-loop.ts';
import { described, keyOf } from './change-requests.ts';
import { endedDelayMs, hourMs, spentUntilMs, waitBeforeMs } from './comparison-budget.ts';
import { type Integration, IntegrationError, type Integrations } from './integrations.ts';
import { type KnownThreads, threadsKey } from './known-threads.ts';
import { messagePrefix } from './names.ts';
import { checksOf, type HostState, reviewOf } from './news.ts';
import type { People } from './people.ts';
import { readHostState } from './read-host-state.ts';
import type { TellNews } from './tell-news.ts';

export interface CompareChangeRequestsOptions {
  readonly database: pg.Pool;
  readonly transact: Transact;
  readonly integrations: Integrations;
  readonly people: People;
  readonly news: TellNews;
  readonly threads: KnownThreads;
  /** What happens to one within this time is one comparison. */
  readonly collectMs: number;
  readonly log: Log;
}

/** One that was given up is given up again after this time, with another line in the log. */
const givenUpMs = hourMs;

/**
 * Compares change requests of agents with their hosts, whenever something may have happened to one, and once an hour:
 * what is new becomes a message to the agent. So it does not matter which deliveries arrive, in which order and how often.
 */
export class CompareChangeRequests implements Worker<DueChangeRequest> {
  readonly #options: CompareChangeRequestsOptions;
  /** How often in a row a change request could not be compared with its host. */
  readonly #failures = new Map<string, number>();

  constructor(options: CompareChangeRequestsOptions) {
    this.#options = options;
  }

  /** Compares one with its host, tells the agent what is new, and saves when to look again. */
  async work(row: DueChangeRequest): Promise<void> {
    const key = `${row.tenant}/${row.name}`;
    try {
      await this.#look(await this.#withCurrentPath(row));
      this.#failures.delete(key);
    } catch (error) {
      const failures = this.#failures.get(key) ?? 0;
      this.#failures.set(key, failures + 1);
      await this.#postpone(row, error, failures);
    }
  }

  async giveUp(row: DueChangeRequest, reason: string): Promise<void> {
    await postponeChangeRequest(this.#options.database, row.tenant, row.name, givenUpMs);
    await this.#noteFailure(row, reason);
  }

  /** Failures that pass by themselves are said on the record and to the agent only when they last. */
  async #postpone(row: DueChangeRequest, error: unknown, failures: number): Promise<void> {
    const { database, log } = this.#options;
    const { tenant, integration, name } = row;
    const isKnown = error instanceof HostError || error instanceof IntegrationError;
    const kind = error instanceof HostError ? error.kind : '';
    const isPassing = kind === 'limited' || (kind === 'unknown' && failures < 2);
    // Before it is due again: the next comparison says it only if the record does not.
    if (isKnown && !isPassing) await this.#noteFailure(row, error.message.slice(0, 1000));
    const askedMs = error instanceof HostError ? error.retryAfterMs : 0;
    const delayMs = Math.max(askedMs, retryMs(failures));
    await postponeChangeRequest(database, tenant, name, delayMs);
    if (!isKnown) throw error;
    log.warn(
      { tenant, integration, changeRequest: name, problem: error.message, delayMs },
      'change request not compared with its host',
    );
  }

  async #noteFailure(row: DueChangeRequest, reason: string): Promise<void> {
    await this.#warnOnce(row, reason);
    await noteProblem(this.#options.database, row.tenant, row.name, 'problem', reason);
  }

  /** With the path that its repository has now. */
  async #withCurrentPath(row: DueChangeRequest): Promise<DueChangeRequest> {
    const { integrations } = this.#options;
    const integration = await integrations.open(row.tenant, row.integration);
    if (integration.paused) return row;
    return { ...row, repo: await integrations.currentPath(integration, row.repo) };
  }

  async #look(claimed: DueChangeRequest): Promise<void> {
    const { database, integrations, people, news, threads } = this.#options;
    const integration = await integrations.open(claimed.tenant, claimed.integration);
    const row = await this.#resumed(claimed);
    const waitMs = waitBeforeMs(row, integration, Date.now());
    if (waitMs > 0) return void (await postponeChangeRequest(database, row.tenant, row.name, waitMs));
    const state = await readHostState(database, people, integration, row);
    if (state.isRead) threads.note(threadsKey(row), state.threads);
    const { next, delayMs } = await news.tell(integration, row, state);
    await this.#save(integration, row, state, next, delayMs);
  }

  async #save(
    integration: Integration,
    row: DueChangeRequest,
    { request, isRead, checks, threads, reviews }: HostState & { readonly isRead: boolean },
    next: DueChangeRequest,
    delayMs: number,
  ): Promise<void> {
    const nowMs = Date.now();
    const isOpen = request.state === 'OPEN' || request.state === 'DRAFT';
    const { calls, missing } = spentInWork();
    const problem = missing.length > 0 ? `the integration's credential lacks ${missing.join(', ')}` : '';
    if (problem) await this.#warnOnce(row, problem);
    if (row.told.postProblem)
      await releaseItems(this.#options.database, row.tenant, row.integration, row.name);
    const { problem: _, ...told } = next.told;
    await saveChangeRequest(
      this.#options.database,
      {
        ...next,
        ...described(request),
        told: {
          ...told,
          ...(problem && { problem }),
          asked: row.asked,
          comparedMs: nowMs,
          spentUntilMs: spentUntilMs(row.told, calls, nowMs),
        },
        ...(isRead && {
          checks: isOpen ? checksOf(checks, integration.checks.ignore) : row.checks,
          review: reviewOf(threads, reviews),
        }),
        updated_at: new Date().toISOString(),
      },
      isOpen ? Math.min(delayMs, hourMs) : endedDelayMs(request, next.told, nowMs),
      this.#options.collectMs,
    );
  }

  async #warnOnce(row: DueChangeRequest, problem: string): Promise<void> {
    if (row.told.problem) return;
    const text = `The change request ${row.repo}#${row.number} is not compared with its host as it should be: ${problem}`;
    await this.#options.transact.command({ key: keyOf(row) }, { type: 'warn', text });
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
}

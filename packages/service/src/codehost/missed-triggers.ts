import { coversRepo } from '@muster/sdk/contract';
import type pg from 'pg';
import { spread } from '../lib/back-off.ts';
import { findTriggered } from '../store/statements/change-requests.ts';
import {
  type DueHook,
  hasNewDeliveries,
  postponeComparison,
  saveComparison,
} from '../store/statements/deliveries.ts';
import { HostError } from '../work/host-error.ts';
import type { Worker } from '../work/work-loop.ts';
import type { ChangeRequests } from './change-requests.ts';
import type { FoundTrigger, RepoPath } from './host.ts';
import { type Integration, IntegrationError, type Integrations } from './integrations.ts';
import { findMissedRequests } from './missed-requests.ts';
import { orRefusal } from './or-refusal.ts';
import { isAtLeast, type People } from './people.ts';
import { foundId, NameTakenError, sameChangeMs, type Triggers } from './triggers.ts';

export interface MissedTriggersOptions {
  readonly database: pg.Pool;
  readonly integrations: Integrations;
  readonly changeRequests: ChangeRequests;
  readonly people: People;
  readonly triggers: Triggers;
}

const minuteMs = 60_000;
const hourMs = 3_600_000;
/** Clocks differ: what happened a little earlier is looked at again. */
const skewMs = 10 * 60_000;
/** Deliveries that have arrived take effect first. */
const deliveryMs = 1_000;

/**
 * Labels and assignments whose delivery was lost. The lists of the host show them and who made them, and they have the
 * same effect as their delivery. Mentions can't be found like this: no list has them.
 */
export class MissedTriggers implements Worker<DueHook> {
  readonly #options: MissedTriggersOptions;

  constructor(options: MissedTriggersOptions) {
    this.#options = options;
  }

  /** Asks the host of an integration, once an hour and whenever it is asked for. */
  async work(row: DueHook): Promise<void> {
    const { database, integrations } = this.#options;
    const key = [row.tenant, row.integration] as const;
    const now = new Date().toISOString();
    const [deliveries] = await hasNewDeliveries(database, ...key);
    if (deliveries?.found) return void (await postponeComparison(database, ...key, deliveryMs));
    try {
      const integration = await integrations.open(...key);
      if (!integration.paused) {
        await findMissedRequests(this.#options, integration);
        await this.#ask(integration, Date.parse(row.compared_at) - skewMs);
      }
      await saveComparison(database, ...key, now, hourMs);
    } catch (error) {
      const waitMs = error instanceof HostError ? error.retryAfterMs : 0;
      const isConfigured = !(error instanceof IntegrationError);
      await postponeComparison(database, ...key, isConfigured ? Math.max(waitMs, spread(minuteMs)) : hourMs);
      if (!(error instanceof HostError || error instanceof IntegrationError)) throw error;
    }
  }

  /** It is given up again after this time, with another line in the log. */
  giveUp({ tenant, integration }: DueHook): Promise<unknown> {
    return postponeComparison(this.#options.database, tenant, integration, hourMs);
  }

  async #ask(integration: Integration, sinceMs: number): Promise<void> {
    const { host, triggers, repos } = integration;
    if (!triggers.label && !triggers.assigned) return;
    const wanted = { label: triggers.label, assignee: triggers.assigned ? await host.self() : null };
    const since = new Date(sinceMs).toISOString();
    for (const repo of (await host.repositories()).filter((path) => coversRepo(repos, path))) {
      // A repository may have no issues.
      const found = await orRefusal(host.triggersSince(repo, wanted, since));
      if (found instanceof HostError) continue;
      for (const trigger of found) await this.#handle(integration, repo, trigger);
    }
  }

  async #handle(integration: Integration, repo: RepoPath, found: FoundTrigger): Promise<void> {
    const { database, people, triggers } = this.#options;
    const { tenant, name, minimumPermission } = integration;
    const { sender, at, by, value, ...trigger } = found;
    const { type, number } = trigger.subject;
    const [agent] = await findTriggered(database, tenant, name, repo, type, number);
    // An agent that was spawned after it, and killed since, was spawned for it.
    const isDone = agent && (agent.phase !== 'PHASE_CANCELED' || isLater(agent.created_at, at, -skewMs));
    if (isDone) return;
    // Only people who may ask for an agent may have changed the text since somebody else did.
    const author = await people.permissionOf(integration, repo, trigger.author);
    if (isLater(trigger.updatedAt, at, sameChangeMs) && !isAtLeast(author, minimumPermission)) return;
    const event = { type: 'trigger', repo, causes: [{ by, value }], ...trigger } as const;
    try {
      await triggers.handle(integration, foundId({ ...event, by }, at), sender, event);
    } catch (error) {
      // An agent that works on the issue already gets no message.
      if (!(error instanceof NameTakenError)) throw error;
    }
  }
}

const isLater = (time: string, than: string, byMs: number): boolean =>
  Date.parse(time) > Date.parse(than) + byMs;

import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Log } from '../../lib/log.ts';
import { type AgentKey, keyColumns } from '../../store/agent-store.ts';
import { deleteOldAttachments } from '../../store/statements/attachments.ts';
import { deleteOldAudit } from '../../store/statements/audit.ts';
import { deleteOldSessions } from '../../store/statements/browser-sessions.ts';
import { deleteManyDeliveries, deleteOldDeliveries } from '../../store/statements/deliveries.ts';
import { deleteOldLogins } from '../../store/statements/device-logins.ts';
import { deleteOldLoginKeys } from '../../store/statements/keys.ts';
import {
  clearOldRunResults,
  clearRunResults,
  clearTextsIn,
  deleteAttachments,
  deleteCheckpoint,
  deleteEntries,
  deleteFromDefault,
  deleteHistories,
  deleteOldReplies,
  deleteOldThreads,
  type EntryKey,
  findGrownTables,
  findLongTimelines,
  findManyRuns,
  findManyThreads,
  findOldAgents,
  finishAgents,
  finishHistories,
  type OldAgent,
  readTimeAgo,
  releaseMaintenance,
  takeMaintenance,
} from '../../store/statements/maintenance.ts';
import { mergeDays } from '../../store/statements/metered-runs.ts';
import { deleteManyNotifications, deleteOldNotifications } from '../../store/statements/notifications.ts';
import { clearOldItems } from '../../store/statements/outbox.ts';
import { deleteOldRunners } from '../../store/statements/runners.ts';
import { deleteOldFires } from '../../store/statements/schedules.ts';
import { deleteOldEarlierValues } from '../../store/statements/secrets.ts';
import { deleteOldSignInCodes } from '../../store/statements/sign-in-codes.ts';
import { findTenantsToCount, readQuotaUse } from '../../store/statements/storage-use.ts';
import { deleteOldWatches } from '../../store/statements/watches.ts';
import {
  createPartition,
  dropPartition,
  type Month,
  partitionOf,
  partitionPlan,
  readPartitions,
} from '../../store/timeline-partitions.ts';
import { eraseDeleted } from '../agents/delete-agent.ts';
import { describeRest } from '../catalog/resource-index.ts';
import { type QuotaLimits, quotaNames } from './quotas.ts';
import { StorageCount } from './storage-count.ts';
import { meterRest } from './usage-upkeep.ts';

const leaseMs = 60_000;
const passMs = 10 * 60 * 1_000;
const eraseMs = 2_000;
const agentsPerLook = 50;
const attachmentsPerBatch = 10;
/** What a batch should take: much shorter than what a caller would notice. */
const batchMs = { short: 50, long: 200 };
const rows = { first: 500, least: 10, most: 5_000 };

export interface MaintenanceOptions {
  readonly database: pg.Pool;
  readonly log: Log;
  /** How long entries are kept, of live agents too. */
  readonly timelineDays: number;
  /** How many entries of a live agent are kept. */
  readonly timelineEntries: number;
  /** Seals values with the current service secret. */
  readonly sealAgain?: () => Promise<void>;
  readonly quotas: QuotaLimits;
  /** Called with what the tenants that use most of each quota use; with nothing where another node does maintenance. */
  readonly onQuotaUse?: ((uses: readonly QuotaUse[]) => void) | undefined;
  /** Called when a task is done. */
  readonly onMaintenance?: ((task: string, seconds: number) => void) | undefined;
}

export interface QuotaUse {
  readonly quota: string;
  /** What the tenant that uses most uses, as a part of the quota. */
  readonly largestRatio: number;
  /** How many tenants use more than 80 % of it. */
  readonly nearlyFull: number;
}

const nearlyFull = 0.8;

/** How many rows the next batch takes: twice as many after a short one, a quarter after a long one. */
export function nextBatchRows(size: number, tookMs: number): number {
  if (tookMs > batchMs.long) return Math.max(rows.least, Math.floor(size / 4));
  return tookMs < batchMs.short ? Math.min(rows.most, size * 2) : size;
}

/**
 * Deletes what is too old, creates and drops the partitions of the timeline, and keeps the statistics of fast-growing
 * tables up to date. One node does it at a time, the one that has the lease. It works in small batches with pauses at
 * least as long as the batches, so that it never holds a lock or a connection for long, and what it has not finished
 * another node continues.
 */
export class Maintenance {
  readonly #options: MaintenanceOptions;
  readonly #holder = randomUUID();
  readonly #stopping = new AbortController();
  #ended: Promise<void> = Promise.resolve();
  #rows = rows.first;
  #leaseUntilMs = 0;

  constructor(options: MaintenanceOptions) {
    this.#options = options;
  }

  start(): void {
    this.#ended = Promise.all([
      this.#deleteRegularly(),
      this.#analyzeRegularly(),
      this.#eraseRegularly(),
    ]).then(() => {});
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#ended;
    await releaseMaintenance(this.#options.database, this.#holder).catch(() => {});
  }

  async #deleteRegularly(): Promise<void> {
    while (!this.#isClosed) {
      const isHolder = await this.#holdsLease();
      if (isHolder) await this.pass();
      else this.#options.onQuotaUse?.([]);
      await this.#pause((isHolder ? passMs : leaseMs) * (1 + Math.random() / 10));
    }
  }

  /** Every second while tables grow, then ever more seldom. */
  async #analyzeRegularly(): Promise<void> {
    const { database, log } = this.#options;
    for (let waitMs = 1_000; !this.#isClosed; waitMs = Math.min(2 * waitMs, 60_000)) {
      await this.#pause(waitMs);
      if (this.#isClosed || !(await this.#holdsLease())) continue;
      try {
        const grown = await findGrownTables(database);
        if (grown.length > 0) waitMs = 500;
        for (const { name } of grown) await database.query(`ANALYZE ${name}`);
      } catch (error) {
        log.warn({ err: error }, 'table statistics not updated');
      }
    }
  }

  /** What people delete should be gone soon. */
  async #eraseRegularly(): Promise<void> {
    const { database, log } = this.#options;
    while (!this.#isClosed) {
      const isHolder = await this.#holdsLease();
      if (isHolder)
        await eraseDeleted(database, (batch) => this.#inBatches(batch)).catch((error: unknown) =>
          log.warn({ err: error, task: 'deleted agents' }, 'maintenance failed'),
        );
      await this.#pause(isHolder ? eraseMs : leaseMs);
    }
  }

  /** Does everything there is to do now. A task that fails is tried again in the next pass. */
  async pass(): Promise<void> {
    const tasks: Record<string, () => Promise<unknown>> = {
      partitions: () => this.#partitions(),
      replies: () =>
        this.#inBatches((most) =>
          deleteOldReplies(this.#options.database, limits.idempotencyHours, most).then(count),
        ),
      runners: () => deleteOldRunners(this.#options.database).then(() => {}),
      watches: () => deleteOldWatches(this.#options.database).then(() => {}),
      sessions: () => deleteOldSessions(this.#options.database).then(() => {}),
      'sign-in codes': () => this.#oldCodes(),
      secrets: async () => {
        await this.#options.sealAgain?.();
        await deleteOldEarlierValues(this.#options.database, limits.mostTurnMinutes / (24 * 60));
      },
      audit: () => this.#oldAudit(),
      catalog: () => describeRest(this.#options.database),
      deliveries: async () => {
        const { database } = this.#options;
        await this.#inBatches((most) => deleteOldDeliveries(database, limits.deliveryDays, most).then(count));
        const kept = limits.deliveriesPerIntegration;
        await this.#inBatches((most) => deleteManyDeliveries(database, kept, most).then(count));
      },
      notifications: async () => {
        const { database } = this.#options;
        await this.#inBatches((most) =>
          deleteOldNotifications(database, limits.notificationDays, most).then(count),
        );
        const kept = limits.notificationDeliveriesPerTarget;
        await this.#inBatches((most) => deleteManyNotifications(database, kept, most).then(count));
      },
      schedules: () => this.#oldFires(),
      usage: async () => {
        const { database } = this.#options;
        await meterRest(database, (batch) => this.#inBatches(batch));
        await this.#inBatches((most) => mergeDays(database, most).then(([row]) => row?.merged ?? 0));
      },
      outbox: () =>
        this.#inBatches((most) => clearOldItems(this.#options.database, limits.outboxDays, most).then(count)),
      attachments: () => this.#oldAttachments(),
      history: () => this.#histories(),
      timelines: () => this.#longTimelines(),
      'run results': () => this.#manyRuns(),
      threads: () => this.#manyThreads(),
      storage: () => this.#countStorage(),
      quotas: () => this.#measureQuotas(),
    };
    for (const [task, work] of Object.entries(tasks)) {
      if (this.#isClosed || !(await this.#holdsLease())) return;
      const startMs = performance.now();
      try {
        await work();
        this.#options.onMaintenance?.(task, (performance.now() - startMs) / 1_000);
      } catch (error) {
        this.#options.log.warn({ err: error, task }, 'maintenance failed');
      }
    }
  }

  async #oldAudit(): Promise<void> {
    const { database } = this.#options;
    await this.#inBatches((most) => deleteOldAudit(database, limits.auditDays, most).then(count));
  }

  async #oldFires(): Promise<void> {
    const { database } = this.#options;
    await this.#inBatches((most) => deleteOldFires(database, limits.scheduleHistoryDays, most).then(count));
  }

  async #oldCodes(): Promise<void> {
    const { database } = this.#options;
    await deleteOldSignInCodes(database);
    await deleteOldLogins(database);
    await deleteOldLoginKeys(database);
  }

  async #partitions(): Promise<void> {
    const { database, log, timelineDays } = this.#options;
    const before = new Date(await this.#timeAgo(timelineDays));
    const { months, now } = await readPartitions(database);
    const { missing, tooOld } = partitionPlan(months, now, { before });
    for (const month of missing) await createPartition(database, month);
    for (const month of tooOld) {
      log.info({ month, timelineDays }, 'timeline partition dropped: every entry in it is too old');
      await this.#dropPartition(month);
    }
    await this.#inBatches((most) => deleteFromDefault(database, before.toISOString(), most).then(count));
  }

  async #dropPartition(month: Month): Promise<void> {
    const clearTexts = clearTextsIn(partitionOf(month));
    let last: EntryKey = { tenant: -1, agent: '00000000-0000-0000-0000-000000000000', sequence: 0 };
    await this.#inBatches(async (most) => {
      const { tenant, agent, sequence } = last;
      const [next] = await clearTexts(this.#options.database, tenant, agent, sequence, most);
      if (next) last = next;
      return next ? most : 0;
    });
    if (!this.#isClosed) await dropPartition(this.#options.database, month);
  }

  async #histories(): Promise<void> {
    const { database } = this.#options;
    const until = await this.#timeAgo(limits.timelineDays);
    const [lease] = await takeMaintenance(database, this.#holder, leaseMs);
    const from = lease?.history_until ?? until;
    let last: Pick<OldAgent, 'tenant' | 'ended_at'> = { tenant: 0, ended_at: from };
    for (;;) {
      const startMs = performance.now();
      const old = await findOldAgents(database, last.tenant, last.ended_at, from, until, agentsPerLook);
      if (old.length === 0 || this.#isClosed) break;
      await this.#deleteHistories(old, until);
      if (this.#isClosed || !(await this.#holdsLease())) return;
      last = old.at(-1) ?? last;
      await this.#pause((performance.now() - startMs) * (1 + Math.random()));
    }
    if (!this.#isClosed) await finishHistories(database, from, until);
  }

  async #deleteHistories(agents: readonly AgentKey[], endedBefore: string): Promise<void> {
    const { database } = this.#options;
    const keys = [...keyColumns(agents), endedBefore] as const;
    await this.#inBatches(async () =>
      count(await deleteAttachments(database, ...keys, attachmentsPerBatch)) > 0 ? rows.most : 0,
    );
    await this.#inBatches((most) => deleteHistories(database, ...keys, most).then(count));
    await this.#inBatches((most) => clearRunResults(database, ...keys, most).then(count));
    await this.#inBatches(async () => (count(await deleteCheckpoint(database, ...keys)) > 0 ? rows.most : 0));
    if (!this.#isClosed) await finishAgents(database, ...keys);
  }

  /** A few at a time: they may be large. */
  async #oldAttachments(): Promise<void> {
    const { database, timelineDays } = this.#options;
    const before = await this.#timeAgo(timelineDays);
    await this.#inBatches(async () =>
      count(await deleteOldAttachments(database, before, attachmentsPerBatch)) > 0 ? rows.most : 0,
    );
  }

  async #longTimelines(): Promise<void> {
    const { database, timelineEntries } = this.#options;
    for (const { tenant, id, last } of await findLongTimelines(database, timelineEntries))
      await this.#inBatches((most) => deleteEntries(database, tenant, id, last, most).then(count));
  }

  async #manyRuns(): Promise<void> {
    const { database } = this.#options;
    for (const { tenant, id, last } of await findManyRuns(database, limits.runResultsPerAgent))
      await this.#inBatches((most) => clearOldRunResults(database, tenant, id, last, most).then(count));
  }

  async #manyThreads(): Promise<void> {
    const { database } = this.#options;
    const kept = limits.resolvedThreadsPerAgent;
    for (const { tenant, id } of await findManyThreads(database, kept))
      await this.#inBatches((most) => deleteOldThreads(database, tenant, id, kept, most).then(count));
  }

  async #countStorage(): Promise<void> {
    const { database, quotas } = this.#options;
    for (const { tenant } of await findTenantsToCount(database, quotas.storage)) {
      const count = await StorageCount.start(database, tenant);
      await this.#inBatches(async (most) => {
        await count.step();
        return count.isDone ? 0 : most;
      });
      if (!count.isDone) return;
      await count.save();
    }
  }

  async #measureQuotas(): Promise<void> {
    const { database, quotas, onQuotaUse } = this.#options;
    const most = quotaNames.map((quota) => Math.floor(quotas[quota] * nearlyFull)) as [
      number,
      number,
      number,
    ];
    const rows = await readQuotaUse(database, ...most);
    onQuotaUse?.(
      rows.map(({ quota, largest, nearly_full }) => ({
        quota,
        largestRatio: largest / quotas[quota],
        nearlyFull: nearly_full,
      })),
    );
  }

  /** Until a batch finds less than it may take. False: this node had to stop before. */
  async #inBatches(batch: (most: number) => Promise<number>): Promise<boolean> {
    for (;;) {
      if (this.#isClosed || !(await this.#holdsLease())) return false;
      const most = this.#rows;
      const startMs = performance.now();
      const found = await batch(most);
      const tookMs = performance.now() - startMs;
      this.#rows = nextBatchRows(most, tookMs);
      if (found < most) return true;
      await this.#pause(tookMs * (1 + Math.random()));
    }
  }

  async #timeAgo(days: number): Promise<string> {
    const [row] = await readTimeAgo(this.#options.database, days);
    if (!row) throw new Error('the database did not say what time it is');
    return row.then;
  }

  /** Asked again only when a third of the lease is over. */
  async #holdsLease(): Promise<boolean> {
    if (Date.now() < this.#leaseUntilMs - (leaseMs * 2) / 3) return true;
    const askedMs = Date.now();
    const taken = await takeMaintenance(this.#options.database, this.#holder, leaseMs).catch(() => []);
    if (taken.length > 0) this.#leaseUntilMs = askedMs + leaseMs;
    return taken.length > 0;
  }

  get #isClosed(): boolean {
    return this.#stopping.signal.aborted;
  }

  #pause(ms: number): Promise<void> {
    return pause(ms, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => {});
  }
}

const count = ([row]: readonly { deleted: number }[]): number => row?.deleted ?? 0;

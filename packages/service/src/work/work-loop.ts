import type pg from 'pg';
import { backOffMs } from '../lib/back-off.ts';
import type { Log } from '../lib/log.ts';
import type { Claimed, DueRows } from '../store/statements/due-rows.ts';

/** Does one kind of work. */
export interface Worker<Row> {
  work(row: Row): Promise<void>;
  /** Settles a row that has ended the process several times, so that it is not worked on again. */
  giveUp(row: Row, reason: string): Promise<unknown>;
}

export interface WorkLoopOptions<Row extends { readonly tenant: number }> extends Worker<Row> {
  readonly name: string;
  readonly due: DueRows<Row>;
  readonly database: pg.Pool;
  /** Shared by the loops of a process. */
  readonly suspects: SuspectPlace;
  /** Called when some work was done. */
  readonly onWork: () => void;
  readonly log: Log;
}

const perTenant = 4;
const atATime = 16;
/** How long the work of a killed node waits for another node. */
const leaseMs = 15_000;
const renewMs = 5_000;

/** A row is given up after this number of claims in a row that were not ended. */
const mostClaims = 3;
const giveUpReason = `the service ended ${mostClaims} times while it was processed`;

/**
 * Limits a process to one row at a time among those whose last claim did not end. After a crash this is so for all rows
 * that were in progress, but only one of them caused it: when they are tried one by one, only that one crashes again.
 */
export class SuspectPlace {
  isFree = true;
}

/**
 * Does work that is due in the database until there is none. A tenant with a slow host takes only some of the places.
 * Work that ends the process several times is given up.
 */
export class WorkLoop<Row extends { readonly tenant: number }> {
  readonly #options: WorkLoopOptions<Row>;
  readonly #working = new Set<Promise<void>>();
  readonly #ofTenants = new Map<number, number>();
  #claiming: Promise<void> | null = null;
  #isNudged = false;
  #isClosed = false;

  constructor(options: WorkLoopOptions<Row>) {
    this.#options = options;
  }

  get table(): string {
    return this.#options.due.table;
  }

  /** Looks now, or again if it is looking. */
  nudge(): void {
    this.#isNudged = true;
    if (this.#isClosed || this.#claiming || this.#working.size >= atATime) return;
    this.#isNudged = false;
    this.#claiming = this.#claim().finally(() => {
      this.#claiming = null;
      if (this.#isNudged) this.nudge();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#claiming;
    await Promise.all(this.#working);
  }

  async #claim(): Promise<void> {
    const { database, due, log, name, suspects } = this.#options;
    const free = atATime - this.#working.size;
    const busy = [[...this.#ofTenants.keys()], [...this.#ofTenants.values()]] as const;
    const withSuspect = suspects.isFree;
    suspects.isFree = false;
    let hasSuspect = !withSuspect;
    try {
      const rows = await due.claim(database, perTenant, free, leaseMs, ...busy, withSuspect);
      hasSuspect ||= rows.some(isSuspect);
      for (const row of rows) this.#start(row);
    } catch (error) {
      log.warn({ err: error }, `${name}: claiming failed`);
    } finally {
      if (!hasSuspect) suspects.isFree = true;
    }
  }

  #start(row: Claimed<Row>): void {
    const { tenant } = row;
    this.#ofTenants.set(tenant, (this.#ofTenants.get(tenant) ?? 0) + 1);
    const working = this.#work(row).finally(() => {
      this.#working.delete(working);
      if (isSuspect(row)) this.#options.suspects.isFree = true;
      const left = (this.#ofTenants.get(tenant) ?? 1) - 1;
      if (left > 0) this.#ofTenants.set(tenant, left);
      else this.#ofTenants.delete(tenant);
      this.nudge();
      this.#options.onWork();
    });
    this.#working.add(working);
  }

  async #work(row: Claimed<Row>): Promise<void> {
    const { database, due, work, log, name } = this.#options;
    if (row.claims >= mostClaims) return this.#giveUp(row);
    const renewal = setInterval(() => due.renew(database, row, leaseMs).catch(() => {}), renewMs);
    try {
      await work(row);
    } catch (error) {
      log.warn({ err: error }, `${name}: processing failed`);
    } finally {
      clearInterval(renewal);
    }
    await due
      .end(database, row)
      .catch((error: unknown) => log.warn({ err: error }, `${name}: ending failed`));
  }

  /** The count of claims stays, so that it is given up again, until somebody asks for another attempt. */
  async #giveUp(row: Claimed<Row>): Promise<void> {
    const { due, giveUp, log, name } = this.#options;
    const key = Object.fromEntries(
      due.key.map((column) => [column, (row as Record<string, unknown>)[column]]),
    );
    log.error({ ...key, reason: giveUpReason }, `${name}: given up`);
    try {
      await giveUp(row, giveUpReason);
    } catch (error) {
      log.warn({ err: error }, `${name}: giving up failed`);
    }
  }
}

/** How long to wait after a number of failed attempts in a row, the first of which is 0. */
export const retryMs = (attempts: number): number => backOffMs(attempts + 1, 1_000, 10 * 60_000);

const isSuspect = ({ claims }: { readonly claims: number }): boolean => claims > 0;

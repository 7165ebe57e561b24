import type pg from 'pg';
import type { Log } from '../lib/log.ts';
import type { DueRows } from '../store/statements/due-rows.ts';

export interface WorkLoopOptions<Row extends { readonly tenant: number }> {
  readonly name: string;
  readonly database: pg.Pool;
  readonly due: DueRows<Row>;
  readonly work: (row: Row) => Promise<void>;
  /** Called when some work was done. */
  readonly onWork: () => void;
  readonly log: Log;
}

const perTenant = 4;
const atATime = 16;
/** After a node was killed, its work waits for so long. */
const leaseMs = 15_000;
const renewMs = 5_000;

/**
 * Does work that is due in the database until there is none. A tenant whose work is slow, because its host is, takes a
 * part of the places only.
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
    const { database, due, log, name } = this.#options;
    const free = atATime - this.#working.size;
    const busy = [[...this.#ofTenants.keys()], [...this.#ofTenants.values()]] as const;
    try {
      const rows = await due.claim(database, perTenant, free, leaseMs, ...busy);
      for (const row of rows) this.#start(row);
    } catch (error) {
      log.warn({ err: error }, `${name}: claiming failed`);
    }
  }

  #start(row: Row): void {
    const { tenant } = row;
    this.#ofTenants.set(tenant, (this.#ofTenants.get(tenant) ?? 0) + 1);
    const working = this.#work(row).finally(() => {
      this.#working.delete(working);
      const left = (this.#ofTenants.get(tenant) ?? 1) - 1;
      if (left > 0) this.#ofTenants.set(tenant, left);
      else this.#ofTenants.delete(tenant);
      this.nudge();
      this.#options.onWork();
    });
    this.#working.add(working);
  }

  async #work(row: Row): Promise<void> {
    const { database, due, work, log, name } = this.#options;
    const renewal = setInterval(() => due.renew(database, row, leaseMs).catch(() => {}), renewMs);
    try {
      await work(row);
    } catch (error) {
      log.warn({ err: error }, `${name}: processing failed`);
    } finally {
      clearInterval(renewal);
    }
  }
}

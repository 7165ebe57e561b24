import type pg from 'pg';
import type { Log } from '../lib/log.ts';
import { fanOut, tenantsWithEvents } from '../store/statements/notifications.ts';

export interface FanOutOptions {
  readonly database: pg.Pool;
  readonly log: Log;
  /** How long what may pass by itself waits before it is sent. */
  readonly settleMs: number;
  /** Called when there is something to be sent. */
  readonly onWork: () => void;
}

const eventsAtATime = 500;

/** Finds out whom to tell of what happened. A few statements do it for all events of a tenant. */
export class FanOut {
  readonly table = 'events';
  readonly #options: FanOutOptions;
  #looking: Promise<void> | null = null;
  #isNudged = false;
  #isClosed = false;

  constructor(options: FanOutOptions) {
    this.#options = options;
  }

  nudge(): void {
    this.#isNudged = true;
    if (this.#isClosed || this.#looking) return;
    this.#isNudged = false;
    this.#looking = this.#look()
      .catch((error: unknown) => this.#options.log.warn({ err: error }, 'events: claiming failed'))
      .finally(() => {
        this.#looking = null;
        if (this.#isNudged) this.nudge();
      });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#looking;
  }

  /** In each round, every tenant has a turn. */
  async #look(): Promise<void> {
    const { database, log, settleMs, onWork } = this.#options;
    for (let tenants = await tenantsWithEvents(database); tenants.length > 0; ) {
      const busy: typeof tenants = [];
      for (const one of tenants) {
        if (this.#isClosed) return;
        const [row] = await fanOut(database, one.tenant, eventsAtATime, settleMs).catch((error: unknown) => {
          log.warn({ err: error, tenant: one.tenant }, 'events: processing failed');
          return [];
        });
        if (row?.events === eventsAtATime) busy.push(one);
      }
      onWork();
      tenants = busy;
    }
  }
}

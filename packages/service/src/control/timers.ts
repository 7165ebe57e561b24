import type { Phase } from '@muster/sdk/contract';
import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Log } from '../lib/log.ts';
import { deleteOldSessions } from '../store/statements/browser-sessions.ts';
import { deleteOldReplies } from '../store/statements/replies.ts';
import { deleteOldRunners } from '../store/statements/runners.ts';
import { tick } from '../store/statements/tick.ts';
import { deleteOldHistory } from '../store/statements/timeline.ts';
import type { BlockOnStateError } from './block-on-state-error.ts';
import type { Transact } from './transact.ts';
import type { Wakes } from './wakes.ts';

const tickMs = 1_000;
const sweepMs = 10 * 60 * 1_000;
/** Rows that one statement of the sweep deletes: each is over long before its time limit. */
const sweptAtOnce = 5_000;
const sweptBytesAtOnce = 64 * 1024 * 1024;

/**
 * What happens because time passes: deferred messages fall due, leases end, old history goes. The database's clock
 * decides; every node looks, and the commands it sends are no-ops where another node was faster.
 */
export class Timers {
  readonly #database: pg.Pool;
  readonly #transact: Transact;
  readonly #blockOnStateError: BlockOnStateError;
  readonly #wakes: Wakes;
  readonly #log: Log;
  #timer: NodeJS.Timeout | null = null;
  #sweeper: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(
    database: pg.Pool,
    transact: Transact,
    blockOnStateError: BlockOnStateError,
    wakes: Wakes,
    log: Log,
  ) {
    this.#database = database;
    this.#transact = transact;
    this.#blockOnStateError = blockOnStateError;
    this.#wakes = wakes;
    this.#log = log;
  }

  start(): void {
    this.#arm(0);
    void this.sweep();
    this.#sweeper = setInterval(() => void this.sweep(), sweepMs);
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer) clearTimeout(this.#timer);
    if (this.#sweeper) clearInterval(this.#sweeper);
  }

  #arm(delayMs: number): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.tick()
        .catch((error) => {
          this.#log.warn({ err: error }, 'the second was skipped');
          return tickMs;
        })
        .then((nextMs) => this.#arm(nextMs));
    }, delayMs);
  }

  /** Looks once, and says when to look again. */
  async tick(): Promise<number> {
    const { agents, pollers, keyIds, sessions } = this.#wakes.watched();
    const withRoom = pollers.filter((p) => p.hasRoom);
    const rows = await tick(
      this.#database,
      agents.map((k) => k.tenant),
      agents.map((k) => k.id),
      withRoom.map((p) => p.pool),
      withRoom.map((p) => p.tenant),
      pollers.map((p) => p.runnerId),
      keyIds,
      sessions,
    );
    let nextMs = tickMs;
    const commands: Promise<unknown>[] = [];
    for (const { what, tenant, id, number, text } of rows) {
      const key = { tenant: tenant ?? 0, id: id ?? '' };
      if (what === 'due')
        commands.push(
          this.#blockOnStateError({ key, runId: null }, () =>
            this.#transact.command({ key }, { type: 'due' }),
          ),
        );
      if (what === 'lost')
        commands.push(
          this.#blockOnStateError({ key, runId: number ?? 0 }, () =>
            this.#transact.command({ key }, { type: 'lose', runId: number ?? 0 }),
          ),
        );
      if (what === 'watched') this.#wakes.changed(key, { phase: text as Phase, sequence: number ?? 0 });
      if (what === 'work') this.#wakes.work(key.tenant, text ?? '');
      if (what === 'stop') this.#wakes.stop(key.id);
      if (what === 'revoked') this.#wakes.revoked(key.id);
      if (what === 'next') nextMs = Math.min(nextMs, Math.max(1, number ?? tickMs));
    }
    await Promise.all(commands);
    return nextMs;
  }

  /** Takes away what has outlived its time. */
  async sweep(): Promise<void> {
    try {
      while ((await deleteOldReplies(this.#database, limits.idempotencyHours, sweptAtOnce)).length > 0)
        if (this.#isClosed) return;
      await deleteOldRunners(this.#database);
      await deleteOldSessions(this.#database);
      for (;;) {
        const gone = await deleteOldHistory(
          this.#database,
          limits.timelineDays,
          20,
          sweptAtOnce,
          sweptBytesAtOnce,
        );
        if (gone.length === 0 || this.#isClosed) return;
      }
    } catch (error) {
      this.#log.warn({ err: error }, 'old history could not be swept; trying again later');
    }
  }
}

import type { Phase } from '@muster/sdk/contract';
import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import type { AgentCommand } from '../domain/decide.ts';
import type { Log } from '../lib/log.ts';
import { type AgentKey, keyColumns } from '../store/agent-store.ts';
import { deleteOldSessions } from '../store/statements/browser-sessions.ts';
import { deleteOldReplies } from '../store/statements/replies.ts';
import { deleteOldRunners } from '../store/statements/runners.ts';
import { deleteOldSignInCodes } from '../store/statements/sign-in-codes.ts';
import { tick } from '../store/statements/tick.ts';
import { deleteOldHistory } from '../store/statements/timeline.ts';
import type { BlockOnStateError } from './block-on-state-error.ts';
import type { Transact } from './transact.ts';
import type { Wakes } from './wakes.ts';

const tickMs = 1_000;
const sweepMs = 10 * 60 * 1_000;
/** What one statement of the sweep deletes at most, so that it ends long before its timeout. */
const sweepRows = 5_000;
const sweepBytes = 64 * 1024 * 1024;

export interface TimersOptions {
  readonly database: pg.Pool;
  readonly transact: Transact;
  readonly blockOnStateError: BlockOnStateError;
  readonly wakes: Wakes;
  readonly log: Log;
}

/**
 * What happens because time passes: deferred messages become due, leases end, old history is deleted. The database's
 * clock decides. Every node looks; the commands that it sends change nothing where another node was faster.
 */
export class Timers {
  readonly #options: TimersOptions;
  #timer: NodeJS.Timeout | null = null;
  #sweeper: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(options: TimersOptions) {
    this.#options = options;
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
          this.#options.log.warn({ err: error }, 'tick failed');
          return tickMs;
        })
        .then((nextMs) => this.#arm(nextMs));
    }, delayMs);
  }

  /** Returns when to look again. */
  async tick(): Promise<number> {
    const { database, wakes } = this.#options;
    const { agents, pollers, keyIds, sessions } = wakes.watched();
    const withRoom = pollers.filter((p) => p.hasRoom);
    const rows = await tick(
      database,
      ...keyColumns(agents),
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
      if (what === 'due') commands.push(this.#command(key, null, { type: 'due' }));
      if (what === 'lost') {
        const runId = number ?? 0;
        commands.push(this.#command(key, runId, { type: 'lose', runId }));
      }
      if (what === 'watched') wakes.changed(key, { phase: text as Phase, sequence: number ?? 0 });
      if (what === 'work') wakes.work(key.tenant, text ?? '');
      if (what === 'stop') wakes.stop(key.id);
      if (what === 'revoked') wakes.revoked(key.id);
      if (what === 'next') nextMs = Math.min(nextMs, Math.max(1, number ?? tickMs));
    }
    await Promise.all(commands);
    return nextMs;
  }

  #command(key: AgentKey, runId: number | null, command: AgentCommand): Promise<unknown> {
    const { transact, blockOnStateError } = this.#options;
    return blockOnStateError({ key, runId }, () => transact.command({ key }, command));
  }

  async sweep(): Promise<void> {
    const { database, log } = this.#options;
    try {
      while ((await deleteOldReplies(database, limits.idempotencyHours, sweepRows)).length > 0)
        if (this.#isClosed) return;
      await deleteOldRunners(database);
      await deleteOldSessions(database);
      await deleteOldSignInCodes(database);
      for (;;) {
        const swept = await deleteOldHistory(database, limits.timelineDays, 20, sweepRows, sweepBytes);
        if (swept.length === 0 || this.#isClosed) return;
      }
    } catch (error) {
      log.warn({ err: error }, 'history sweep failed');
    }
  }
}

import type { PollRequest, ReportRequest } from '@muster/sdk/contract';
import type pg from 'pg';
import type { ResumeAgent } from '../../domain/commands/resume-agent.ts';
import { findAwaiting, findLimited, type WaitingRow } from '../../store/statements/waiting-agents.ts';
import type { Principal } from '../access/principal.ts';
import type { Transact } from '../batches/transact.ts';

/**
 * How many agents one success starts. If the fault is still there, few runs fail again; otherwise each that succeeds
 * starts as many.
 */
const resumedPerSuccess = 4;
const limitedPerQuery = 500;

/** Agents that wait on a runner, and need not wait any longer because of what the runner reports. */
export class Resumes {
  readonly #database: pg.Pool;
  readonly #transact: Transact;

  constructor(database: pg.Pool, transact: Transact) {
    this.#database = database;
    this.#transact = transact;
  }

  /** A run reached these. Returns those that agents still wait for. */
  async reached(
    { tenant, pool }: Principal,
    runnerId: string,
    reached: NonNullable<ReportRequest['reached']>,
  ): Promise<string[]> {
    if (reached.length === 0) return [];
    const limit = resumedPerSuccess + 1;
    const waiting = await findAwaiting(this.#database, tenant.id, pool, runnerId, reached, limit);
    await this.#resume(waiting.slice(0, resumedPerSuccess), { reached, accounts: [] });
    // Agents of this success may fail again, so they count as waiting until a later success finds none.
    return [...new Set(waiting.map(({ awaits }) => awaits))];
  }

  /** A new process of a runner has these accounts. */
  async accounts({ tenant, pool }: Principal, { runnerId, accounts = [] }: PollRequest): Promise<void> {
    if (accounts.length === 0) return;
    for (;;) {
      const limited = await findLimited(this.#database, tenant.id, pool, runnerId, accounts, limitedPerQuery);
      const resumed = await this.#resume(limited, { reached: [], accounts });
      if (limited.length < limitedPerQuery || !resumed) return;
    }
  }

  /** Returns whether one was resumed. */
  async #resume(agents: readonly WaitingRow[], by: Omit<ResumeAgent, 'type'>): Promise<boolean> {
    const replies = await Promise.all(
      agents.map(({ tenant, id }) =>
        this.#transact.command<boolean>({ key: { tenant, id } }, { type: 'resume', ...by }),
      ),
    );
    return replies.includes(true);
  }
}

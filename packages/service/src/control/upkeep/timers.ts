import { setTimeout as pause } from 'node:timers/promises';
import type { Phase } from '@muster/sdk/contract';
import type pg from 'pg';
import type { AgentCommand } from '../../domain/decide.ts';
import type { Log } from '../../lib/log.ts';
import type { Metrics } from '../../lib/metrics.ts';
import { type AgentKey, keyColumns } from '../../store/agent-store.ts';
import { findFunded } from '../../store/statements/budgets.ts';
import { peekAgents } from '../../store/statements/find-agents.ts';
import { noteLostRunners } from '../../store/statements/runners.ts';
import { tick } from '../../store/statements/tick.ts';
import type { Transact } from '../batches/transact.ts';
import type { BlockOnStateError } from '../runners/block-on-state-error.ts';
import type { Wakes } from '../watching/wakes.ts';

const tickMs = 1_000;
/** How many watched agents one query looks at. More are spread over the second, so that no query takes long. */
const agentsPerQuery = 500;
const fundedPerTick = 500;

export interface TimersOptions {
  readonly database: pg.Pool;
  readonly transact: Transact;
  readonly blockOnStateError: BlockOnStateError;
  readonly wakes: Wakes;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * What happens because time passes: deferred messages become due, leases end, and other work is due. The database's
 * clock decides. Every node looks; the commands that it sends change nothing where another node was faster.
 */
export class Timers {
  readonly #options: TimersOptions;
  readonly #onDue: ((table: string) => void)[] = [];
  #timer: NodeJS.Timeout | null = null;
  #isClosed = false;
  /** Looks at those watched agents that the last tick has left. */
  #looking: Promise<void> | null = null;

  constructor(options: TimersOptions) {
    this.#options = options;
  }

  start(): void {
    this.#arm(0);
  }

  /** Calls back with each table that has work whose time has come, also if another node has caused it. */
  onDue(listener: (table: string) => void): void {
    this.#onDue.push(listener);
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer) clearTimeout(this.#timer);
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
    this.#looking ??= this.#lookAt(agents.slice(agentsPerQuery))
      .catch(() => {})
      .finally(() => {
        this.#looking = null;
      });
    const rows = await tick(
      database,
      ...keyColumns(agents.slice(0, agentsPerQuery)),
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
      if (what === 'budget') commands.push(this.#wakeFunded());
      if (what === 'gone') commands.push(this.#noteLostRunners());
      if (what === 'runner') wakes.runner(key.id);
      if (what === 'revoked') wakes.revoked(key.id);
      if (what === 'table') for (const listener of this.#onDue) listener(text ?? '');
      if (what === 'next') nextMs = Math.min(nextMs, Math.max(1, number ?? tickMs));
    }
    await Promise.all(commands);
    return nextMs;
  }

  /** Agents whose budget has enough left again. */
  async #wakeFunded(): Promise<void> {
    const funded = await findFunded(this.#options.database, fundedPerTick);
    await Promise.all(funded.map((key) => this.#command(key, null, { type: 'endBudgetWait' })));
  }

  /** One node finds each. */
  async #noteLostRunners(): Promise<void> {
    const { database, log, metrics } = this.#options;
    for (const { name, pool } of await noteLostRunners(database)) {
      metrics.add('muster_runner_lease_losses_total', {});
      log.warn({ runner: name, pool }, 'runner lost: its lease expired');
    }
  }

  /** What a query that fails has missed is looked at in the next second. */
  async #lookAt(agents: readonly AgentKey[]): Promise<void> {
    const { database, wakes } = this.#options;
    const queries = Math.ceil(agents.length / agentsPerQuery);
    for (let i = 0; i < queries; i += 1) {
      await pause(tickMs / (queries + 1), undefined, { ref: false });
      if (this.#isClosed) return;
      const some = agents.slice(i * agentsPerQuery, (i + 1) * agentsPerQuery);
      for (const row of await peekAgents(database, ...keyColumns(some))) wakes.changed(row, row);
    }
  }

  #command(key: AgentKey, runId: number | null, command: AgentCommand): Promise<unknown> {
    const { transact, blockOnStateError } = this.#options;
    return blockOnStateError({ key, runId }, () => transact.command({ key }, command));
  }
}

import type { ReportResult } from '@muster/sdk/contract';
import type pg from 'pg';
import { isOutput, type ReportRun, reportReply, responseIn } from '../../domain/commands/report-run.ts';
import { heapBytesOf } from '../../lib/json.ts';
import type { AgentKey } from '../../store/agent-store.ts';
import { tasksOf } from '../../store/rows.ts';
import { appendOutput, type OutputRow } from '../../store/statements/append-output.ts';
import type { Wakes } from '../watching/wakes.ts';
import { shareQueries } from './shared-queries.ts';
import { isWithoutDatabase } from './transact.ts';

interface Output {
  readonly key: AgentKey;
  readonly report: ReportRun;
}

/** A larger report is stored like any command, so that a statement with many reports stays small. */
const maxBytes = 64 * 1024;
const maxWaiting = 2_000;

/**
 * Most reports only append to a timeline. They change nothing that a decision depends on, so they share one statement,
 * which checks the fence itself: a round trip instead of the two or three of a command. What that statement leaves out is
 * decided like any command, which also finds out why. That is safe even if it was stored and the reply was lost: the
 * number of a report counts once.
 */
export class OutputReports {
  readonly #append: (output: Output) => Promise<ReportResult | null>;
  readonly #database: pg.Pool;
  readonly #wakes: Wakes;
  readonly #stored: (key: AgentKey, bytes: number) => void;

  /** `stored` counts what was stored. */
  constructor(database: pg.Pool, wakes: Wakes, stored: (key: AgentKey, bytes: number) => void) {
    this.#stored = stored;
    this.#database = database;
    this.#wakes = wakes;
    this.#append = shareQueries((outputs) => this.#appendAll(outputs), {
      concurrency: 1,
      maxWaiting,
      tenantOf: ({ key }) => key.tenant,
    });
  }

  /** Null: the report was not stored, and has to be decided. */
  async append(key: AgentKey, report: ReportRun): Promise<ReportResult | null> {
    const bytes = isOutput(report) ? heapBytesOf(report.items) : Number.POSITIVE_INFINITY;
    if (bytes > maxBytes) return null;
    try {
      const reply = await this.#append({ key, report });
      if (reply) this.#stored(key, bytes);
      return reply;
    } catch (error) {
      if (isWithoutDatabase(error)) throw error;
      return null;
    }
  }

  async #appendAll(outputs: readonly Output[]): Promise<(ReportResult | null)[]> {
    // A report may be sent again while the first try waits here. The second one is decided after it.
    const byAgent = new Map<string, Output>();
    for (const output of outputs) if (!byAgent.has(output.key.id)) byAgent.set(output.key.id, output);
    const stored = await appendOutput(this.#database, JSON.stringify([...byAgent.values()].map(rowOf)));
    const rows = new Map(stored.map((row) => [row.agent, row]));
    this.#wakes.perform(
      stored.map(({ agent, phase, sequence }) => ({
        type: 'changed',
        tenant: byAgent.get(agent)?.key.tenant ?? 0,
        id: agent,
        phase,
        sequence,
      })),
    );
    return outputs.map((output) => {
      const row = byAgent.get(output.key.id) === output ? rows.get(output.key.id) : undefined;
      if (!row) return null;
      const { stop, tasks, activated, question } = row;
      return reportReply(stop, tasksOf(tasks), activated ?? [], question ?? '');
    });
  }
}

const rowOf = ({
  key,
  report: { runId, runnerId, report, currentAction, items = [] },
}: Output): OutputRow => ({
  tenant: key.tenant,
  agent: key.id,
  run: runId,
  runner: runnerId,
  report,
  current_action: currentAction ?? null,
  response: responseIn(items) ?? null,
  items,
});

import type { AgentChange } from '../../packages/service/src/domain/loaded-agents.ts';
import { addRows, type UsageRow } from '../../packages/service/src/store/usage-rows.ts';
import type { AgentRows } from './memory-tables.ts';
import { holds } from './timeline-audit.ts';

const tolerance = 1e-9;

/** The rows of `usage_hours`, by run. */
export class MemoryUsage {
  readonly #runs = new Map<string, Map<string, UsageRow>>();

  commit(changes: readonly AgentChange[]): void {
    for (const { after, events } of changes)
      for (const event of events) {
        if (event.type !== 'spent') continue;
        const key = `${after.agent.id}/${event.runId}`;
        const rows = this.#runs.get(key) ?? new Map<string, UsageRow>();
        this.#runs.set(key, rows);
        addRows(rows, after.agent, event, this.countedOf(after.agent.id, event.runId));
      }
  }

  /** By model, as `read-counted-usage` has it: a run has one account here. */
  countedOf(agent: string, run: number): UsageRow[] {
    const models = new Map<string, UsageRow>();
    for (const row of this.#runs.get(`${agent}/${run}`)?.values() ?? []) {
      const sum = models.get(row.model);
      if (!sum) models.set(row.model, { ...row });
      else {
        sum.cost += row.cost;
        sum.input_tokens += row.input_tokens;
      }
    }
    return [...models.values()];
  }

  /** The rows of an agent's newest runs say what those runs do. */
  check({ agent, runs }: AgentRows): void {
    for (const { number, usage } of runs.slice(-2)) {
      const rows = this.countedOf(agent.id, number);
      const tokens = rows.reduce((sum, row) => sum + row.input_tokens, 0);
      const cost = rows.reduce((sum, row) => sum + row.cost, 0);
      holds(
        tokens === usage.inputTokens && Math.abs(cost - usage.cost) < tolerance,
        'UsageCountsOnce',
        () =>
          `run ${number} of ${agent.path}: $${usage.cost} and ${usage.inputTokens} tokens, its rows have $${cost} and ${tokens}`,
      );
    }
  }
}

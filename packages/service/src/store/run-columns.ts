import type { Agent, Run } from '../domain/agent.ts';
import type { UsageColumns } from './agent-columns.ts';
import { columnsOf, loadedFields, type Shown, shownIn, timeReader } from './column-table.ts';
import type { RowOf } from './tables.ts';

/** A run as it is written. */
export interface SavedRun {
  readonly agent: Agent;
  readonly run: Run;
}

/**
 * The columns of `runs`, except what a run said and produced: that may be large, and no command needs it.
 *
 * group  `key` and `fixed` are written with the run, `changing` by most commands on it
 * shown  in a status and in lists of runs, or in lists of runs only
 */
// biome-ignore format: a line for each column
export const runTable = {
  tenant: { type: 'int', of: ({ agent }) => agent.tenant, group: 'key' },
  agent: { type: 'uuid', of: ({ agent }) => agent.id, group: 'key' },
  number: { type: 'int', field: 'number', of: ({ run }) => run.number, group: 'key', shown: 'status' },
  batch: { type: 'int', field: 'batch', of: ({ run }) => run.batch, group: 'fixed', shown: 'runs' },
  runner_id: { type: 'uuid', field: 'runnerId', of: ({ run }) => run.runnerId, group: 'fixed' },
  runner: { type: 'text', field: 'runner', of: ({ run }) => run.runner, group: 'fixed', shown: 'status' },
  started_at: { type: 'timestamptz', field: 'startedAt', of: ({ run }) => run.startedAt, group: 'fixed', shown: 'status' },
  account: { type: 'text', field: 'account', of: ({ run }) => run.account, group: 'changing', shown: 'status' },
  state: { type: 'text', field: 'state', of: ({ run }) => run.state, group: 'changing', shown: 'status' },
  outcome: { type: 'text', field: 'outcome', of: ({ run }) => run.outcome, group: 'changing', shown: 'status' },
  stop: { type: 'text', field: 'stop', of: ({ run }) => run.stop, group: 'changing' },
  ended_at: { type: 'timestamptz', field: 'endedAt', of: ({ run }) => run.endedAt, group: 'changing', shown: 'status' },
  gone_at: { type: 'timestamptz', field: 'goneAt', of: ({ run }) => run.goneAt, group: 'changing' },
  reports: { type: 'int', field: 'reports', of: ({ run }) => run.reports, group: 'changing' },
  current_action: { type: 'text', field: 'currentAction', of: ({ run }) => run.currentAction, group: 'changing', shown: 'status' },
  cost: { type: 'float8', field: 'usage.cost', of: ({ run }) => run.usage.cost, group: 'changing', shown: 'runs' },
  input_tokens: { type: 'bigint', field: 'usage.inputTokens', of: ({ run }) => run.usage.inputTokens, group: 'changing', shown: 'runs' },
  cached_tokens: { type: 'bigint', field: 'usage.cachedInputTokens', of: ({ run }) => run.usage.cachedInputTokens, group: 'changing', shown: 'runs' },
  output_tokens: { type: 'bigint', field: 'usage.outputTokens', of: ({ run }) => run.usage.outputTokens, group: 'changing', shown: 'runs' },
  credits: { type: 'jsonb', field: 'credits', of: ({ run }) => run.credits, group: 'changing' },
  follow_up_ids: { type: 'text[]', field: 'followUpIds', of: ({ run }) => run.followUpIds, group: 'changing', shown: 'status' },
} as const satisfies Record<keyof RunRow | 'tenant' | 'agent', RunColumn>;

interface RunColumn {
  readonly type: string;
  readonly field?: keyof Run | `usage.${keyof Run['usage']}`;
  readonly of: (saved: SavedRun) => unknown;
  readonly group: 'key' | 'fixed' | 'changing';
  readonly shown?: 'status' | 'runs';
}

interface RunRow extends RowOf<Run, 'usage'>, UsageColumns {}

export const changingRunColumns = columnsOf(runTable, 'key', 'changing');
export const runColumns = columnsOf(runTable, 'key', 'fixed', 'changing');

/** Of the table `r`. */
export const loadedRunFields = loadedFields(runTable, 'r');
export const readRunTimes = timeReader(runTable);

export type StatusRunRow = Pick<RunRow, Shown<typeof runTable, 'status'>>;
export const statusRunColumns = shownIn(runTable, 'status');

export type ShownRunRow = Pick<RunRow, Shown<typeof runTable, 'status' | 'runs'>>;
export const shownRunColumns = shownIn(runTable, 'status', 'runs');

import type { Agent } from '../domain/agent.ts';
import { columnsOf, loadedFields, type Shown, shownIn, timeReader } from './column-table.ts';
import type { RowOf } from './tables.ts';

export interface UsageColumns {
  cost: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
}

export interface AgentRow
  extends RowOf<Agent, 'path' | 'settings' | 'memory' | 'result' | 'labels' | 'usage'>,
    UsageColumns {
  path: string;
  model: string;
}

/**
 * The columns of `agents`. What is written, loaded, compared and shown of an agent's row follows from this table.
 *
 * group  `key` and `fixed` are written with the agent, `hot` by nearly every command, `cold` by some
 * shown  in a status and in lists, or in a status only, under the name of the field; or `derived`, if something else is
 *        made of it
 */
// biome-ignore format: a line for each column
export const agentTable = {
  tenant: { type: 'int', field: 'tenant', of: (a) => a.tenant, group: 'key', shown: 'derived' },
  id: { type: 'uuid', field: 'id', of: (a) => a.id, group: 'key', shown: 'derived' },
  root: { type: 'uuid', field: 'root', of: (a) => a.root, group: 'fixed' },
  parent: { type: 'uuid', field: 'parent', of: (a) => a.parent, group: 'fixed' },
  ancestors: { type: 'uuid[]', field: 'ancestors', of: (a) => a.ancestors, group: 'fixed' },
  owner_provider: { type: 'text', field: 'ownerProvider', of: (a) => a.ownerProvider, group: 'fixed', shown: 'derived' },
  account: { type: 'text', field: 'account', of: (a) => a.account, group: 'fixed', shown: 'derived' },
  workspace: { type: 'text', field: 'workspace', of: (a) => a.workspace, group: 'fixed', shown: 'derived' },
  path: { type: 'text', field: 'path', of: (a) => a.path.join('/'), group: 'fixed', loaded: "string_to_array(a.path, '/')", shown: 'derived' },
  pool: { type: 'text', field: 'pool', of: (a) => a.pool, group: 'fixed', shown: 'status' },
  backend: { type: 'text', field: 'backend', of: (a) => a.backend, group: 'fixed', shown: 'status' },
  created_at: { type: 'timestamptz', field: 'createdAt', of: (a) => a.createdAt, group: 'fixed', shown: 'lists' },
  phase: { type: 'text', field: 'phase', of: (a) => a.phase, group: 'hot', shown: 'lists' },
  reason: { type: 'text', field: 'reason', of: (a) => a.reason, group: 'hot', shown: 'derived' },
  since: { type: 'timestamptz', field: 'since', of: (a) => a.since, group: 'hot', shown: 'derived' },
  claimable_at: { type: 'timestamptz', field: 'claimableAt', of: (a) => a.claimableAt, group: 'hot', shown: 'derived' },
  run_count: { type: 'int', field: 'runCount', of: (a) => a.runCount, group: 'hot', shown: 'derived' },
  sequence: { type: 'bigint', field: 'sequence', of: (a) => a.sequence, group: 'hot' },
  queued: { type: 'int', field: 'queued', of: (a) => a.queued, group: 'hot' },
  deferred: { type: 'int', field: 'deferred', of: (a) => a.deferred, group: 'hot' },
  next_deliver_at: { type: 'timestamptz', field: 'nextDeliverAt', of: (a) => a.nextDeliverAt, group: 'hot', shown: 'derived' },
  progress_at: { type: 'timestamptz', field: 'progressAt', of: (a) => a.progressAt, group: 'hot', shown: 'lists' },
  ended_at: { type: 'timestamptz', field: 'endedAt', of: (a) => a.endedAt, group: 'hot', shown: 'status' },
  current: { type: 'boolean', field: 'current', of: (a) => a.current, group: 'cold' },
  model: { type: 'text', field: 'settings.model', of: (a) => a.settings.model, group: 'cold', shown: 'derived' },
  cost: { type: 'float8', field: 'usage.cost', of: (a) => a.usage.cost, group: 'cold', shown: 'derived' },
  input_tokens: { type: 'bigint', field: 'usage.inputTokens', of: (a) => a.usage.inputTokens, group: 'cold', shown: 'derived' },
  cached_tokens: { type: 'bigint', field: 'usage.cachedInputTokens', of: (a) => a.usage.cachedInputTokens, group: 'cold', shown: 'derived' },
  output_tokens: { type: 'bigint', field: 'usage.outputTokens', of: (a) => a.usage.outputTokens, group: 'cold', shown: 'derived' },
  budget_usd: { type: 'float8', field: 'budgetUsd', of: (a) => a.budgetUsd, group: 'cold' },
  home: { type: 'text', field: 'home', of: (a) => a.home, group: 'cold', shown: 'derived' },
  deferral: { type: 'boolean', field: 'deferral', of: (a) => a.deferral, group: 'cold' },
  rehearsed: { type: 'boolean', field: 'rehearsed', of: (a) => a.rehearsed, group: 'cold', shown: 'derived' },
  sandboxed: { type: 'boolean', field: 'sandboxed', of: (a) => a.sandboxed, group: 'cold', shown: 'derived' },
  session: { type: 'text', field: 'session', of: (a) => a.session, group: 'cold' },
  unpushed: { type: 'jsonb', field: 'unpushed', of: (a) => a.unpushed, group: 'cold', shown: 'derived' },
  checkpoint_at: { type: 'timestamptz', field: 'checkpointAt', of: (a) => a.checkpointAt, group: 'cold', shown: 'lists' },
} as const satisfies Record<string, AgentColumn>;

interface AgentColumn {
  readonly type: string;
  readonly field: keyof Agent | `usage.${keyof Agent['usage']}` | 'settings.model';
  readonly of: (agent: Agent) => unknown;
  readonly group: 'key' | 'fixed' | 'hot' | 'cold';
  readonly loaded?: string;
  readonly shown?: 'lists' | 'status' | 'derived';
}

type Table = typeof agentTable;

/** What nearly every command changes. */
export const hotAgentColumns = columnsOf(agentTable, 'key', 'hot');
/** What any command changes. */
export const changingAgentColumns = columnsOf(agentTable, 'key', 'hot', 'cold');
export const agentColumns = columnsOf(agentTable, 'key', 'fixed', 'hot', 'cold');

const coldReaders = Object.values<AgentColumn>(agentTable).flatMap(({ of, group }) =>
  group === 'cold' ? [of] : [],
);

/** Whether more than the hot part of the row differs. */
export const hasColdChange = (before: Agent, after: Agent): boolean =>
  (before.endedAt === null) !== (after.endedAt === null) ||
  coldReaders.some((of) => of(before) !== of(after));

export const loadedAgentFields = loadedFields(agentTable, 'a');
export const readAgentTimes = timeReader(agentTable);

/** What a view of an agent needs of its row. */
export const shownAgentColumns = shownIn(agentTable, 'lists', 'status', 'derived');

type Fields<How extends string> = { [C in Shown<Table, How> as Table[C]['field']]: AgentRow[C] };

function viewOf<How extends string>(how: How): (row: Pick<AgentRow, Shown<Table, How>>) => Fields<How> {
  const shown = shownIn(agentTable, how);
  return (row) => {
    const fields: Record<string, unknown> = {};
    for (const name of shown) fields[agentTable[name].field] = row[name];
    return fields as Fields<How>;
  };
}

/** What lists and a status show as it is. */
export const listedFields = viewOf('lists');
/** What only a status shows as it is. */
export const statusFields = viewOf('status');

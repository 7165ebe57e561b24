import type { AgentRow } from '../rows.ts';

/** What every view of an agent shows of its row. */
export const agentColumns = [
  'tenant',
  'id',
  'owner_provider',
  'account',
  'workspace',
  'path',
  'pool',
  'backend',
  'repos',
  'created_at',
  'phase',
  'reason',
  'since',
  'claimable_at',
  'run_count',
  'next_deliver_at',
  'progress_at',
  'ended_at',
  'cost',
  'input_tokens',
  'cached_tokens',
  'output_tokens',
  'home',
  'rehearsed',
] as const satisfies readonly (keyof AgentRow)[];

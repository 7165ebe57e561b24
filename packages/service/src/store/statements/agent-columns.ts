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
  'sandboxed',
  'unpushed',
  'checkpoint_at',
  'labels',
] as const satisfies readonly (keyof AgentRow)[];

/** What it asked, or what has to be fixed; null while it waits for neither. */
export const needsInput = `CASE a.reason WHEN 'QUESTION' THEN a.memory ->> 'question'
    WHEN 'BLOCKED' THEN a.memory ->> 'blocked' END`;

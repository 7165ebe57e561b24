import type { Agent, FollowUp, NewFollowUp } from '../domain/agent.ts';
import { columnsOf, loadedFields, timeReader } from './column-table.ts';
import type { RowOf } from './tables.ts';

/** A follow-up as it is written; `admitted` if it is new. */
export interface SavedFollowUp {
  readonly agent: Agent;
  readonly followUp: FollowUp;
  readonly admitted?: NewFollowUp;
}

/**
 * The columns of `follow_ups`.
 *
 * group  `key` and `fixed` are written with the follow-up, `changing` also when it moves in the queue
 */
// biome-ignore format: a line for each column
export const followUpTable = {
  tenant: { type: 'int', of: ({ agent }) => agent.tenant, group: 'key' },
  agent: { type: 'uuid', of: ({ agent }) => agent.id, group: 'key' },
  id: { type: 'text', field: 'id', of: ({ followUp }) => followUp.id, group: 'key' },
  state: { type: 'text', field: 'state', of: ({ followUp }) => followUp.state, group: 'changing' },
  position: { type: 'bigint', field: 'position', of: ({ followUp }) => followUp.position, group: 'changing' },
  batch: { type: 'int', field: 'batch', of: ({ followUp }) => followUp.batch, group: 'changing' },
  steer_batch: { type: 'int', field: 'steerBatch', of: ({ followUp }) => followUp.steerBatch, group: 'changing' },
  sequence: { type: 'bigint', of: ({ admitted }) => admitted?.sequence, group: 'fixed' },
  description: { type: 'text', of: ({ admitted }) => admitted?.description, group: 'fixed' },
  change: { type: 'json', field: 'change', of: ({ followUp }) => followUp.change, group: 'fixed' },
  tasks: { type: 'json', field: 'tasks', of: ({ followUp }) => followUp.tasks, group: 'fixed' },
  deliver_at: { type: 'timestamptz', field: 'deliverAt', of: ({ followUp }) => followUp.deliverAt, group: 'fixed' },
  queued_at: { type: 'timestamptz', field: 'queuedAt', of: ({ followUp }) => followUp.queuedAt, group: 'fixed' },
  attachment_ids: { type: 'json', field: 'attachmentIds', of: ({ followUp: { attachmentIds } }) => (attachmentIds.length > 0 ? attachmentIds : null), group: 'fixed' },
  digest: { type: 'text', field: 'digest', of: ({ followUp }) => followUp.digest, group: 'fixed' },
  traceparent: { type: 'text', of: ({ admitted }) => admitted?.traceparent ?? null, group: 'fixed' },
} as const satisfies Record<keyof RowOf<FollowUp & NewFollowUp, never> | 'tenant' | 'agent', FollowUpColumn>;

interface FollowUpColumn {
  readonly type: string;
  readonly field?: keyof FollowUp;
  readonly of: (saved: SavedFollowUp) => unknown;
  readonly group: 'key' | 'fixed' | 'changing';
}

export const followUpKeyColumns = columnsOf(followUpTable, 'key');
export const changingFollowUpColumns = columnsOf(followUpTable, 'key', 'changing');
export const followUpColumns = columnsOf(followUpTable, 'key', 'fixed', 'changing');

/** Of the table `f`. */
export const loadedFollowUpFields = loadedFields(followUpTable, 'f');
export const readFollowUpTimes = timeReader(followUpTable);

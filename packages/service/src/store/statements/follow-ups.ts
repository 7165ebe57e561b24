import type { FollowUpState, Phase, PhaseReason, Task } from '@muster/sdk/contract';
import { statement } from '../connection.ts';
import { loadedFollowUpFields } from '../follow-up-columns.ts';
import type { LoadedFollowUp } from '../rows.ts';

/** What people see of a follow-up. A persona that it brings is only named. */
export interface ShownFollowUpRow {
  id: string;
  state: FollowUpState;
  description: string;
  deliver_at: string | null;
  queued_at: string;
  persona: string | null;
  model: string | null;
  effort: string | null;
  tier: string | null;
  fast_mode: boolean | null;
  output_schema: string | null;
  steer: boolean;
  attachment_ids: string[] | null;
}

/** The columns of the row above, of the table `f`. */
export const shownColumns = `f.id, f.state, f.deliver_at, f.queued_at, f.change #>> '{persona,name}' AS persona,
  f.change ->> 'model' AS model, f.change ->> 'reasoningEffort' AS effort, f.change ->> 'serviceTier' AS tier,
  (f.change ->> 'fastMode')::boolean AS fast_mode, f.steer_batch IS NOT NULL AS steer,
  f.attachment_ids`;

/** Queued ones first, in the order of their delivery. */
export const deliveryOrder = `f.state = 'DEFERRED', f.position, f.deliver_at, f.id`;

/** Undelivered follow-ups from the given place on, as many as fit into the given bytes, at least one. */
export const readQueue = statement<
  [tenant: number, agent: string, offsetId: string, limit: number, mostBytes: number],
  ShownFollowUpRow & { more: boolean }
>(
  'read-queue',
  `WITH queue AS (
     SELECT ${shownColumns}, f.description, f.change ->> 'outputSchema' AS output_schema,
       octet_length(f.description) + coalesce(octet_length(f.change ->> 'outputSchema'), 0) AS bytes,
       row_number() OVER (ORDER BY ${deliveryOrder}) AS place
     FROM follow_ups f WHERE f.tenant = $1 AND f.agent = $2 AND f.state IN ('QUEUED', 'DEFERRED')
   ), rest AS (
     SELECT place, sum(bytes) OVER (ORDER BY place) - bytes AS bytes_before,
       place < max(place) OVER () AS more
     FROM queue WHERE place > coalesce((SELECT q.place FROM queue q WHERE q.id = $3), 0)
   )
   SELECT q.id, q.state, q.deliver_at, q.queued_at, q.persona, q.model, q.effort, q.tier, q.fast_mode, q.steer, q.attachment_ids, q.description,
     q.output_schema, r.more
   FROM rest r JOIN queue q ON q.place = r.place WHERE r.bytes_before < $5 ORDER BY r.place LIMIT $4`,
);

export interface FollowUpDetailRow extends ShownFollowUpRow {
  tasks: Task[];
  batch: number | null;
  phase: Phase;
  reason: PhaseReason;
  current_batch: number | null;
  run: number | null;
}

/** One follow-up in any state, with the newest run of its batch. */
export const readFollowUp = statement<[tenant: number, agent: string, id: string], FollowUpDetailRow>(
  'read-follow-up',
  `SELECT ${shownColumns}, f.description, f.change ->> 'outputSchema' AS output_schema, f.tasks, f.batch, a.phase, a.reason,
     (s.memory #>> '{batch,id}')::int AS current_batch,
     (SELECT max(r.number) FROM runs r
      WHERE r.tenant = f.tenant AND r.agent = f.agent AND r.number >= f.batch AND r.batch = f.batch) AS run
   FROM follow_ups f JOIN agents a ON a.tenant = f.tenant AND a.id = f.agent
   JOIN agent_states s ON s.tenant = f.tenant AND s.agent = f.agent
   WHERE f.tenant = $1 AND f.agent = $2 AND f.id = $3`,
);

export interface ProgressRow {
  n: number;
  phase: Phase;
  reason: PhaseReason;
  /** The batch that the agent's run was given, or that will be tried again. */
  current_batch: number | null;
  state: FollowUpState;
  /** The batch that the message was delivered in. */
  batch: number | null;
}

/** How far messages have come; no row for a message that does not exist. */
export const readProgress = statement<[tenants: number[], agents: string[], ids: string[]], ProgressRow>(
  'read-progress',
  `SELECT q.n::int, a.phase, a.reason, (s.memory #>> '{batch,id}')::int AS current_batch, f.state, f.batch
   FROM unnest($1::int[], $2::uuid[], $3::text[]) WITH ORDINALITY AS q (tenant, agent, id, n)
   JOIN agents a ON a.tenant = q.tenant AND a.id = q.agent
   JOIN agent_states s ON s.tenant = q.tenant AND s.agent = q.agent
   JOIN follow_ups f ON f.tenant = q.tenant AND f.agent = q.agent AND f.id = q.id`,
);

/** Follow-ups by their ids, in whatever state. */
export const loadFollowUps = statement<
  [tenants: number[], agents: string[], ids: string[]],
  { agent: string; loaded: LoadedFollowUp }
>(
  'load-follow-ups',
  `SELECT f.agent, (SELECT row_to_json(l) FROM (SELECT ${loadedFollowUpFields}) l) AS loaded
   FROM unnest($1::int[], $2::uuid[], $3::text[]) AS q (tenant, agent, id)
   JOIN follow_ups f ON f.tenant = q.tenant AND f.agent = q.agent AND f.id = q.id`,
);

/** The words of the messages of some batches, in order. */
export const loadBatches = statement<
  [tenants: number[], agents: string[], batches: number[]],
  {
    agent: string;
    id: string;
    description: string;
    attachment_ids: string[] | null;
    traceparent: string | null;
  }
>(
  'load-batches',
  `SELECT f.agent, f.id, f.description, f.attachment_ids, f.traceparent
   FROM unnest($1::int[], $2::uuid[], $3::int[]) AS q (tenant, agent, batch)
   JOIN follow_ups f ON f.tenant = q.tenant AND f.agent = q.agent AND f.batch = q.batch ORDER BY f.position`,
);

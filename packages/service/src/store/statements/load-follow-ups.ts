import { statement } from '../connection.ts';
import type { FollowUpRow } from '../rows.ts';

type Row = FollowUpRow & { agent: string };
const columns =
  'f.agent, f.id, f.state, f.position, f.change, f.tasks, f.deliver_at, f.queued_at, f.batch, f.digest';

/** Follow-ups by their ids, in whatever state. */
export const loadFollowUps = statement<[tenants: number[], agents: string[], ids: string[]], Row>(
  'load-follow-ups',
  `SELECT ${columns}
   FROM unnest($1::int[], $2::uuid[], $3::text[]) AS q (tenant, agent, id)
   CROSS JOIN LATERAL (
     SELECT * FROM follow_ups f WHERE f.tenant = q.tenant AND f.agent = q.agent AND f.id = q.id OFFSET 0
   ) f`,
);

/** Every undelivered follow-up of these agents. */
export const loadQueues = statement<[tenants: number[], agents: string[]], Row>(
  'load-queues',
  `SELECT ${columns}
   FROM unnest($1::int[], $2::uuid[]) AS q (tenant, agent)
   CROSS JOIN LATERAL (
     SELECT * FROM follow_ups f
     WHERE f.tenant = q.tenant AND f.agent = q.agent AND f.state IN ('QUEUED', 'DEFERRED') OFFSET 0
   ) f`,
);

/** The words of the messages of one batch, in order. */
export const loadBatch = statement<
  [tenant: number, agent: string, batch: number],
  { id: string; description: string }
>(
  'load-batch',
  `SELECT id, description FROM follow_ups
   WHERE tenant = $1 AND agent = $2 AND batch = $3 ORDER BY position`,
);

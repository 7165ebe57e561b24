import { statement } from '../connection.ts';
import type { ChildRow } from '../rows.ts';

/** What parents see of their children: the newest of each name. */
export const loadChildren = statement<[tenants: number[], parents: string[]], ChildRow>(
  'load-children',
  `SELECT a.id, a.parent, a.path, a.phase, a.reason, a.since, a.memory ->> 'question' AS question,
     left(a.result ->> 'response', 2000) AS response, coalesce(a.result -> 'error' ->> 'message', '') AS error
   FROM unnest($1::int[], $2::uuid[]) AS q (tenant, parent)
   CROSS JOIN LATERAL (
     SELECT * FROM agents a WHERE a.tenant = q.tenant AND a.parent = q.parent AND a.current OFFSET 0
   ) a
   ORDER BY a.id`,
);

/** How many live agents stand below each of these. */
export const countLiveDescendants = statement<
  [tenants: number[], roots: string[], ids: string[]],
  { id: string; live: number }
>(
  'count-live-descendants',
  `SELECT q.id, (
     SELECT count(*)::int FROM agents a
     WHERE a.tenant = q.tenant AND a.root = q.root AND a.parent IS NOT NULL AND a.ended_at IS NULL
       AND q.id = ANY (a.ancestors)
   ) AS live
   FROM unnest($1::int[], $2::uuid[], $3::uuid[]) AS q (tenant, root, id)`,
);

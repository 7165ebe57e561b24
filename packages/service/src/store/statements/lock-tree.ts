import { statement } from '../connection.ts';

/** Locks every live descendant of an agent; its root is locked already, so none can be added meanwhile. */
export const lockTree = statement<
  [tenant: number, root: string, id: string],
  { tenant: number; id: string; locked: boolean }
>(
  'lock-tree',
  `WITH wanted AS MATERIALIZED (
     SELECT a.tenant, a.id FROM agents a
     WHERE a.tenant = $1 AND a.root = $2 AND a.parent IS NOT NULL AND $3 = ANY (a.ancestors) AND a.ended_at IS NULL
   ), locked AS MATERIALIZED (
     SELECT a.id FROM wanted w
     CROSS JOIN LATERAL (
       SELECT a.id FROM agents a WHERE a.tenant = w.tenant AND a.id = w.id FOR UPDATE SKIP LOCKED
     ) a
   )
   SELECT w.tenant, w.id, w.id = ANY (ARRAY(SELECT id FROM locked)) AS locked FROM wanted w`,
);

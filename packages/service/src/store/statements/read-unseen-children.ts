import { statement } from '../connection.ts';

/** Children that settled during the live run of their parent and that it has not looked at. */
export const readUnseenChildren = statement<[tenant: number, parent: string], { path: string }>(
  'read-unseen-children',
  `SELECT k.path FROM agents a
   CROSS JOIN LATERAL json_array_elements_text(a.memory -> 'news') AS child (id)
   CROSS JOIN LATERAL (
     SELECT * FROM agents k WHERE k.tenant = a.tenant AND k.id = child.id::uuid OFFSET 0
   ) k
   WHERE a.tenant = $1 AND a.id = $2`,
);

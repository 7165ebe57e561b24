import { statement } from '../connection.ts';

export interface ReplyRow {
  tenant: number;
  key_id: string;
  key: string;
  digest: string;
  reply: unknown;
}

/** Replies kept for requests that may be repeated, up to their age. */
export const loadReplies = statement<
  [tenants: number[], keyIds: string[], keys: string[], maxAgeHours: number],
  ReplyRow
>(
  'load-replies',
  `SELECT r.tenant, r.key_id, r.key, r.digest, r.reply
   FROM unnest($1::int[], $2::text[], $3::text[]) AS q (tenant, key_id, key)
   CROSS JOIN LATERAL (
     SELECT * FROM replies r WHERE r.tenant = q.tenant AND r.key_id = q.key_id AND r.key = q.key OFFSET 0
   ) r
   WHERE r.created_at > now() - make_interval(hours => $4)`,
);

/** Makes room for a key whose reply is too old to count. */
export const deleteOldReplies = statement<[maxAgeHours: number], never>(
  'delete-old-replies',
  'DELETE FROM replies WHERE created_at <= now() - make_interval(hours => $1)',
);

import { statement } from '../connection.ts';

export interface ReplyRow {
  tenant: number;
  key_id: string;
  key: string;
  digest: string;
  reply: unknown;
}

/** The first number tells these advisory locks from others on the same server. */
export const lockReplies = statement<[keys: string[]], { locked: boolean }>(
  'lock-replies',
  `SELECT pg_try_advisory_xact_lock(7301986, hashtext(q.key)) AS locked
   FROM unnest($1::text[]) WITH ORDINALITY AS q (key, n) ORDER BY q.n`,
);

/** Replies kept for requests that may be repeated, up to their age. */
export const loadReplies = statement<
  [tenants: number[], keyIds: string[], keys: string[], maxAgeHours: number],
  ReplyRow
>(
  'load-replies',
  `SELECT r.tenant, r.key_id, r.key, r.digest, r.reply
   FROM unnest($1::int[], $2::text[], $3::text[]) AS q (tenant, key_id, key)
   JOIN replies r ON r.tenant = q.tenant AND r.key_id = q.key_id AND r.key = q.key
   WHERE r.created_at > now() - make_interval(hours => $4)`,
);

import type { ImageType } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

export interface AttachmentRow {
  id: string;
  media_type: ImageType;
  bytes: number;
}

type Key = [tenant: number, agent: string];

/** Bytes of the agent's undelivered attachments. */
export const readUndeliveredBytes = statement<Key, { bytes: number }>(
  'read-undelivered-bytes',
  `SELECT coalesce(sum(bytes), 0)::bigint AS bytes FROM attachments
   WHERE tenant = $1 AND agent = $2 AND delivered_at IS NULL`,
);

/** An attachment that is there already is only used again. No row: the tenant is closed. */
export const insertAttachment = statement<
  [...Key, id: string, mediaType: string, bytes: number, content: Buffer, isDelivered: boolean],
  { id: string }
>(
  'insert-attachment',
  `INSERT INTO attachments (tenant, agent, id, media_type, bytes, content, used_at, delivered_at)
   SELECT t.id, $2, $3, $4, $5, $6, now(), CASE WHEN $7 THEN now() END
   FROM tenants t WHERE t.id = $1 AND t.closed_at IS NULL
   ON CONFLICT (tenant, agent, id) DO UPDATE SET used_at = excluded.used_at,
     delivered_at = coalesce(attachments.delivered_at, excluded.delivered_at) RETURNING id`,
);

/** Those of an agent that exist. They are kept for as long as if they were new. */
export const useAttachments = statement<
  [...Key, ids: readonly string[], isDelivered: boolean],
  { id: string }
>(
  'use-attachments',
  `UPDATE attachments SET used_at = now(), delivered_at = coalesce(delivered_at, CASE WHEN $4 THEN now() END)
   WHERE tenant = $1 AND agent = $2 AND id = ANY ($3::text[]) RETURNING id`,
);

export const readAttachment = statement<[...Key, id: string], AttachmentRow & { content: Buffer }>(
  'read-attachment',
  'SELECT id, media_type, bytes, content FROM attachments WHERE tenant = $1 AND agent = $2 AND id = $3',
);

/** A runner gets it for a run that it holds. */
export const deliverAttachment = statement<[...Key, id: string], AttachmentRow & { content: Buffer }>(
  'deliver-attachment',
  `UPDATE attachments SET delivered_at = coalesce(delivered_at, now()), used_at = now()
   WHERE tenant = $1 AND agent = $2 AND id = $3 RETURNING id, media_type, bytes, content`,
);

/** A message that waits needs them. */
const isNeeded = `EXISTS (
       SELECT FROM follow_ups f CROSS JOIN json_array_elements_text(f.attachment_ids) AS named (id)
       WHERE f.tenant = a.tenant AND f.agent = a.agent AND f.state IN ('QUEUED', 'DEFERRED') AND named.id = a.id)`;

/** Deletes some that were last used long ago, and uploads that no message has named for a day. */
export const deleteOldAttachments = statement<[before: string, most: number], { deleted: number }>(
  'delete-old-attachments',
  `WITH old AS (
     SELECT a.tenant, a.agent, a.id FROM attachments a
     WHERE (a.used_at < $1 OR a.delivered_at IS NULL AND a.used_at < now() - interval '1 day') AND NOT ${isNeeded}
     LIMIT $2
   ), deleted AS (
     DELETE FROM attachments a USING old WHERE a.tenant = old.tenant AND a.agent = old.agent AND a.id = old.id
     RETURNING a.id
   )
   SELECT count(*)::int AS deleted FROM deleted`,
);

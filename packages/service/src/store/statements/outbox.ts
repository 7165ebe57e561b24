import { statement } from '../connection.ts';
import { insertInto } from '../tables.ts';
import { dueRows } from './due-rows.ts';

/** What is to be sent to others. A transaction that causes it writes it; any node sends it. */
export interface NewItem {
  readonly tenant: number;
  /** Who sends it: one of the topics that the service is started with. */
  readonly topic: string;
  /** To whom: an integration, of the topic `codehost`. */
  readonly target: string;
  /** Items of one lane are sent in order. */
  readonly lane: string;
  readonly kind: string;
  readonly agent: string | null;
  readonly data: Readonly<Record<string, unknown>>;
  /** The same item again changes nothing, unless it failed: then it is sent again. */
  readonly key: string;
}

const columns = {
  tenant: 'int',
  topic: 'text',
  target: 'text',
  lane: 'text',
  kind: 'text',
  agent: 'uuid',
  data: 'json',
  key: 'text',
  state: 'text',
  attempts: 'int',
  error: 'text',
  posted_id: 'text',
  created_at: 'timestamptz',
  next_at: 'timestamptz',
} as const;

/** One that failed may have been posted nevertheless: in SENDING its marker is looked for first. */
const insert = statement<[rows: string], never>(
  'insert-outbox',
  `${insertInto('outbox', columns)} ON CONFLICT (tenant, key) DO UPDATE
   SET data = excluded.data, state = CASE WHEN outbox.state = 'FAILED' THEN 'SENDING' ELSE 'QUEUED' END, attempts = 0, error = '', settled_at = NULL,
     created_at = excluded.created_at, next_at = excluded.next_at
   WHERE outbox.state = 'FAILED' OR outbox.error <> '' AND outbox.state = 'QUEUED'`,
);

export const insertItems = (
  connection: Parameters<typeof insert>[0],
  items: readonly NewItem[],
  now: string,
): Promise<unknown> =>
  insert(
    connection,
    JSON.stringify(
      items.map((item) => ({
        ...item,
        state: 'QUEUED',
        attempts: 0,
        error: '',
        posted_id: '',
        created_at: now,
        next_at: now,
      })),
    ),
  );

export interface DueItem {
  tenant: number;
  id: number;
  topic: string;
  target: string;
  lane: string;
  kind: string;
  agent: string | null;
  data: Record<string, unknown>;
  key: string;
  marker: string;
  /** Before this attempt: in SENDING it may have been sent. */
  state: 'QUEUED' | 'SENDING';
  attempts: number;
  /** Why the last attempt failed. */
  error: string;
  created_at: string;
}

/** The first item of each lane. Before it is sent it is marked as SENDING. */
export const dueItems = dueRows<DueItem>('outbox', {
  table: 'outbox',
  key: ['tenant', 'id'],
  columns: [
    ...[
      'tenant',
      'id',
      'topic',
      'target',
      'lane',
      'kind',
      'agent',
      'data',
      'key',
      'marker',
      'state',
      'attempts',
    ],
    ...['error', 'created_at'],
  ],
  and: `NOT EXISTS (SELECT FROM outbox e
           WHERE e.tenant = d.tenant AND e.target = d.target AND e.lane = d.lane AND e.id < d.id
             AND e.topic = d.topic AND e.next_at IS NOT NULL)`,
  set: "state = 'SENDING', attempts = t.attempts + 1",
});

type Key = [tenant: number, id: number];

export const settleItem = statement<
  [...Key, state: 'SENT' | 'FAILED' | 'DROPPED', postedId: string, error: string],
  never
>(
  'settle-outbox',
  `UPDATE outbox SET state = $3, posted_id = $4, error = $5, next_at = NULL,
     settled_at = date_trunc('milliseconds', now())
   WHERE tenant = $1 AND id = $2`,
);

/** It is tried again later; in QUEUED it is certain that it was not sent. */
export const postponeItem = statement<
  [...Key, state: 'QUEUED' | 'SENDING', error: string, delayMs: number],
  never
>(
  'postpone-outbox',
  `UPDATE outbox SET state = $3, error = $4, next_at = now() + make_interval(secs => $5 / 1000.0)
   WHERE tenant = $1 AND id = $2`,
);

/** Items, of one lane or of all, that wait because of a failure are tried again now: what they lacked may be there. */
export const releaseItems = statement<[tenant: number, target: string, lane: string | null], never>(
  'release-outbox',
  `UPDATE outbox SET next_at = now()
   WHERE tenant = $1 AND topic = 'codehost' AND target = $2 AND ($3::text IS NULL OR lane = $3) AND next_at > now()
     AND state = 'QUEUED' AND error <> ''`,
);

/** What an integration could not post within a day, or has not posted yet, the newest first. */
export const readUnposted = statement<
  [tenant: number, target: string, most: number],
  { kind: string; repo: string; error: string; waits: boolean }
>(
  'read-unposted',
  `SELECT kind, coalesce(data ->> 'repo', '') AS repo, error, next_at IS NOT NULL AND state = 'QUEUED' AS waits FROM outbox
   WHERE tenant = $1 AND topic = 'codehost' AND target = $2 AND error <> ''
     AND (next_at IS NOT NULL OR state = 'FAILED' AND settled_at > now() - interval '1 day')
   ORDER BY id DESC LIMIT $3`,
);

export interface ItemState {
  state: 'QUEUED' | 'SENDING' | 'SENT' | 'FAILED' | 'DROPPED';
  error: string;
}

export const readItem = statement<[tenant: number, key: string], ItemState>(
  'read-outbox-item',
  'SELECT state, error FROM outbox WHERE tenant = $1 AND key = $2',
);

/**
 * Which of these comments were posted by an integration of this installation: by this integration, found by the id at
 * the host, or by any integration, found by the marker, because an id is unique at one host only. `is_sending`: one of
 * them may be being posted now.
 */
export const readOwnPosts = statement<
  [tenant: number, target: string, ids: readonly string[], markers: readonly string[]],
  { posted: string[]; is_sending: boolean }
>(
  'read-own-posts',
  `SELECT
     ARRAY(
       SELECT posted_id FROM outbox WHERE tenant = $1 AND target = $2 AND posted_id = ANY($3)
       UNION SELECT posted_id FROM outbox WHERE marker = ANY($4::uuid[]) AND posted_id = ANY($3)
     ) AS posted,
     EXISTS (SELECT FROM outbox WHERE tenant = $1 AND target = $2 AND next_at IS NOT NULL AND state = 'SENDING')
       OR EXISTS (SELECT FROM outbox WHERE marker = ANY($4::uuid[]) AND next_at IS NOT NULL AND state = 'SENDING')
       AS is_sending`,
);

/**
 * Deletes items that were settled some days ago. The ids of what was posted are kept while the change request is open:
 * its comments are compared with them, also by another integration.
 */
export const clearOldItems = statement<[days: number, most: number], { deleted: number }>(
  'clear-old-outbox',
  `WITH old AS (
     SELECT o.tenant, o.id FROM outbox o
     WHERE o.settled_at < now() - make_interval(days => $1) AND (o.posted_id = '' OR NOT EXISTS (
       SELECT FROM change_requests c
       WHERE c.tenant = o.tenant AND c.state IN ('OPEN', 'DRAFT') AND (c.name = o.lane
         OR c.repo = o.data ->> 'repo' AND c.number = (o.data -> 'subject' ->> 'number')::int)))
     ORDER BY o.settled_at LIMIT $2
   ), deleted AS (
     DELETE FROM outbox o USING old WHERE o.tenant = old.tenant AND o.id = old.id RETURNING o.id
   )
   SELECT count(*)::int AS deleted FROM deleted`,
);

import type { NotificationEvent, Provider } from '@muster/sdk/contract';
import { statement } from '../connection.ts';
import { dueRows } from './due-rows.ts';
import { type EventData, type EventType, resumed } from './events.ts';
import { ownerName } from './shared-sql.ts';

/** Whom to tell: a document of the kind notification, or something of another type, whose name has a slash. */
export interface TargetRow {
  tenant: number;
  name: string;
  type: string;
  account: string;
  paused: boolean;
  settings: unknown;
  /** When messages were sent to it lately, the oldest first. */
  recent: string[];
  digest_at: string | null;
  held_until: string | null;
  /** How often somebody has asked for a look at it. */
  asked: number;
}

/** A target is looked at again when it is written: it may be paused, or have another address. */
export const saveTarget = statement<
  [
    ...[tenant: number, name: string, type: string, events: readonly string[], workspace: string],
    ...[account: string, labels: string, paused: boolean, settings: string],
  ],
  never
>(
  'save-notification-target',
  `INSERT INTO notification_targets AS t (tenant, name, type, events, workspace, account, labels, paused, settings)
   VALUES ($1, $2, $3, $4::text[], $5, $6, $7::jsonb, $8, $9::json)
   ON CONFLICT (tenant, name) DO UPDATE SET type = excluded.type, events = excluded.events,
     workspace = excluded.workspace, account = excluded.account, labels = excluded.labels, paused = excluded.paused,
     settings = excluded.settings, claims = 0, asked = t.asked + 1,
     next_at = CASE WHEN t.is_claimed THEN t.next_at ELSE now() END`,
);

/** With its deliveries. */
export const deleteTarget = statement<[tenant: number, name: string], never>(
  'delete-notification-target',
  'DELETE FROM notification_targets WHERE tenant = $1 AND name = $2',
);

const target = ['type', 'account', 'paused', 'settings', 'recent', 'digest_at', 'held_until', 'asked'];

export const readTarget = statement<[tenant: number, name: string], TargetRow>(
  'read-notification-target',
  `SELECT tenant, name, ${target.join(', ')} FROM notification_targets WHERE tenant = $1 AND name = $2`,
);

export const dueTargets = dueRows<TargetRow>('notification-targets', {
  table: 'notification_targets',
  key: ['tenant', 'name'],
  columns: ['tenant', 'name', ...target],
  set: 'is_claimed = true',
});

export const tenantsWithEvents = statement<[], { tenant: number }>(
  'tenants-with-events',
  `WITH RECURSIVE t AS (
     (SELECT tenant FROM events ORDER BY tenant LIMIT 1)
     UNION ALL
     SELECT (SELECT e.tenant FROM events e WHERE e.tenant > t.tenant ORDER BY e.tenant LIMIT 1) FROM t
     WHERE t.tenant IS NOT NULL
   )
   SELECT tenant FROM t WHERE tenant IS NOT NULL`,
);

/** A browser gets no message about what the person sees in the dashboard meanwhile. */
const settles = `(e.type IN ('agent.needs_input', 'agent.idle')
         OR (t.type = 'browser' AND e.agent IS NOT NULL AND e.type <> '${resumed}'))`;

/** The target `t` is a disabled account's own, about its own agents. Those of a team, and of its admins, go on. */
const isOfDisabled = `EXISTS (
       SELECT FROM members d JOIN resources r ON r.tenant = d.tenant AND r.kind = 'notification' AND r.name = t.name
       WHERE d.tenant = a.tenant AND d.owner_provider = a.owner_provider AND d.account = a.account AND d.disabled
         AND r.document ->> 'createdBy' = ${ownerName('a')})`;

/**
 * Turns events of a tenant into deliveries to the targets that want to know them, the oldest first. One node at a time does
 * it, so that the events of an agent keep their order. Returns how many events there were; none if another node is at it.
 */
export const fanOut = statement<[tenant: number, most: number, settleMs: number], { events: number }>(
  'fan-out-events',
  `WITH turn AS MATERIALIZED (
     SELECT pg_try_advisory_xact_lock(7301989, $1::int) AS is_ours
   ), taken AS (
     DELETE FROM events e USING (
       SELECT o.tenant, o.id FROM events o WHERE o.tenant = $1 AND (SELECT is_ours FROM turn) ORDER BY o.id LIMIT $2
     ) o WHERE e.tenant = o.tenant AND e.id = o.id
     RETURNING e.tenant, e.id, e.type, e.agent, e.workspace, e.account, e.data, e.at
   ), added AS (
     INSERT INTO notification_deliveries (tenant, target, type, agent, data, at, next_at)
     SELECT e.tenant, t.name, e.type, e.agent, e.data, e.at,
       greatest(now(), CASE WHEN ${settles} THEN e.at + make_interval(secs => $3 / 1000.0) ELSE e.at END)
     FROM taken e
     JOIN notification_targets t ON t.tenant = e.tenant AND NOT t.paused AND e.type = ANY (t.events)
     LEFT JOIN agents a ON a.tenant = e.tenant AND a.id = e.agent
     LEFT JOIN agent_states s ON s.tenant = e.tenant AND s.agent = e.agent
     WHERE t.workspace IN ('', coalesce(a.workspace, e.workspace))
       AND t.account IN ('', coalesce(a.account, e.account), coalesce(${ownerName('a')}, e.account))
       AND (t.labels = '{}' OR s.labels @> t.labels)
       AND NOT (t.account <> '' AND ${isOfDisabled})
     ORDER BY e.id
     RETURNING target, next_at
   ), asked AS (
     UPDATE notification_targets t SET asked = t.asked + 1,
       next_at = CASE WHEN t.is_claimed THEN t.next_at ELSE least(t.next_at, n.next_at) END
     FROM (SELECT target, min(next_at) AS next_at FROM added GROUP BY target) n
     WHERE t.tenant = $1 AND t.name = n.target
   )
   SELECT count(*)::int AS events FROM taken`,
);

export interface WaitingRow {
  id: number;
  message_id: string;
  type: EventType | 'digest' | 'test';
  agent: string | null;
  data: EventData;
  at: string;
  attempts: number;
}

type Target = [tenant: number, target: string];

/**
 * What waits for a target, apart from what is in a digest. `is_behind`: an earlier one about the same agent is to be sent
 * first. One scan finds that out: a target may have thousands.
 */
const waiting = `(
     SELECT d.id, d.message_id, d.type, d.agent, d.data, d.at, d.attempts, d.next_at,
       d.agent IS NOT NULL AND coalesce(d.first_blocked < d.id, false) AS is_behind
     FROM (
       SELECT d.id, d.message_id, d.type, d.agent, d.data, d.at, d.attempts, d.next_at, d.digest,
         min(d.id) FILTER (WHERE d.digest IS NOT NULL OR d.next_at > now()) OVER (PARTITION BY d.agent) AS first_blocked
       FROM notification_deliveries d WHERE d.tenant = $1 AND d.target = $2 AND d.next_at IS NOT NULL
     ) d WHERE d.digest IS NULL
   ) d`;
const maySend = 'd.next_at <= now() AND NOT d.is_behind';

/** The next that may be sent, in the order in which they happened, and how many there are; digests come first. */
export const readWaiting = statement<Target, WaitingRow & { total: number }>(
  'read-waiting-notifications',
  `SELECT d.id, d.message_id, d.type, d.agent, d.data, d.at, d.attempts, count(*) OVER ()::int AS total
   FROM ${waiting} WHERE ${maySend} ORDER BY d.type <> 'digest', d.id LIMIT 1`,
);

/** These ask somebody to act, so they are not sent when the agent has left the phase. */
export const passingEvents = [
  'agent.needs_input',
  'agent.idle',
  'agent.blocked',
  'agent.budget',
] as const satisfies readonly NotificationEvent[];

const settled = `settled_at = date_trunc('milliseconds', now()), next_at = NULL`;

/** Drops what is due, or in a digest that is due, and about a phase that has passed. */
export const dropPassed = statement<[...Target, reason: string], { type: string }>(
  'drop-passed-notifications',
  `UPDATE notification_deliveries d SET state = 'DROPPED', error = $3, digest = NULL, ${settled}
   FROM agents a
   WHERE d.tenant = $1 AND d.target = $2 AND d.next_at <= now() AND a.tenant = d.tenant AND a.id = d.agent
     AND NOT d.is_repeated AND d.type IN (${passingEvents.map((type) => `'${type}'`).join(', ')})
     AND (a.since <> d.at OR a.phase <> d.data ->> 'phase' OR a.reason <> d.data ->> 'reason')
   RETURNING d.type`,
);

/** Drops all that waits: the target is paused, or more waits than is ever sent; then the oldest. */
export const dropWaiting = statement<[...Target, reason: string, kept: number], { type: string }>(
  'drop-waiting-notifications',
  `UPDATE notification_deliveries d SET state = 'DROPPED', error = $3, digest = NULL, ${settled}
   WHERE d.tenant = $1 AND d.target = $2 AND d.next_at IS NOT NULL AND d.id <= (
     SELECT o.id FROM notification_deliveries o WHERE o.tenant = $1 AND o.target = $2 AND o.next_at IS NOT NULL
     ORDER BY o.id DESC OFFSET $4 LIMIT 1)
   RETURNING d.type`,
);

/** Makes one digest of all that may be sent now; returns nothing if there is only one. */
export const makeDigest = statement<Target, { id: number }>(
  'make-digest',
  `WITH members AS MATERIALIZED (
     SELECT d.id, d.at FROM ${waiting} WHERE d.type <> 'digest' AND ${maySend}
   ), digest AS (
     INSERT INTO notification_deliveries (tenant, target, type, data, at, next_at)
     SELECT $1, $2, 'digest', '{}', max(at), now() FROM members HAVING count(*) > 1 RETURNING id
   ), included AS (
     UPDATE notification_deliveries d SET digest = n.id FROM digest n
     WHERE d.tenant = $1 AND d.id IN (SELECT id FROM members)
   )
   SELECT id FROM digest`,
);

export const countMembers = statement<
  [tenant: number, digest: number],
  { type: NotificationEvent; events: number }
>(
  'count-digest',
  `SELECT type, count(*)::int AS events FROM notification_deliveries
   WHERE tenant = $1 AND digest = $2 AND next_at IS NOT NULL GROUP BY type ORDER BY type`,
);

/** Those that ask for something first. */
export const readMembers = statement<[tenant: number, digest: number, most: number], WaitingRow>(
  'read-digest',
  `SELECT id, message_id, type, agent, data, at, attempts FROM notification_deliveries
   WHERE tenant = $1 AND digest = $2 AND next_at IS NOT NULL
   ORDER BY type NOT IN ('agent.needs_input', 'agent.blocked', 'agent.budget', 'agent.failed'), id DESC LIMIT $3`,
);

type Delivery = [tenant: number, id: number];

/** Before it is sent. */
export const markSending = statement<Delivery, never>(
  'mark-notification-sending',
  `UPDATE notification_deliveries SET state = 'SENDING', attempts = attempts + 1 WHERE tenant = $1 AND id = $2`,
);

/** With the deliveries that a digest includes. */
export const settleDelivery = statement<
  [...Delivery, state: 'SENT' | 'FAILED' | 'DROPPED', error: string],
  never
>(
  'settle-notification',
  `UPDATE notification_deliveries SET state = $3, error = $4, ${settled}
   WHERE tenant = $1 AND (id = $2 OR digest = $2) AND next_at IS NOT NULL`,
);

/** It is tried again. */
export const postponeDelivery = statement<[...Delivery, error: string, delayMs: number], never>(
  'postpone-notification',
  `UPDATE notification_deliveries SET error = $3, next_at = now() + make_interval(secs => $4 / 1000.0)
   WHERE tenant = $1 AND id = $2`,
);

/**
 * Ends a look at a target. It is looked at again when something is to be sent, not before a time if there is one; and soon
 * if somebody has asked for it meanwhile.
 */
export const endLook = statement<
  [
    ...Target,
    asked: number,
    recent: readonly string[],
    digestAt: string | null,
    heldUntil: string | null,
    notBefore: string | null,
  ],
  never
>(
  'end-look-at-target',
  `UPDATE notification_targets t SET is_claimed = false, recent = $4::text[], digest_at = $5, held_until = $6,
     next_at = CASE WHEN t.asked <> $3 THEN now() ELSE (
       SELECT greatest(now(), $7::timestamptz, min(d.next_at)) FROM ${waiting} WHERE NOT d.is_behind
       HAVING count(*) > 0
     ) END
   WHERE t.tenant = $1 AND t.name = $2`,
);

/** Somebody wants it to be looked at now. */
export const askForLook = statement<[tenant: number, target: string], never>(
  'ask-for-look-at-target',
  `UPDATE notification_targets SET claims = 0, asked = asked + 1,
     next_at = CASE WHEN is_claimed THEN next_at ELSE now() END
   WHERE tenant = $1 AND name = $2`,
);

export interface DeliveryRow {
  id: number;
  message_id: string;
  type: string;
  name: string;
  state: 'QUEUED' | 'SENDING' | 'SENT' | 'FAILED' | 'DROPPED';
  error: string;
  attempts: number;
  digest_id: string;
  at: string;
  settled_at: string | null;
  next_at: string | null;
  owner_provider: Provider | null;
  account: string;
  workspace: string;
  path: string;
}

const shown = `SELECT d.id, d.message_id, d.type, coalesce(d.data ->> 'name', '') AS name, d.state, d.error, d.attempts,
     coalesce(g.message_id::text, '') AS digest_id, d.at, d.settled_at, CASE WHEN d.digest IS NULL THEN d.next_at END AS next_at,
     a.owner_provider, a.account, a.workspace, a.path
   FROM notification_deliveries d
   LEFT JOIN notification_deliveries g ON g.tenant = d.tenant AND g.id = d.digest
   LEFT JOIN agents a ON a.tenant = d.tenant AND a.id = d.agent
   WHERE d.tenant = $1 AND d.target = $2`;

/** The newest first; all states if none is named. */
export const listDeliveries = statement<
  [...Target, states: readonly string[], before: number | null, limit: number],
  DeliveryRow
>(
  'list-notifications',
  `${shown} AND (cardinality($3::text[]) = 0 OR d.state = ANY ($3)) AND ($4::bigint IS NULL OR d.id < $4)
   ORDER BY d.id DESC LIMIT $5`,
);

export const readDelivery = statement<[...Target, messageId: string], DeliveryRow>(
  'read-notification',
  `${shown} AND d.message_id = $3`,
);

/** Sends it again, a digest with all of its events; now, if it waits for another attempt. */
export const repeatDelivery = statement<[...Target, messageId: string], never>(
  'repeat-notification',
  `UPDATE notification_deliveries d SET state = 'QUEUED', attempts = 0, error = '', is_repeated = true, settled_at = NULL,
     next_at = now(), digest = CASE WHEN d.id = r.id THEN NULL ELSE d.digest END
   FROM notification_deliveries r
   WHERE r.tenant = $1 AND r.target = $2 AND r.message_id = $3 AND d.tenant = r.tenant AND (d.id = r.id OR d.digest = r.id)`,
);

const mostTests = 10;

/** It is sent by who asks for it; if that fails, by anybody a minute later. No row: there were many in the last minute. */
export const insertTest = statement<Target, WaitingRow>(
  'insert-test-notification',
  `INSERT INTO notification_deliveries (tenant, target, type, data, at, state, attempts, next_at)
   SELECT $1, $2, 'test', '{}', date_trunc('milliseconds', now()), 'SENDING', 1, now() + interval '1 minute'
   WHERE (SELECT count(*) FROM (
     SELECT FROM notification_deliveries d WHERE d.tenant = $1 AND d.target = $2 AND d.type = 'test'
       AND d.at > now() - interval '1 minute' LIMIT ${mostTests}
   ) d) < ${mostTests}
   RETURNING id, message_id, type, agent, data, at, attempts`,
);

const deleted = `, deleted AS (
     DELETE FROM notification_deliveries d USING old WHERE d.tenant = old.tenant AND d.id = old.id RETURNING d.id
   )
   SELECT count(*)::int AS deleted FROM deleted`;

export const deleteOldNotifications = statement<[days: number, most: number], { deleted: number }>(
  'delete-old-notifications',
  `WITH old AS (
     SELECT tenant, id FROM notification_deliveries
     WHERE settled_at < now() - make_interval(days => $1) ORDER BY settled_at LIMIT $2
   )${deleted}`,
);

/** Deletes the oldest settled deliveries of targets that have more than this. */
export const deleteManyNotifications = statement<[kept: number, most: number], { deleted: number }>(
  'delete-many-notifications',
  `WITH bounds AS MATERIALIZED (
     SELECT t.tenant, t.name, (
       SELECT d.id FROM notification_deliveries d WHERE d.tenant = t.tenant AND d.target = t.name
       ORDER BY d.id DESC OFFSET $1 LIMIT 1
     ) AS last FROM notification_targets t
   ), old AS (
     SELECT d.tenant, d.id FROM bounds b JOIN notification_deliveries d
       ON d.tenant = b.tenant AND d.target = b.name AND d.id <= b.last AND d.next_at IS NULL LIMIT $2
   )${deleted}`,
);

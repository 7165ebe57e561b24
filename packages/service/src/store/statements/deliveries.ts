import type { AgentRow } from '../agent-columns.ts';
import { statement } from '../connection.ts';
import { dueRows } from './due-rows.ts';

/** Who receives deliveries. */
export const recipientKinds = ['integration', 'trigger'] as const;
export type RecipientKind = (typeof recipientKinds)[number];

/**
 * The column `integration` names the recipient: an integration by its name, a trigger as `trigger/NAME`, which no
 * integration can be called.
 */
export const recipientOf = (kind: RecipientKind, name: string): string =>
  kind === 'integration' ? name : `${kind}/${name}`;

export function recipientIn(column: string): { readonly kind: RecipientKind; readonly name: string } {
  const [first, second] = column.split('/');
  return second === undefined
    ? { kind: 'integration', name: column }
    : { kind: first as RecipientKind, name: second };
}

/** The deliveries of code hosts and other systems, and the addresses that they are sent to. */
export interface HookRow {
  tenant: number;
  integration: string;
}

export const findHook = statement<[id: string], HookRow>(
  'find-hook',
  'SELECT tenant, integration FROM hooks WHERE id = $1',
);

/** The address of a recipient whose document is written: the first one stays, and it is not paused any more. Only an integration has a host that is asked for what was lost. */
export const saveHook = statement<[tenant: number, integration: string, id: string], { id: string }>(
  'save-hook',
  `INSERT INTO hooks AS h (tenant, integration, id, next_at)
   VALUES ($1, $2, $3, CASE WHEN $2::text LIKE '%/%' THEN NULL ELSE now() + interval '1 hour' END)
   ON CONFLICT (tenant, integration) DO UPDATE SET id = h.id, failures = 0, paused_reason = '' RETURNING h.id`,
);

export const deleteHook = statement<[tenant: number, integration: string], never>(
  'delete-hook',
  'DELETE FROM hooks WHERE tenant = $1 AND integration = $2',
);

/** An integration whose host is asked for labels and assignments whose delivery was lost. */
export interface DueHook extends HookRow {
  compared_at: string;
}

export const dueHooks = dueRows<DueHook>('hooks', {
  table: 'hooks',
  key: ['tenant', 'integration'],
  columns: ['tenant', 'integration', 'compared_at'],
});

/** The host was asked until then. */
export const saveComparison = statement<
  [tenant: number, integration: string, comparedAt: string, delayMs: number],
  never
>(
  'save-comparison',
  `UPDATE hooks SET compared_at = $3, next_at = now() + make_interval(secs => $4 / 1000.0)
   WHERE tenant = $1 AND integration = $2`,
);

export const postponeComparison = statement<[tenant: number, integration: string, delayMs: number], never>(
  'postpone-comparison',
  `UPDATE hooks SET next_at = now() + make_interval(secs => $3 / 1000.0) WHERE tenant = $1 AND integration = $2`,
);

/** Asks the hosts of a tenant now, unless somebody did within this time. Those that were given up are tried again. */
export const askHooks = statement<[tenant: number, intervalMs: number], never>(
  'ask-hooks',
  `UPDATE hooks SET next_at = now(), asked_at = now(), claims = 0
   WHERE tenant = $1 AND next_at IS NOT NULL AND (asked_at IS NULL OR asked_at <= now() - make_interval(secs => $2 / 1000.0))`,
);

/** When a node starts: after deliveries that hosts send again, and spread, for integrations may share a host. */
export const askAllHooks = statement<[], never>(
  'ask-all-hooks',
  `UPDATE hooks SET next_at = least(next_at, now() + make_interval(secs => 10 + random() * 50))
   WHERE next_at IS NOT NULL`,
);

/** Whether there are deliveries of an integration that were not tried yet. */
export const hasNewDeliveries = statement<[tenant: number, integration: string], { found: boolean }>(
  'has-new-deliveries',
  `SELECT EXISTS (SELECT FROM deliveries
     WHERE tenant = $1 AND integration = $2 AND next_at IS NOT NULL AND attempts <= 1) AS found`,
);

/** How many deliveries of a tenant are not settled, counted up to a number. */
export const countWaiting = statement<[tenant: number, most: number], { waiting: number }>(
  'count-waiting-deliveries',
  `SELECT count(*)::int AS waiting FROM (
     SELECT FROM deliveries WHERE tenant = $1 AND next_at IS NOT NULL LIMIT $2
   ) d`,
);

export interface NewDelivery {
  readonly tenant: number;
  readonly integration: string;
  readonly id: string;
  readonly event: string;
  readonly headers: string;
  /** Compressed. */
  readonly body: Buffer;
  readonly bytes: number;
}

const insert = statement<
  [
    tenants: number[],
    integrations: string[],
    ids: string[],
    events: string[],
    headers: string[],
    bodies: Buffer[],
    bytes: number[],
  ],
  never
>(
  'insert-deliveries',
  `INSERT INTO deliveries
     (tenant, integration, id, event, state, reason, headers, body, bytes, attempts, received_at, next_at)
   SELECT n.tenant, n.integration, n.id, n.event, 'RECEIVED', '', n.headers, n.body, n.bytes, 0,
     date_trunc('milliseconds', now()), now()
   FROM unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::json[], $6::bytea[], $7::int[])
     AS n (tenant, integration, id, event, headers, body, bytes)
   ON CONFLICT (tenant, integration, id) DO NOTHING`,
);

/** One that is known already changes nothing. */
export const insertDeliveries = (
  connection: Parameters<typeof insert>[0],
  rows: readonly NewDelivery[],
): Promise<unknown> =>
  insert(
    connection,
    rows.map((row) => row.tenant),
    rows.map((row) => row.integration),
    rows.map((row) => row.id),
    rows.map((row) => row.event),
    rows.map((row) => row.headers),
    rows.map((row) => row.body),
    rows.map((row) => row.bytes),
  );

export interface DueDelivery {
  tenant: number;
  integration: string;
  id: string;
  event: string;
  headers: Record<string, string> | null;
  /** Before this attempt. */
  attempts: number;
  received_at: string;
  /** Of a trigger: it was counted in an hour, and the agent that it has reached. */
  is_admitted: boolean;
  agent: string | null;
}

export const dueDeliveries = dueRows<DueDelivery>('deliveries', {
  table: 'deliveries',
  key: ['tenant', 'integration', 'id'],
  columns: [
    'tenant',
    'integration',
    'id',
    'event',
    'headers',
    'attempts',
    'received_at',
    'is_admitted',
    'agent',
  ],
  set: 'attempts = t.attempts + 1',
});

type Key = [tenant: number, integration: string, id: string];

/** The agents that deliveries have reached, without those that were deleted. */
export const readReachedAgents = statement<
  [tenant: number, ids: readonly string[]],
  Pick<AgentRow, 'id' | 'owner_provider' | 'account' | 'workspace' | 'path'>
>(
  'read-reached-agents',
  `SELECT a.id, a.owner_provider, a.account, a.workspace, a.path FROM agents a
   WHERE a.tenant = $1 AND a.id = ANY($2::uuid[])
     AND NOT EXISTS (SELECT FROM deleted_agents d WHERE d.tenant = a.tenant AND d.agent = a.id)`,
);

/** Not read with the claim: the bodies of all that are being processed would be in memory at the same time. */
export const readDeliveryBody = statement<Key, { body: Buffer | null }>(
  'read-delivery-body',
  'SELECT body FROM deliveries WHERE tenant = $1 AND integration = $2 AND id = $3',
);

export const settleDelivery = statement<
  [
    ...Key,
    state: 'DONE' | 'IGNORED' | 'FAILED',
    event: string,
    subject: string,
    reason: string,
    agent: string | null,
  ],
  never
>(
  'settle-delivery',
  `UPDATE deliveries SET state = $4, event = $5, subject = $6, reason = $7, agent = $8, next_at = NULL,
     settled_at = date_trunc('milliseconds', now())
   WHERE tenant = $1 AND integration = $2 AND id = $3`,
);

/** It is tried again later. */
export const postponeDelivery = statement<[...Key, reason: string, delayMs: number], never>(
  'postpone-delivery',
  `UPDATE deliveries SET reason = $4, next_at = now() + make_interval(secs => $5 / 1000.0)
   WHERE tenant = $1 AND integration = $2 AND id = $3 AND state = 'RECEIVED'`,
);

export interface DeliveryRow {
  id: string;
  event: string;
  subject: string;
  state: 'RECEIVED' | 'DONE' | 'IGNORED' | 'FAILED';
  reason: string;
  attempts: number;
  bytes: number;
  received_at: string;
  settled_at: string | null;
  agent: string | null;
}

const shown = 'id, event, subject, state, reason, attempts, bytes, received_at, settled_at, agent';

/**
 * Counts a delivery in the hour of its trigger, which begins with the first one after the hour before. No row: as many as
 * may were counted.
 */
export const admitDelivery = statement<[...Key, most: number], { id: string }>(
  'admit-delivery',
  `WITH counted AS (
     UPDATE hooks SET in_hour = CASE WHEN hour_at > now() - interval '1 hour' THEN in_hour + 1 ELSE 1 END,
       hour_at = CASE WHEN hour_at > now() - interval '1 hour' THEN hour_at ELSE now() END
     WHERE tenant = $1 AND integration = $2
       AND (hour_at IS NULL OR hour_at <= now() - interval '1 hour' OR in_hour < $4)
     RETURNING id
   )
   UPDATE deliveries SET is_admitted = true
   WHERE tenant = $1 AND integration = $2 AND id = $3 AND EXISTS (SELECT FROM counted) RETURNING id`,
);

/** How many deliveries of a trigger have failed since the last that did not. */
export const countFailure = statement<
  [tenant: number, integration: string, hasFailed: boolean],
  { failures: number }
>(
  'count-failure',
  `UPDATE hooks SET failures = CASE WHEN $3 THEN failures + 1 ELSE 0 END
   WHERE tenant = $1 AND integration = $2 AND ($3 OR failures > 0) RETURNING failures`,
);

/** Whether the service has paused a trigger, and why. */
export const readPauses = statement<
  [tenant: number, integrations: readonly string[]],
  { integration: string; paused_reason: string }
>('read-pauses', 'SELECT integration, paused_reason FROM hooks WHERE tenant = $1 AND integration = ANY($2)');

/** No row: it is paused already, or was deleted. */
export const pauseHook = statement<[tenant: number, integration: string, reason: string], { id: string }>(
  'pause-hook',
  `UPDATE hooks SET paused_reason = $3 WHERE tenant = $1 AND integration = $2 AND paused_reason = ''
   RETURNING id`,
);

/** Processes a delivery again, however many there were in an hour. No row: it is unknown, or its body was deleted. */
export const repeatDelivery = statement<Key, DeliveryRow>(
  'repeat-delivery',
  `UPDATE deliveries SET state = 'RECEIVED', reason = '', next_at = now(), settled_at = NULL, attempts = 0,
     claims = 0, is_admitted = true
   WHERE tenant = $1 AND integration = $2 AND id = $3 AND body IS NOT NULL RETURNING ${shown}`,
);

/** Newest first, behind the given one. */
export const listDeliveries = statement<
  [
    tenant: number,
    integration: string,
    states: readonly string[],
    beforeAt: string,
    beforeId: string,
    most: number,
  ],
  DeliveryRow
>(
  'list-deliveries',
  `SELECT ${shown} FROM deliveries
   WHERE tenant = $1 AND integration = $2 AND (cardinality($3::text[]) = 0 OR state = ANY($3))
     AND (received_at, id) < ($4, $5)
   ORDER BY received_at DESC, id DESC LIMIT $6`,
);

/** Bodies are needed for a while only, to process a delivery again; what is known of it is kept longer. */
export const deleteOldDeliveries = statement<[days: number, most: number], { deleted: number }>(
  'delete-old-deliveries',
  `WITH old AS (
     SELECT tenant, integration, id FROM deliveries
     WHERE received_at < now() - make_interval(days => $1) AND next_at IS NULL ORDER BY received_at LIMIT $2
   ), deleted AS (
     DELETE FROM deliveries d USING old
     WHERE d.tenant = old.tenant AND d.integration = old.integration AND d.id = old.id RETURNING d.id
   )
   SELECT count(*)::int AS deleted FROM deleted`,
);

/** Deletes the oldest settled deliveries of integrations that have more than this. */
export const deleteManyDeliveries = statement<[kept: number, most: number], { deleted: number }>(
  'delete-many-deliveries',
  `WITH bounds AS MATERIALIZED (
     SELECT h.tenant, h.integration, (
       SELECT d.received_at FROM deliveries d WHERE d.tenant = h.tenant AND d.integration = h.integration
       ORDER BY d.received_at DESC, d.id DESC OFFSET $1 LIMIT 1
     ) AS last FROM hooks h
   ), old AS (
     SELECT d.tenant, d.integration, d.id FROM bounds b JOIN deliveries d
       ON d.tenant = b.tenant AND d.integration = b.integration AND d.received_at <= b.last AND d.next_at IS NULL
     LIMIT $2
   ), deleted AS (
     DELETE FROM deliveries d USING old
     WHERE d.tenant = old.tenant AND d.integration = old.integration AND d.id = old.id RETURNING d.id
   )
   SELECT count(*)::int AS deleted FROM deleted`,
);

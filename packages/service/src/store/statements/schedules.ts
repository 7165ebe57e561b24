import { limits, type Phase, type PhaseReason, type Provider, type ScheduleFire } from '@muster/sdk/contract';
import { type Connection, statement } from '../connection.ts';
import { dueRows } from './due-rows.ts';
import type { Document } from './resources.ts';

/** Schedules: when each fires next, and what fired. Their documents are in the catalog. */

type Key = [tenant: number, name: string];

export interface DueSchedule {
  tenant: number;
  name: string;
}

export const dueSchedules = dueRows<DueSchedule>('schedules', {
  table: 'schedules',
  key: ['tenant', 'name'],
  columns: ['tenant', 'name'],
});

export interface ScheduleRow extends DueSchedule {
  /** Null: it does not fire, or is deleted. */
  scheduled_at: string | null;
  spawn_id: string | null;
  is_waiting: boolean;
  n: number;
  failures: number;
  paused_reason: string;
  last_agent: string | null;
  last_follow_up: string;
  document: Document;
  now: string;
  is_closed: boolean;
}

const read = `s.tenant, s.name, s.scheduled_at, s.spawn_id, s.is_waiting, s.n, s.failures, s.paused_reason,
  s.last_agent, s.last_follow_up, r.document, clock_timestamp() AS now,
  (SELECT closed_at IS NOT NULL FROM tenants WHERE id = s.tenant) AS is_closed`;
const withDocument =
  "r.tenant = s.tenant AND r.kind = 'schedule' AND r.name = s.name AND r.document IS NOT NULL";

/** Before a fire has an effect: the agent that it may spawn is the same in every attempt. */
export const beginFire = statement<[...Key, spawnId: string], ScheduleRow>(
  'begin-fire',
  `UPDATE schedules s SET spawn_id = coalesce(s.spawn_id, $3) FROM resources r
   WHERE s.tenant = $1 AND s.name = $2 AND s.scheduled_at IS NOT NULL AND ${withDocument} RETURNING ${read}`,
);

export const readSchedule = statement<Key, ScheduleRow>(
  'read-schedule',
  `SELECT ${read} FROM schedules s JOIN resources r ON ${withDocument} WHERE s.tenant = $1 AND s.name = $2`,
);

/** Of a schedule whose document is written. What is not given stays; it is not paused any more. */
export const saveSchedule = statement<[...Key, scheduledAt: string | null, nextAt: string | null], never>(
  'save-schedule',
  `INSERT INTO schedules AS s (tenant, name, scheduled_at, next_at) VALUES ($1, $2, $3, $4)
   ON CONFLICT (tenant, name) DO UPDATE SET scheduled_at = $3, next_at = $4, claims = 0, spawn_id = NULL,
     is_waiting = false, failures = 0, paused_reason = ''`,
);

export const deleteSchedule = statement<Key, never>(
  'delete-schedule',
  'DELETE FROM schedules WHERE tenant = $1 AND name = $2',
);

/** It is looked at again later. `isWaiting` says that its work waits for an agent. */
export const postponeFire = statement<
  [...Key, scheduledAt: string, delayMs: number, isWaiting: boolean],
  never
>(
  'postpone-fire',
  `UPDATE schedules SET next_at = now() + make_interval(secs => $4 / 1000.0), is_waiting = $5
   WHERE tenant = $1 AND name = $2 AND scheduled_at = $3`,
);

export interface NewFire {
  readonly tenant: number;
  readonly schedule: string;
  readonly scheduledAt: string;
  readonly outcome: ScheduleFire['outcome'];
  readonly reason: string;
  readonly times: number;
  readonly manual: boolean;
  readonly agent: string | null;
  readonly followUpId: string;
}

type FireColumns = [
  scheduledAt: string,
  outcome: string,
  reason: string,
  times: number,
  manual: boolean,
  agent: string | null,
  followUpId: string,
];

const insertFire = statement<[...Key, ...FireColumns], { at: string }>(
  'insert-fire',
  `WITH old AS (
     DELETE FROM schedule_fires WHERE tenant = $1 AND schedule = $2 AND at < (
       SELECT f.at FROM schedule_fires f WHERE f.tenant = $1 AND f.schedule = $2
       ORDER BY f.at DESC OFFSET ${limits.firesPerSchedule - 1} LIMIT 1)
   )
   INSERT INTO schedule_fires
     (tenant, schedule, scheduled_at, outcome, reason, times, manual, agent, follow_up_id, at)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, date_trunc('milliseconds', clock_timestamp()))
   ON CONFLICT DO NOTHING RETURNING at`,
);

/** Undefined if there is an entry about this time already. The oldest entries make room for it. */
export async function recordFire(connection: Connection, fire: NewFire): Promise<string | undefined> {
  const { tenant, schedule, scheduledAt, outcome, reason, times, manual, agent, followUpId } = fire;
  const columns = [scheduledAt, outcome, reason, times, manual, agent, followUpId] as const;
  return (await insertFire(connection, tenant, schedule, ...columns))[0]?.at;
}

/**
 * The fire of one scheduled time is over, and the next time follows. Of a schedule that was written or fired meanwhile,
 * nothing changes.
 */
export const advanceSchedule = statement<
  [
    ...Key,
    from: string,
    scheduledAt: string | null,
    nextAt: string | null,
    failures: number,
    pausedReason: string,
  ],
  { name: string }
>(
  'advance-schedule',
  `UPDATE schedules SET scheduled_at = $4, next_at = $5, failures = $6, paused_reason = $7, spawn_id = NULL,
     is_waiting = false, claims = 0
   WHERE tenant = $1 AND name = $2 AND scheduled_at = $3 RETURNING name`,
);

/** The newest fire that had an effect. An agent that was spawned is counted. */
export const noteEffect = statement<[...Key, agent: string | null, followUpId: string], never>(
  'note-effect',
  `UPDATE schedules SET last_agent = $3, last_follow_up = $4, n = n + CASE WHEN $4 = '' THEN 1 ELSE 0 END
   WHERE tenant = $1 AND name = $2`,
);

export interface FireRow {
  scheduled_at: string;
  at: string;
  outcome: ScheduleFire['outcome'];
  reason: string;
  times: number;
  manual: boolean;
  follow_up_id: string;
  owner_provider: Provider | null;
  account: string | null;
  workspace: string | null;
  path: string | null;
}

const shown = `f.scheduled_at, f.at, f.outcome, f.reason, f.times, f.manual, f.follow_up_id,
  a.owner_provider, a.account, a.workspace, a.path`;

/** Newest first, behind the given one. */
export const listFires = statement<[...Key, at: string, scheduledAt: string, limit: number], FireRow>(
  'list-fires',
  `SELECT ${shown} FROM schedule_fires f LEFT JOIN agents a ON a.tenant = f.tenant AND a.id = f.agent
   WHERE f.tenant = $1 AND f.schedule = $2 AND (f.at, f.scheduled_at) < ($3, $4)
   ORDER BY f.at DESC, f.scheduled_at DESC LIMIT $5`,
);

export interface ShownSchedule {
  name: string;
  /** Null: it does not fire. */
  scheduled_at: string | null;
  paused_reason: string;
  at: string | null;
  outcome: ScheduleFire['outcome'] | null;
  reason: string | null;
}

/** What readers of a document see beside it. */
export const readShownSchedules = statement<[tenant: number, names: string[]], ShownSchedule>(
  'read-shown-schedules',
  `SELECT s.name, s.scheduled_at, s.paused_reason, f.at, f.outcome, f.reason
   FROM unnest($2::text[]) AS q (name)
   JOIN schedules s ON s.tenant = $1 AND s.name = q.name
   LEFT JOIN LATERAL (
     SELECT f.at, f.outcome, f.reason FROM schedule_fires f
     WHERE f.tenant = $1 AND f.schedule = s.name ORDER BY f.at DESC, f.scheduled_at DESC LIMIT 1
   ) f ON true`,
);

export interface BusyRow {
  phase: Phase;
  reason: PhaseReason;
  run_count: number;
  /** Of the given message; null if there is none. */
  follow_up: string | null;
  /** Whether the new message is there already. */
  is_told: boolean;
}

/** What an agent does, and what became of the message of the fire before. */
export const readBusy = statement<
  [tenant: number, agent: string, lastFollowUp: string, followUpId: string],
  BusyRow
>(
  'read-busy',
  `SELECT a.phase, a.reason, a.run_count, l.state AS follow_up, f.id IS NOT NULL AS is_told
   FROM agents a
   LEFT JOIN follow_ups l ON l.tenant = a.tenant AND l.agent = a.id AND l.id = $3
   LEFT JOIN follow_ups f ON f.tenant = a.tenant AND f.agent = a.id AND f.id = $4
   WHERE a.tenant = $1 AND a.id = $2`,
);

export const deleteOldFires = statement<[days: number, most: number], { deleted: number }>(
  'delete-old-fires',
  `WITH old AS (
     SELECT tenant, schedule, scheduled_at FROM schedule_fires
     WHERE at < now() - make_interval(days => $1) ORDER BY at LIMIT $2
   ), deleted AS (
     DELETE FROM schedule_fires f USING old
     WHERE f.tenant = old.tenant AND f.schedule = old.schedule AND f.scheduled_at = old.scheduled_at
     RETURNING f.tenant
   )
   SELECT count(*)::int AS deleted FROM deleted`,
);

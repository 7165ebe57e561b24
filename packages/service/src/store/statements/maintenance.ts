import type { AgentKey } from '../agent-store.ts';
import { statement } from '../connection.ts';

/** Takes or renews the lease of maintenance. No row: another node has it. */
export const takeMaintenance = statement<[holder: string, leaseMs: number], { history_until: string }>(
  'take-maintenance',
  `UPDATE maintenance SET holder = $1, lease_until = now() + make_interval(secs => $2 / 1000.0)
   WHERE holder = $1 OR lease_until < now() RETURNING history_until::text`,
);

export const releaseMaintenance = statement<[holder: string], never>(
  'release-maintenance',
  `UPDATE maintenance SET lease_until = '-infinity' WHERE holder = $1`,
);

/**
 * Tables that have doubled since they were last analyzed: plans that were made for few rows do not fit many. Rows that only
 * change do not count, because every connection plans its statements again after an ANALYZE.
 */
export const findGrownTables = statement<[], { name: string }>(
  'find-grown-tables',
  `SELECT quote_ident(s.relname) AS name FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
   WHERE s.schemaname = current_schema() AND s.n_live_tup > 50 AND s.n_live_tup > 2 * c.reltuples`,
);

/** Deletes some of the replies that are too old to count. */
export const deleteOldReplies = statement<[maxAgeHours: number, most: number], { deleted: number }>(
  'delete-old-replies',
  `WITH old AS (
     SELECT tenant, key_id, key FROM replies WHERE created_at <= now() - make_interval(hours => $1)
     ORDER BY created_at LIMIT $2
   ), deleted AS (
     DELETE FROM replies r USING old WHERE r.tenant = old.tenant AND r.key_id = old.key_id AND r.key = old.key
     RETURNING r.key
   )
   SELECT count(*)::int AS deleted FROM deleted`,
);

/** The database's time a number of days ago. */
export const readTimeAgo = statement<[days: number], { then: string }>(
  'read-time-ago',
  'SELECT now() - make_interval(days => $1) AS then',
);

export interface OldAgent extends AgentKey {
  ended_at: string;
}

/**
 * The next agents, by tenant and end, that ended before the time `until` and whose history is not deleted yet: those of
 * the first tenant that ended at the given time or later, and those of the tenants after it.
 */
export const findOldAgents = statement<
  [tenant: number, endedAt: string, from: string, until: string, most: number],
  OldAgent
>(
  'find-old-agents',
  `SELECT a.tenant, a.id, a.ended_at FROM tenants t CROSS JOIN LATERAL (
     SELECT a.tenant, a.id, a.ended_at FROM agents a
     WHERE a.tenant = t.id AND a.ended_at >= CASE t.id WHEN $1 THEN $2::timestamptz ELSE $3::timestamptz END
       AND a.ended_at < $4 AND NOT a.history_deleted
     ORDER BY a.ended_at LIMIT $5
   ) a WHERE t.id >= $1 ORDER BY t.id, a.ended_at LIMIT $5`,
);

/** Live agents with more entries than are kept, and the last entry that is too many. */
export const findLongTimelines = statement<[keptEntries: number], AgentKey & { last: number }>(
  'find-long-timelines',
  `SELECT a.tenant, a.id, a.sequence - $1 AS last FROM tenants t
   JOIN agents a ON a.tenant = t.id AND a.is_root IN (true, false) AND a.is_live AND a.current AND a.sequence > $1`,
);

/**
 * Messages that were delivered, removed or cleared lose their text and tasks together with the entry that admitted them.
 * The rest stays, so that a known id is still known.
 */
const clearTexts = (entries: string): string =>
  `UPDATE follow_ups f SET description = '', tasks = '[]', attachment_ids = NULL,
     change = ((f.change::jsonb - 'outputSchema') #- '{persona,instructions}' #- '{persona,tasks}')::json
   FROM ${entries} e
   WHERE e.text IS NULL AND f.tenant = e.tenant AND f.agent = e.agent AND f.id = e.follow_up_id
     AND f.sequence = e.sequence AND f.state NOT IN ('QUEUED', 'DEFERRED')`;

/** Deletes the entries `old` of a table, and what belongs to them. */
const deletedEntries = (table: string): string => `deleted AS (
     DELETE FROM ${table} t USING old
     WHERE t.tenant = old.tenant AND t.agent = old.agent AND t.sequence = old.sequence AND t.at = old.at
     RETURNING t.tenant, t.agent, t.sequence, t.follow_up_id, t.text
   ), texts AS (${clearTexts('deleted')})
   SELECT count(*)::int AS deleted FROM deleted`;

/** Deletes some entries of an agent, oldest first, up to this one. */
export const deleteEntries = statement<
  [tenant: number, agent: string, last: number, most: number],
  { deleted: number }
>(
  'delete-entries',
  `WITH old AS (
     SELECT tenant, agent, sequence, at FROM timeline
     WHERE tenant = $1 AND agent = $2 AND sequence <= $3 ORDER BY sequence LIMIT $4
   ), ${deletedEntries('timeline')}`,
);

/** Of agents that ended long ago: the keys, and the time before which they ended. */
type Ended = [tenants: readonly number[], agents: readonly string[], endedBefore: string];

/** These agents, locked, if they ended before: one that was reopened meanwhile keeps what it has. */
const ended = `ended AS (
     SELECT a.tenant, a.id, a.created_at FROM unnest($1::int[], $2::uuid[]) AS q (tenant, id)
     JOIN agents a ON a.tenant = q.tenant AND a.id = q.id WHERE a.ended_at < $3 FOR UPDATE OF a
   )`;

/** Deletes some entries of these agents. Not in order: for that, all entries of a long timeline were sorted each time. */
export const deleteHistories = statement<[...Ended, most: number], { deleted: number }>(
  'delete-histories',
  `WITH ${ended}, old AS (
     SELECT t.tenant, t.agent, t.sequence, t.at FROM ended e CROSS JOIN LATERAL (
       SELECT t.tenant, t.agent, t.sequence, t.at FROM timeline t
       WHERE t.tenant = e.tenant AND t.agent = e.id AND t.at >= e.created_at LIMIT $4
     ) t LIMIT $4
   ), ${deletedEntries('timeline')}`,
);

const clearedResults = `cleared AS (
     UPDATE runs r SET response = NULL, structured_output = NULL FROM old
     WHERE r.tenant = old.tenant AND r.agent = old.agent AND r.number = old.number RETURNING r.number
   )
   SELECT count(*)::int AS deleted FROM cleared`;

/** Clears what some runs of these agents said and produced. */
export const clearRunResults = statement<[...Ended, most: number], { deleted: number }>(
  'clear-run-results',
  `WITH ${ended}, old AS (
     SELECT r.tenant, r.agent, r.number FROM ended e JOIN runs r ON r.tenant = e.tenant AND r.agent = e.id
     WHERE r.response IS NOT NULL OR r.structured_output IS NOT NULL LIMIT $4
   ), ${clearedResults}`,
);

/** Live agents with more runs than keep their results, and the last run that is too many. */
export const findManyRuns = statement<[keptRuns: number], AgentKey & { last: number }>(
  'find-many-runs',
  `SELECT a.tenant, a.id, a.run_count - $1::int AS last FROM tenants t
   JOIN agents a ON a.tenant = t.id AND a.is_root IN (true, false) AND a.is_live AND a.current AND a.run_count > $1
   WHERE EXISTS (SELECT FROM runs r
     WHERE r.tenant = a.tenant AND r.agent = a.id AND r.number <= a.run_count - $1
       AND (r.response IS NOT NULL OR r.structured_output IS NOT NULL))`,
);

/** Clears what some runs of an agent said and produced, oldest first, up to this one. */
export const clearOldRunResults = statement<
  [tenant: number, agent: string, last: number, most: number],
  { deleted: number }
>(
  'clear-old-run-results',
  `WITH old AS (
     SELECT tenant, agent, number FROM runs
     WHERE tenant = $1 AND agent = $2 AND number <= $3 AND (response IS NOT NULL OR structured_output IS NOT NULL)
     ORDER BY number LIMIT $4
   ), ${clearedResults}`,
);

/** Deletes one checkpoint of these agents: it may be large. */
export const deleteCheckpoint = statement<Ended, { deleted: number }>(
  'delete-checkpoint',
  `WITH ${ended}, one AS (
     SELECT c.tenant, c.agent, c.id FROM ended e JOIN checkpoints c ON c.tenant = e.tenant AND c.agent = e.id LIMIT 1
   ), deleted AS (
     DELETE FROM checkpoints c USING one WHERE c.tenant = one.tenant AND c.agent = one.agent AND c.id = one.id
     RETURNING c.id
   )
   SELECT count(*)::int AS deleted FROM deleted`,
);

/** Deletes some attachments of these agents. */
export const deleteAttachments = statement<[...Ended, most: number], { deleted: number }>(
  'delete-attachments',
  `WITH ${ended}, old AS (
     SELECT t.tenant, t.agent, t.id FROM ended e JOIN attachments t ON t.tenant = e.tenant AND t.agent = e.id LIMIT $4
   ), deleted AS (
     DELETE FROM attachments t USING old WHERE t.tenant = old.tenant AND t.agent = old.agent AND t.id = old.id
     RETURNING t.id
   )
   SELECT count(*)::int AS deleted FROM deleted`,
);

/** The end of deleting these agents' histories, unless they were reopened meanwhile. */
export const finishAgents = statement<Ended, never>(
  'finish-agents',
  `WITH old AS (
     UPDATE agents a SET history_deleted = true, checkpoint_at = NULL
     FROM unnest($1::int[], $2::uuid[]) AS q (tenant, id)
     WHERE a.tenant = q.tenant AND a.id = q.id AND a.ended_at < $3 RETURNING a.tenant, a.id
   ), threads AS (
     DELETE FROM threads t USING old WHERE t.tenant = old.tenant AND t.agent = old.id
   ), marks AS (
     DELETE FROM agent_marks m USING old WHERE m.tenant = old.tenant AND m.agent = old.id
   )
   DELETE FROM diffs d USING old WHERE d.tenant = old.tenant AND d.agent = old.id`,
);

/** Resolved threads that are not needed: a thread of an open change request is compared with its host. */
const settledThread = `t.state = 'RESOLVED' AND t.answer <> 'PENDING' AND NOT EXISTS (
       SELECT FROM change_requests c
       WHERE c.tenant = t.tenant AND c.name = t.change_request AND c.state IN ('OPEN', 'DRAFT'))`;

/** Agents with more of them than are kept. */
export const findManyThreads = statement<[kept: number], AgentKey>(
  'find-many-threads',
  `SELECT t.tenant, t.agent AS id FROM threads t WHERE ${settledThread}
   GROUP BY t.tenant, t.agent HAVING count(*) > $1`,
);

/** Deletes some of an agent's, oldest first, beyond those that are kept. Threads change only under the agent's lock. */
export const deleteOldThreads = statement<
  [tenant: number, agent: string, kept: number, most: number],
  { deleted: number }
>(
  'delete-old-threads',
  `WITH locked AS (
     SELECT a.tenant, a.id FROM agents a WHERE a.tenant = $1 AND a.id = $2 FOR UPDATE
   ), old AS (
     SELECT t.tenant, t.agent, t.id FROM locked a JOIN threads t ON t.tenant = a.tenant AND t.agent = a.id
     WHERE ${settledThread} ORDER BY t.created_at DESC, t.id OFFSET $3 LIMIT $4
   ), deleted AS (
     DELETE FROM threads t USING old WHERE t.tenant = old.tenant AND t.agent = old.agent AND t.id = old.id
     RETURNING t.id
   )
   SELECT count(*)::int AS deleted FROM deleted`,
);

/** The history of all agents that ended in this time is deleted; an import may have added older ones meanwhile. */
export const finishHistories = statement<[from: string, until: string], never>(
  'finish-histories',
  'UPDATE maintenance SET history_until = $2 WHERE history_until = $1',
);

export interface EntryKey {
  tenant: number;
  agent: string;
  sequence: number;
}

/** Before a partition is dropped: clears the texts of messages that the next entries admitted; returns the last of them. */
export const clearTextsIn = (partition: string) =>
  statement<[...after: [tenant: number, agent: string, sequence: number], most: number], EntryKey>(
    `clear-texts-in-${partition}`,
    `WITH entries AS MATERIALIZED (
       SELECT tenant, agent, sequence, follow_up_id, text FROM ${partition}
       WHERE (tenant, agent, sequence) > ($1, $2, $3) ORDER BY tenant, agent, sequence LIMIT $4
     ), texts AS (${clearTexts('entries')})
     SELECT tenant, agent, sequence FROM entries ORDER BY tenant DESC, agent DESC, sequence DESC LIMIT 1`,
  );

/** Imported entries that are older than every partition. */
export const deleteFromDefault = statement<[before: string, most: number], { deleted: number }>(
  'delete-from-default',
  `WITH old AS (
     SELECT tenant, agent, sequence, at FROM timeline_default WHERE at < $1 LIMIT $2
   ), ${deletedEntries('timeline_default')}`,
);

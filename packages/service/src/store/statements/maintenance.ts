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

/** Tables that have doubled since they were last analyzed: plans that were made for few rows do not fit many. */
export const findGrownTables = statement<[], { name: string }>(
  'find-grown-tables',
  `SELECT quote_ident(s.relname) AS name FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
   WHERE s.n_mod_since_analyze > 500 AND s.n_mod_since_analyze > c.reltuples`,
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

/** The database's time so many days ago. */
export const readTimeAgo = statement<[days: number], { then: string }>(
  'read-time-ago',
  'SELECT now() - make_interval(days => $1) AS then',
);

/** Some agents that ended in this time and whose history is not deleted yet. */
export const findOldAgents = statement<[from: string, until: string, most: number], AgentKey>(
  'find-old-agents',
  `SELECT a.tenant, a.id FROM tenants t
   JOIN agents a ON a.tenant = t.id AND a.ended_at >= $1 AND a.ended_at < $2 AND NOT a.history_deleted LIMIT $3`,
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
  `UPDATE follow_ups f SET description = '', tasks = '[]',
     change = ((f.change::jsonb - 'outputSchema') #- '{persona,instructions}' #- '{persona,tasks}')::json
   FROM ${entries} e
   WHERE e.text IS NULL AND f.tenant = e.tenant AND f.agent = e.agent AND f.id = e.follow_up_id
     AND f.sequence = e.sequence AND f.state NOT IN ('QUEUED', 'DEFERRED')`;

/** The agent, locked, if it ended before the time `$3`: one that was reopened meanwhile keeps what it has. */
const ended = 'SELECT id FROM agents WHERE tenant = $1 AND id = $2 AND ended_at < $3 FOR UPDATE';

/** Deletes some entries of an agent, oldest first, up to this one; with a time only if the agent ended before. */
export const deleteEntries = statement<
  [tenant: number, agent: string, endedBefore: string | null, last: number, most: number],
  { deleted: number }
>(
  'delete-entries',
  `WITH ended AS (${ended}), old AS (
     SELECT sequence, at FROM timeline
     WHERE tenant = $1 AND agent = $2 AND sequence <= $4 AND ($3::timestamptz IS NULL OR EXISTS (SELECT FROM ended))
     ORDER BY sequence LIMIT $5
   ), deleted AS (
     DELETE FROM timeline t USING old
     WHERE t.tenant = $1 AND t.agent = $2 AND t.sequence = old.sequence AND t.at = old.at
     RETURNING t.tenant, t.agent, t.sequence, t.follow_up_id, t.text
   ), texts AS (${clearTexts('deleted')})
   SELECT count(*)::int AS deleted FROM deleted`,
);

/** Clears what some runs of an agent said and produced. */
export const clearRunResults = statement<
  [tenant: number, agent: string, endedBefore: string, most: number],
  { deleted: number }
>(
  'clear-run-results',
  `WITH ended AS (${ended}), old AS (
     SELECT number FROM runs
     WHERE tenant = $1 AND agent = $2 AND EXISTS (SELECT FROM ended)
       AND (response IS NOT NULL OR structured_output IS NOT NULL) LIMIT $4
   ), cleared AS (
     UPDATE runs r SET response = NULL, structured_output = NULL FROM old
     WHERE r.tenant = $1 AND r.agent = $2 AND r.number = old.number RETURNING r.number
   )
   SELECT count(*)::int AS deleted FROM cleared`,
);

/** Deletes one checkpoint of an agent. */
export const deleteCheckpoint = statement<
  [tenant: number, agent: string, endedBefore: string],
  { deleted: number }
>(
  'delete-checkpoint',
  `WITH ended AS (${ended}), deleted AS (
     DELETE FROM checkpoints WHERE tenant = $1 AND agent = $2 AND EXISTS (SELECT FROM ended) AND id = (
       SELECT id FROM checkpoints WHERE tenant = $1 AND agent = $2 LIMIT 1) RETURNING id
   )
   SELECT count(*)::int AS deleted FROM deleted`,
);

/** The end of deleting an agent's history, unless it was reopened meanwhile. */
export const finishHistory = statement<[tenant: number, agent: string, endedBefore: string], never>(
  'finish-history',
  `WITH old AS (
     UPDATE agents SET history_deleted = true, checkpoint_at = NULL
     WHERE tenant = $1 AND id = $2 AND ended_at < $3 RETURNING tenant, id
   )
   DELETE FROM diffs d USING old WHERE d.tenant = old.tenant AND d.agent = old.id`,
);

export const finishHistories = statement<[until: string], never>(
  'finish-histories',
  'UPDATE maintenance SET history_until = greatest(history_until, $1)',
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
   ), deleted AS (
     DELETE FROM timeline_default t USING old
     WHERE t.tenant = old.tenant AND t.agent = old.agent AND t.sequence = old.sequence AND t.at = old.at
     RETURNING t.tenant, t.agent, t.sequence, t.follow_up_id, t.text
   ), texts AS (${clearTexts('deleted')})
   SELECT count(*)::int AS deleted FROM deleted`,
);

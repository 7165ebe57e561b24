import type { EntryType } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

export interface TimelineRow {
  sequence: number;
  at: string;
  run: number;
  type: EntryType;
  follow_up_id: string;
  text: string;
  data: Record<string, unknown>;
}

const columns = 'sequence, at, run, type, follow_up_id, text, data';
type Range = [tenant: number, agent: string, sequence: number, limit: number];

/** The entries after one, oldest first. */
export const readTimelineAfter = statement<Range, TimelineRow>(
  'read-timeline-after',
  `SELECT ${columns} FROM timeline
   WHERE tenant = $1 AND agent = $2 AND sequence > $3 ORDER BY sequence LIMIT $4`,
);

/** The entries just before one, newest first. */
export const readTimelineBefore = statement<Range, TimelineRow>(
  'read-timeline-before',
  `SELECT ${columns} FROM timeline
   WHERE tenant = $1 AND agent = $2 AND sequence < $3 ORDER BY sequence DESC LIMIT $4`,
);

/** Takes away what is kept of agents that ended long ago, a few agents at a time, and says which. */
export const deleteOldHistory = statement<[days: number, agents: number], { id: string }>(
  'delete-old-history',
  `WITH old AS (
     SELECT tenant, id, sequence FROM agents
     WHERE ended_at < now() - make_interval(days => $1) AND ended_at IS NOT NULL AND NOT swept
     ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
   ), entries AS (
     DELETE FROM timeline t USING old WHERE t.tenant = old.tenant AND t.agent = old.id
   ), archives AS (
     DELETE FROM sessions s USING old WHERE s.tenant = old.tenant AND s.agent = old.id
   ), texts AS (
     DELETE FROM diffs d USING old WHERE d.tenant = old.tenant AND d.agent = old.id
   )
   UPDATE agents a SET first_sequence = old.sequence + 1, swept = true
   FROM old WHERE a.tenant = old.tenant AND a.id = old.id
   RETURNING a.id`,
);

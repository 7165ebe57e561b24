import type { EntryType } from '@muster/sdk/contract';
import { type Connection, statement } from '../connection.ts';

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
type Range = [
  tenant: number,
  agent: string,
  sequence: number,
  limit: number,
  types: readonly EntryType[] | null,
];
/** Without types: of all. */
const ofTypes = '($5::text[] IS NULL OR type = ANY ($5))';

const readAfter = statement<Range, TimelineRow>(
  'read-timeline-after',
  `SELECT ${columns} FROM timeline
   WHERE tenant = $1 AND agent = $2 AND sequence > $3 AND ${ofTypes} ORDER BY sequence LIMIT $4`,
);
const readBefore = statement<Range, TimelineRow>(
  'read-timeline-before',
  `SELECT ${columns} FROM timeline
   WHERE tenant = $1 AND agent = $2 AND sequence < $3 AND ${ofTypes} ORDER BY sequence DESC LIMIT $4`,
);

/** Few among many, and asked for by pages that show nothing else: these have an index. */
const milestones: readonly EntryType[] = ['RUN_STARTED', 'PUSH'];
const areMilestones = (types: Range[4]): boolean =>
  types?.every((type) => milestones.includes(type)) ?? false;
const ofMilestones = `tenant + 0 = $1 AND agent = $2 AND type = ANY ($5::text[])
   AND type IN (${milestones.map((type) => `'${type}'`).join(', ')})`;

const readMilestonesAfter = statement<Range, TimelineRow>(
  'read-milestones-after',
  `SELECT ${columns} FROM timeline WHERE ${ofMilestones} AND sequence > $3 ORDER BY sequence LIMIT $4`,
);
const readMilestonesBefore = statement<Range, TimelineRow>(
  'read-milestones-before',
  `SELECT ${columns} FROM timeline WHERE ${ofMilestones} AND sequence < $3 ORDER BY sequence DESC LIMIT $4`,
);

/** The entries after one, oldest first. */
export const readTimelineAfter = (connection: Connection, ...range: Range): Promise<TimelineRow[]> =>
  (areMilestones(range[4]) ? readMilestonesAfter : readAfter)(connection, ...range);

/** The entries just before one, newest first. */
export const readTimelineBefore = (connection: Connection, ...range: Range): Promise<TimelineRow[]> =>
  (areMilestones(range[4]) ? readMilestonesBefore : readBefore)(connection, ...range);

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

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
  mostBytes: number,
];

/**
 * A page of entries, at least one if there is any; it ends early where their bytes would be too many. `found` counts one
 * more than wanted, to tell whether there is another page. What does not fit never leaves the database.
 */
const readPage = (name: string, conditions: string, order: string) =>
  statement<Range, TimelineRow & { found: number }>(
    name,
    `SELECT ${columns}, found FROM (
       SELECT e.*, count(*) OVER () AS found, row_number() OVER w AS place, sum(bytes) OVER w AS total FROM (
         SELECT ${columns}, octet_length(text) + octet_length(data::text) AS bytes FROM timeline
         WHERE ${conditions} ORDER BY ${order} LIMIT $4 + 1
       ) e WINDOW w AS (ORDER BY ${order})
     ) e WHERE place <= $4 AND (total <= $6 OR place = 1) ORDER BY ${order}`,
  );

/** Without types: of all. */
const ofAgent = 'tenant = $1 AND agent = $2 AND ($5::text[] IS NULL OR type = ANY ($5))';
const readAfter = readPage('read-timeline-after', `${ofAgent} AND sequence > $3`, 'sequence');
const readBefore = readPage('read-timeline-before', `${ofAgent} AND sequence < $3`, 'sequence DESC');

/** Few among many, and asked for by pages that show nothing else: these have an index. */
const milestones: readonly EntryType[] = ['RUN_STARTED', 'PUSH'];
const areMilestones = (types: Range[4]): boolean =>
  types?.every((type) => milestones.includes(type)) ?? false;
const ofMilestones = `tenant + 0 = $1 AND agent = $2 AND type = ANY ($5::text[])
   AND type IN (${milestones.map((type) => `'${type}'`).join(', ')})`;
const readMilestonesAfter = readPage(
  'read-milestones-after',
  `${ofMilestones} AND sequence > $3`,
  'sequence',
);
const readMilestonesBefore = readPage(
  'read-milestones-before',
  `${ofMilestones} AND sequence < $3`,
  'sequence DESC',
);

/** The entries after one, oldest first. */
export const readTimelineAfter = (connection: Connection, ...range: Range) =>
  (areMilestones(range[4]) ? readMilestonesAfter : readAfter)(connection, ...range);

/** The entries just before one, newest first. */
export const readTimelineBefore = (connection: Connection, ...range: Range) =>
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

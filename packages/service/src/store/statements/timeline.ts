import type { EntryType } from '@muster/sdk/contract';
import { type Connection, statement } from '../connection.ts';
import { boundedPage } from './shared-sql.ts';

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

const readPage = (name: string, conditions: string, order: string) =>
  statement<Range, TimelineRow & { found: number }>(
    name,
    boundedPage({
      rows: `SELECT ${columns} FROM timeline WHERE ${conditions} ORDER BY ${order} LIMIT $4 + 1`,
      bytes: 'octet_length(text) + octet_length(data::text)',
      order,
      limit: '$4',
      mostBytes: '$6',
    }),
  );

const readPages = (name: string, conditions: string) => ({
  after: readPage(`${name}-after`, `${conditions} AND sequence > $3`, 'sequence'),
  before: readPage(`${name}-before`, `${conditions} AND sequence < $3`, 'sequence DESC'),
});

/** Without types: of all. */
const readEntries = readPages(
  'read-timeline',
  'tenant = $1 AND agent = $2 AND ($5::text[] IS NULL OR type = ANY ($5))',
);

/** Few among many, and asked for by pages that show nothing else: these have an index. */
const milestones: readonly EntryType[] = ['RUN_STARTED', 'PUSH'];
const readMilestones = readPages(
  'read-milestones',
  `tenant + 0 = $1 AND agent = $2 AND type = ANY ($5::text[])
   AND type IN (${milestones.map((type) => `'${type}'`).join(', ')})`,
);

/** The entries after one, oldest first; or those just before one, newest first. */
export function readTimeline(connection: Connection, side: 'after' | 'before', ...range: Range) {
  const areMilestones = range[4]?.every((type) => milestones.includes(type));
  return (areMilestones ? readMilestones : readEntries)[side](connection, ...range);
}

/**
 * Deletes the history of agents that ended long ago: of so many agents, at most so many entries together, oldest
 * first, and no more checkpoints once so many bytes of them are gone, so that the statement is always short. Returns the agents it worked on; an agent is done with its last entry.
 */
export const deleteOldHistory = statement<
  [days: number, agents: number, entries: number, checkpointBytes: number],
  { id: string; swept: boolean }
>(
  'delete-old-history',
  `WITH old AS (
     SELECT tenant, id, sequence, ended_at FROM agents
     WHERE ended_at < now() - make_interval(days => $1) AND ended_at IS NOT NULL AND NOT swept
     ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
   ), chosen AS (
     SELECT t.* FROM old CROSS JOIN LATERAL (
       SELECT t.tenant, t.agent, t.sequence FROM timeline t
       WHERE t.tenant = old.tenant AND t.agent = old.id ORDER BY t.sequence LIMIT $3 OFFSET 0
     ) t LIMIT $3
   ), entries AS (
     DELETE FROM timeline t USING chosen s
     WHERE t.tenant = s.tenant AND t.agent = s.agent AND t.sequence = s.sequence
   ), sizes AS (
     SELECT old.id, sum(c.bytes) OVER (ORDER BY old.ended_at, old.id) - c.bytes AS bytes_before
     FROM old CROSS JOIN LATERAL (
       SELECT coalesce(sum(c.bytes), 0) AS bytes FROM checkpoints c WHERE c.tenant = old.tenant AND c.agent = old.id
     ) c
   ), done AS (
     SELECT old.tenant, old.id, coalesce(s.last, 0) AS last, sizes.bytes_before <= $4 AND NOT EXISTS (
       SELECT FROM timeline t
       WHERE t.tenant = old.tenant AND t.agent = old.id AND t.sequence > coalesce(s.last, 0)
     ) AS swept, old.sequence
     FROM old JOIN sizes ON sizes.id = old.id
     LEFT JOIN (SELECT agent, max(sequence) AS last FROM chosen GROUP BY agent) s ON s.agent = old.id
   ), archives AS (
     DELETE FROM checkpoints c USING done WHERE c.tenant = done.tenant AND c.agent = done.id AND done.swept
   ), texts AS (
     DELETE FROM diffs d USING done WHERE d.tenant = done.tenant AND d.agent = done.id AND done.swept
   )
   UPDATE agents a SET swept = done.swept,
     checkpoint_at = CASE WHEN NOT done.swept THEN a.checkpoint_at END,
     first_sequence = CASE WHEN done.swept THEN done.sequence + 1 ELSE greatest(a.first_sequence, done.last + 1) END
   FROM done WHERE a.tenant = done.tenant AND a.id = done.id
   RETURNING a.id, a.swept`,
);

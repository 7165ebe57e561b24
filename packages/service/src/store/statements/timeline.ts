import type { EntryType } from '@muster/sdk/contract';
import { type Connection, statement } from '../connection.ts';
import { boundedPage, hasMore } from './shared-sql.ts';

export interface TimelineRow {
  sequence: number;
  at: string;
  run: number;
  type: EntryType;
  follow_up_id: string;
  text: string;
  data: Record<string, unknown>;
}

/** A description is stored once: with its agent or its follow-up. */
export const entryText = `coalesce(t.text, CASE t.type
    WHEN 'AGENT_SPAWNED' THEN (SELECT b.description FROM agent_briefs b WHERE b.tenant = t.tenant AND b.agent = t.agent)
    ELSE (SELECT f.description FROM follow_ups f
          WHERE f.tenant = t.tenant AND f.agent = t.agent AND f.id = t.follow_up_id) END, '')`;

export type Range = [
  tenant: number,
  agent: string,
  sequence: number,
  limit: number,
  types: readonly EntryType[] | null,
  mostBytes: number,
  /** When the agent was spawned: partitions from before are not looked into. */
  since: string,
];

const readPage = (name: string, conditions: string, order: string) =>
  statement<Range, TimelineRow & { found: number }>(
    name,
    boundedPage({
      rows: `SELECT t.sequence, t.at, t.run, t.type, t.follow_up_id, ${entryText} AS text, t.data
        FROM timeline t WHERE ${conditions} ORDER BY ${order} LIMIT $4 + 1`,
      bytes: 'octet_length(text) + octet_length(data::text)',
      order,
      limit: '$4',
      mostBytes: '$6',
    }),
  );

const ofAgent = 'tenant = $1 AND agent = $2 AND at >= $7';

const readPages = (name: string, conditions: string) => ({
  after: readPage(`${name}-after`, `${ofAgent} AND ${conditions} AND sequence > $3`, 'sequence'),
  before: readPage(`${name}-before`, `${ofAgent} AND ${conditions} AND sequence < $3`, 'sequence DESC'),
});

/** Without types: of all. */
const readEntries = readPages('read-timeline', '($5::text[] IS NULL OR type = ANY ($5))');

/** Few among many, and asked for by pages that show nothing else: these have an index. */
const milestones: readonly EntryType[] = ['RUN_STARTED', 'PUSH'];
const readMilestones = readPages(
  'read-milestones',
  `type = ANY ($5::text[]) AND type IN (${milestones.map((type) => `'${type}'`).join(', ')})`,
);

/** The entries after one, oldest first; or those just before one, newest first. */
export function readTimeline(connection: Connection, side: 'after' | 'before', ...range: Range) {
  const areMilestones = range[4]?.every((type) => milestones.includes(type));
  return (areMilestones ? readMilestones : readEntries)[side](connection, ...range);
}

/** A page, and after which of its entries the next one begins; null at the end. */
export interface TimelinePage {
  readonly rows: TimelineRow[];
  readonly next: number | null;
}

export const pageOfRows = (rows: (TimelineRow & { found: number })[]): TimelinePage => ({
  rows,
  next: hasMore(rows) ? (rows.at(-1)?.sequence ?? null) : null,
});

/** The oldest entry that is still kept; none if all were deleted. */
export const readFirstSequence = statement<
  [tenant: number, agent: string, since: string],
  { first: number | null }
>(
  'read-first-sequence',
  'SELECT min(sequence) AS first FROM timeline WHERE tenant = $1 AND agent = $2 AND at >= $3',
);

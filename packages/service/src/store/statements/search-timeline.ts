import { type EntryType, limits } from '@muster/sdk/contract';
import { type Connection, statement } from '../connection.ts';
import { boundedPage } from './shared-sql.ts';
import { entryText, pageOfRows, type Range, type TimelinePage, type TimelineRow } from './timeline.ts';

/**
 * Searching a timeline. There is no index of the texts: it would be larger than they are. So a page looks through a
 * bounded number of entries and bytes, and ends there even without a match; the next page continues behind it.
 */

/** The text of a delivered message is that of its follow-up. */
const searched = `CASE WHEN t.type = 'FOLLOW_UP_DELIVERED' THEN coalesce((
    SELECT f.description FROM follow_ups f WHERE f.tenant = t.tenant AND f.agent = t.agent AND f.id = t.follow_up_id), '')
  ELSE ${entryText} END`;

const isOfType = (types: string): string => `(${types}::text[] IS NULL OR t.type = ANY (${types}))`;

type EndRange = [
  tenant: number,
  agent: string,
  sequence: number,
  types: readonly EntryType[] | null,
  since: string,
];

/**
 * The last entry that a page looks at, and whether there are more. The length of a text is known without reading it, so
 * this is cheap even where texts are long.
 */
const searchEnd = (name: string, condition: string, order: string, last: 'min' | 'max') =>
  statement<EndRange, { last: number | null; more: boolean | null }>(
    name,
    `SELECT ${last}(sequence) FILTER (WHERE fits) AS last, bool_or(NOT fits) AS more FROM (
       SELECT sequence, place = 1 OR (place <= ${limits.searchedEntries} AND total <= ${limits.searchedBytes}) AS fits FROM (
         SELECT sequence, row_number() OVER w AS place, sum(bytes) OVER w AS total FROM (
           SELECT t.sequence, CASE WHEN ${isOfType('$4')} THEN octet_length(${searched}) ELSE 0 END AS bytes
           FROM timeline t WHERE t.tenant = $1 AND t.agent = $2 AND t.at >= $5 AND ${condition}
           ORDER BY ${order} LIMIT ${limits.searchedEntries} + 1
         ) t WINDOW w AS (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)
       ) t
     ) t`,
  );

const searchPage = (name: string, condition: string, order: string) =>
  statement<[...Range, last: number, pattern: string], TimelineRow & { found: number }>(
    name,
    boundedPage({
      rows: `SELECT t.sequence, t.at, t.run, t.type, t.follow_up_id, ${entryText} AS text, t.data
        FROM timeline t
        WHERE t.tenant = $1 AND t.agent = $2 AND t.at >= $7 AND ${condition} AND ${isOfType('$5')} AND ${searched} ~ $9
        ORDER BY ${order} LIMIT $4 + 1`,
      bytes: 'octet_length(text) + octet_length(data::text)',
      order,
      limit: '$4',
      mostBytes: '$6',
    }),
  );

const sides = {
  after: {
    end: searchEnd('search-end-after', 't.sequence > $3', 'sequence', 'max'),
    page: searchPage('search-after', 't.sequence > $3 AND t.sequence <= $8', 'sequence'),
  },
  before: {
    end: searchEnd('search-end-before', 't.sequence < $3', 'sequence DESC', 'min'),
    page: searchPage('search-before', 't.sequence < $3 AND t.sequence >= $8', 'sequence DESC'),
  },
};

/** The entries whose text contains this one, in upper or lower case, as `readTimeline`. */
export async function searchTimeline(
  connection: Connection,
  side: 'after' | 'before',
  text: string,
  ...range: Range
): Promise<TimelinePage> {
  const [tenant, agent, sequence, , types, , since] = range;
  const [end] = await sides[side].end(connection, tenant, agent, sequence, types, since);
  if (!end || end.last === null) return { rows: [], next: null };
  const { rows, next } = pageOfRows(await sides[side].page(connection, ...range, end.last, patternOf(text)));
  return { rows, next: next ?? (end.more ? end.last : null) };
}

/**
 * A regular expression for this text in upper or lower case. With ILIKE, a text such as `aaaab` takes quadratic time, and
 * in the locale C only English letters have another case.
 */
export const patternOf = (text: string): string => Array.from(text, characterPattern).join('');

function characterPattern(character: string): string {
  const cases = [character, character.toLowerCase(), character.toUpperCase()];
  // `ß` has two characters in upper case.
  const variants = [...new Set(cases)].filter((variant) => Array.from(variant).length === 1);
  if (variants.length > 1) return `[${variants.join('')}]`;
  return /[\w\s]|[^ -~]/.test(character) ? character : `\\${character}`;
}

import { phaseReasons, type ReasonRow, reasonRow } from '@muster/sdk/contract';

/** How much of its response an agent's parent sees. */
export const childResponseLength = 2000;

/** A list of the reasons with a property. */
export function sqlReasons(has: (row: ReasonRow) => boolean | undefined): string {
  return phaseReasons
    .filter((phaseReason) => has(reasonRow({ phaseReason })))
    .map((reason) => `'${reason}'`)
    .join(', ');
}

/** What it asked, or what has to be fixed; null while it waits for neither. */
export const needsInput = `CASE
    WHEN a.reason IN (${sqlReasons(({ needsInput }) => needsInput === 'question')}) THEN s.memory ->> 'question'
    WHEN a.reason IN (${sqlReasons(({ needsInput }) => needsInput === 'fix')}) 
      THEN coalesce(s.memory #>> '{budget,message}', s.memory ->> 'blocked') END`;

/**
 * That the path of an agent is below another path of the same tree. These paths are one range of the index over the
 * tree; `0` is the character after `/`.
 */
export const hasPathBelow = (agent: string, above: string): string =>
  `${agent}.path COLLATE "C" > ${above} || '/' AND ${agent}.path COLLATE "C" < ${above} || '0'`;

/** `PROVIDER_CODEHOST_OAUTH` and `ada` as `codehost_oauth/ada`. */
export const ownerName = (row: string): string =>
  `lower(substr(${row}.owner_provider, 10)) || '/' || ${row}.account`;

/** By id: an earlier agent of the same name may have left agents under the same path. */
export const isBelow = (agent: string, above: string): string => `${above} = ANY (${agent}.ancestors)`;

/** What all agents below `a` cost. */
export const childrenCost = `(
     SELECT sum(d.cost) FROM agents d
     WHERE d.root = a.root AND d.parent IS NOT NULL AND d.is_live IN (true, false) AND ${hasPathBelow('d', 'a.path')}
       AND d.tenant = a.tenant AND ${isBelow('d', 'a.id')}
   )`;

/**
 * A page of rows, at least one if there is any; it ends early where their bytes would be too many. `rows` selects one more
 * than `limit`: `found` counts that one, and so tells whether there is another page. What does not fit never leaves the
 * database.
 */
export const boundedPage = (page: {
  readonly rows: string;
  /** Of one row. */
  readonly bytes: string;
  readonly order: string;
  readonly limit: string;
  readonly mostBytes: string | number;
}): string => `SELECT * FROM (
     SELECT p.*, count(*) OVER () AS found, row_number() OVER w AS place, sum(${page.bytes}) OVER w AS total
     FROM (${page.rows}) p WINDOW w AS (ORDER BY ${page.order})
   ) p WHERE place <= ${page.limit} AND (total <= ${page.mostBytes} OR place = 1) ORDER BY ${page.order}`;

/** Whether there are more than these rows of a bounded page. */
export const hasMore = (rows: readonly { readonly found: number }[]): boolean =>
  (rows[0]?.found ?? 0) > rows.length;

/** Undelivered messages `f` that are to be added to the turn of the run `r`. The states are those of an index. */
export const isSteerOf = (f: string, r: string): string =>
  `${f}.tenant = ${r}.tenant AND ${f}.agent = ${r}.agent AND ${f}.state IN ('QUEUED', 'DEFERRED') AND ${f}.state = 'QUEUED'
     AND ${r}.state = 'RUNNING' AND ${f}.steer_batch = ${r}.batch`;

export const hasSteers = (r: string): string =>
  `EXISTS (SELECT FROM follow_ups f WHERE ${isSteerOf('f', r)})`;

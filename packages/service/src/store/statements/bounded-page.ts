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

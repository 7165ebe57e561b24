import type pg from 'pg';

/** A month as partitions are named by it: `2026_01`. */
export type Month = string;

/** Months that have a partition before they begin. */
const monthsAhead = 2;

const monthOf = (at: Date): Month =>
  `${at.getUTCFullYear()}_${String(at.getUTCMonth() + 1).padStart(2, '0')}`;

const firstDay = (month: Month, later = 0): Date => {
  const [year = 0, number = 1] = month.split('_').map(Number);
  return new Date(Date.UTC(year, number - 1 + later, 1));
};

export const partitionOf = (month: Month): string => `timeline_${month}`;

/** Which partitions are missing from the given month on, and which have only entries that are too old. */
export function partitionPlan(
  existing: readonly Month[],
  now: Date,
  { from = now, before }: { readonly from?: Date; readonly before?: Date } = {},
): { readonly missing: Month[]; readonly tooOld: Month[] } {
  const missing: Month[] = [];
  const last = firstDay(monthOf(now), monthsAhead);
  for (let month = monthOf(from); firstDay(month) <= last; month = monthOf(firstDay(month, 1)))
    if (!existing.includes(month)) missing.push(month);
  const tooOld = before ? existing.filter((month) => firstDay(month, 1) <= before) : [];
  return { missing, tooOld };
}

/** The partitions there are, and the database's time. */
export async function readPartitions(client: pg.Pool | pg.Client): Promise<{ months: Month[]; now: Date }> {
  const { rows } = await client.query<{ names: string[]; now: string }>(
    `SELECT now()::text AS now, ARRAY(
       SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
       WHERE i.inhparent = 'timeline'::regclass) AS names`,
  );
  const { names = [], now = '' } = rows[0] ?? {};
  const months = names.flatMap((name) => /^timeline_(\d{4}_\d{2})$/.exec(name)?.[1] ?? []).sort();
  return { months, now: new Date(now) };
}

/** While a statement waits for a lock, so does everyone behind it: one that is not free soon is tried for again later. */
const briefly = "SET LOCAL lock_timeout = '500ms'";

/**
 * Without `n_distinct`, PostgreSQL 18 estimates one index search for each distinct sequence in a range, and therefore plans
 * every page again instead of using the prepared plan. Planning takes longer than reading the page.
 *
 * Attached rather than created in place, because that does not block readers and writers of the other partitions. Several
 * nodes may try at the same time: the number of the lock is arbitrary, but the same on each.
 */
export async function createPartition(client: pg.Pool | pg.Client, month: Month): Promise<void> {
  const name = partitionOf(month);
  const [from, to] = [firstDay(month).toISOString(), firstDay(month, 1).toISOString()];
  await client.query(`${briefly};
    SELECT pg_advisory_xact_lock(7301988);
    DO $$ BEGIN
      IF to_regclass('${name}') IS NULL THEN
        CREATE TABLE ${name} (LIKE timeline INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
          WITH (autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_scale_factor = 0.02);
        ALTER TABLE ${name} ALTER COLUMN sequence SET (n_distinct = 1);
        ALTER TABLE timeline ATTACH PARTITION ${name} FOR VALUES FROM ('${from}') TO ('${to}');
      END IF;
    END $$`);
}

/** PostgreSQL deletes the files after it has released the locks. */
export async function dropPartition(client: pg.Pool | pg.Client, month: Month): Promise<void> {
  await client.query(`${briefly}; DROP TABLE IF EXISTS ${partitionOf(month)}`);
}

/** Before the first entry is written: entries without a partition are hard to give one later. */
export async function createPartitions(client: pg.Client, from?: Date): Promise<void> {
  const { months, now } = await readPartitions(client);
  for (const month of partitionPlan(months, now, { ...(from && { from }) }).missing)
    await createPartition(client, month);
}

import { setTimeout as pause } from 'node:timers/promises';
import { type Tenant, tenantName } from '@muster/sdk/contract';
import type pg from 'pg';
import { type DatabaseConfig, isoTime, openClient, statement } from '../connection.ts';
import { newestMigration } from '../migrate.ts';
import { countHeldRuns, findTenant } from '../statements/tenants.ts';
import {
  type ArchivedTable,
  ArchiveError,
  archivedTables,
  archiveFormat,
  archiveVersion,
  type ColumnRow,
  movingTables,
  openTransaction,
  type RowCounts,
  readColumns,
} from './archive-format.ts';

/** The lines of an archive of the whole store, or of one closed tenant, as of one moment. It does not block writers. */
export async function* exportStore(
  connection: DatabaseConfig,
  onProgress: (rows: Readonly<RowCounts>) => void = () => {},
  tenant: Tenant | null = null,
): AsyncGenerator<string> {
  const number = tenant && (await settledTenant(connection, tenant));
  // The lock keeps a migration from changing a table.
  const client = await openTransaction(connection, 'muster-export', {
    isolation: 'REPEATABLE READ READ ONLY',
    lock: 'ACCESS SHARE',
  });
  try {
    if (tenant && number !== null) await refuseHeldRuns(client, tenant, number);
    const snapshot = await snapshotOf(client);
    yield line({ format: archiveFormat, version: archiveVersion, ...snapshot, ...(tenant && { tenant }) });
    const rows: RowCounts = {};
    for (const table of number === null ? archivedTables : movingTables) {
      const columns = await readColumns(client, table.name);
      yield line({ table: table.name, columns: columns.map(({ name }) => name) });
      rows[table.name] = 0;
      const { where = 'true', moves = 'true' } = table;
      const exported = number === null ? where : `tenant = ${number} AND ${moves}`;
      for await (const page of pagesOf(client, table, columns, exported)) {
        rows[table.name] = (rows[table.name] ?? 0) + page.length;
        onProgress(rows);
        yield `${page.join('\n')}\n`;
      }
    }
    yield line({ end: true, rows });
  } finally {
    await client.end();
  }
}

const line = (mark: Readonly<Record<string, unknown>>): string => `${JSON.stringify(mark)}\n`;

const maxWaitMs = 60_000;
const lookMs = 50;

const readClock = statement<[], { now: string }>('archive-clock', 'SELECT clock_timestamp()::text AS now');
const findOlderTransactions = statement<[time: string], { pid: number; application: string }>(
  'archive-older-transactions',
  `SELECT pid, application_name AS application FROM pg_stat_activity
   WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND xact_start < $1`,
);

/**
 * The number of a closed tenant. Waits until the commands that began before the tenant was closed have committed: they do
 * not know that it is closed.
 */
async function settledTenant(connection: DatabaseConfig, tenant: Tenant): Promise<number> {
  const client = await openClient(connection, 'muster-export');
  try {
    const name = tenantName(tenant);
    const [found] = await findTenant(client, tenant.provider, tenant.org);
    if (!found) throw new ArchiveError(`The tenant ${name} does not exist in this database.`);
    if (!found.is_closed)
      throw new ArchiveError(
        `The tenant ${name} is open: what it writes after the export would be lost. Close it first: muster tenant close ${name}`,
      );
    const [clock] = await readClock(client);
    for (let waitedMs = 0; ; waitedMs += lookMs) {
      const [older] = await findOlderTransactions(client, clock?.now ?? '');
      if (!older) return found.id;
      if (waitedMs >= maxWaitMs)
        throw new ArchiveError(
          `A transaction from before the tenant was closed is still open after ${maxWaitMs / 1000} s (process ${older.pid} of PostgreSQL, application "${older.application}"). End it and export again.`,
        );
      await pause(lookMs);
    }
  } finally {
    await client.end();
  }
}

async function refuseHeldRuns(client: pg.Client, tenant: Tenant, number: number): Promise<void> {
  const [{ held } = { held: 0 }] = await countHeldRuns(client, number);
  if (held > 0)
    throw new ArchiveError(
      `${held} ${held === 1 ? 'run' : 'runs'} of ${tenantName(tenant)} ${held === 1 ? 'has' : 'have'} not ended. Wait for the end, or stop the turns (muster stop), and export again.`,
    );
}

async function snapshotOf(client: pg.Client): Promise<{ migration: number; createdAt: string }> {
  const newest = await newestMigration();
  const found = await client.query<{ migration: number; now: string }>(
    'SELECT max(number) AS migration, now()::text AS now FROM migrations',
  );
  const { migration = 0, now = '' } = found.rows[0] ?? {};
  if (migration !== newest) {
    throw new ArchiveError(
      `The store is at migration ${migration}; this Muster expects ${newest}. Export with the version of Muster that runs on this store.`,
    );
  }
  return { migration, createdAt: isoTime(now) };
}

async function* pagesOf(
  client: pg.Client,
  { name, order, rowsPerFetch }: ArchivedTable,
  columns: readonly ColumnRow[],
  where: string,
): AsyncGenerator<string[]> {
  const values = columns.map(({ quoted }) => `${quoted}::text`).join(', ');
  await client.query(
    `DECLARE archived NO SCROLL CURSOR FOR
     SELECT to_json(ARRAY[${values}])::text FROM ${name} WHERE ${where} ORDER BY ${order}`,
  );
  for (;;) {
    const { rows } = await client.query<[string]>({
      text: `FETCH ${rowsPerFetch} FROM archived`,
      rowMode: 'array',
    });
    if (rows.length === 0) break;
    yield rows.map(([row]) => row);
  }
  await client.query('CLOSE archived');
}

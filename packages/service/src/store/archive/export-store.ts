import type pg from 'pg';
import { type DatabaseConfig, isoTime } from '../connection.ts';
import { newestMigration } from '../migrate.ts';
import {
  type ArchivedTable,
  ArchiveError,
  archivedTables,
  archiveFormat,
  archiveVersion,
  type ColumnRow,
  openTransaction,
  type RowCounts,
  readColumns,
} from './archive-format.ts';

/** The lines of an archive of the whole store, as of one moment. It does not block writers. */
export async function* exportStore(
  connection: DatabaseConfig,
  onProgress: (rows: Readonly<RowCounts>) => void = () => {},
): AsyncGenerator<string> {
  // The lock keeps a migration from changing a table.
  const client = await openTransaction(connection, 'muster-export', {
    isolation: 'REPEATABLE READ READ ONLY',
    lock: 'ACCESS SHARE',
  });
  try {
    yield line({ format: archiveFormat, version: archiveVersion, ...(await snapshotOf(client)) });
    const rows: RowCounts = {};
    for (const table of archivedTables) {
      const columns = await readColumns(client, table.name);
      yield line({ table: table.name, columns: columns.map(({ name }) => name) });
      rows[table.name] = 0;
      for await (const page of pagesOf(client, table, columns)) {
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
  { name, order, where = 'true', rowsPerFetch }: ArchivedTable,
  columns: readonly ColumnRow[],
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

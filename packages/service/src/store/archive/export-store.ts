import pg from 'pg';
import { isoTime } from '../connection.ts';
import { newestMigration } from '../migrate.ts';
import {
  type ArchivedTable,
  ArchiveError,
  allTables,
  archivedTables,
  archiveFormat,
  archiveVersion,
  type RowCounts,
  readColumns,
  settle,
} from './archive-format.ts';

/**
 * Everything in the store as the lines of an archive, of one moment, however long it takes and whatever is written
 * meanwhile. It holds up nobody. `told` hears the counts as they grow.
 */
export async function* exportStore(
  connection: pg.ClientConfig,
  told: (rows: Readonly<RowCounts>) => void = () => {},
): AsyncGenerator<string> {
  const client = new pg.Client({ application_name: 'muster-export', ...connection });
  // The statement under way hears of it too.
  client.on('error', () => {});
  await client.connect();
  try {
    await settle(client);
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    // Before the first look, which fixes the moment: no migration may come in between.
    await client.query(`LOCK TABLE ${allTables} IN ACCESS SHARE MODE`);
    yield line({ format: archiveFormat, version: archiveVersion, ...(await momentOf(client)) });
    const rows: RowCounts = {};
    for (const table of archivedTables) {
      const columns = await readColumns(client, table.name);
      yield line({ table: table.name, columns: columns.map(({ name }) => name) });
      rows[table.name] = 0;
      for await (const page of pagesOf(
        client,
        table,
        columns.map(({ quoted }) => quoted),
      )) {
        rows[table.name] = (rows[table.name] ?? 0) + page.length;
        told(rows);
        yield `${page.join('\n')}\n`;
      }
    }
    yield line({ end: true, rows });
  } finally {
    await client.end();
  }
}

const line = (mark: Readonly<Record<string, unknown>>): string => `${JSON.stringify(mark)}\n`;

async function momentOf(client: pg.Client): Promise<{ migration: number; createdAt: string }> {
  const newest = await newestMigration();
  const found = await client.query<{ migration: number; now: string }>(
    'SELECT max(number) AS migration, now()::text AS now FROM migrations',
  );
  const { migration = 0, now = '' } = found.rows[0] ?? {};
  if (migration !== newest) {
    throw new ArchiveError(
      `The store is at migration ${migration}, and this Muster knows ${newest}: export it with the version that runs on it.`,
    );
  }
  return { migration, createdAt: isoTime(now) };
}

async function* pagesOf(
  client: pg.Client,
  { name, order, where = 'true', rowsPerFetch }: ArchivedTable,
  columns: readonly string[],
): AsyncGenerator<string[]> {
  const values = columns.map((column) => `${column}::text`).join(', ');
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

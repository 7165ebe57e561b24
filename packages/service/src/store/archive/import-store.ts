import type pg from 'pg';
import type { DatabaseConfig } from '../connection.ts';
import { migrate, newestMigration } from '../migrate.ts';
import { createPartitions } from '../timeline-partitions.ts';
import {
  ArchiveError,
  archivedTables,
  cutOff,
  type Header,
  headerIn,
  linesIn,
  markIn,
  openTransaction,
  type RowCounts,
  readColumns,
  type TableLine,
  type Trailer,
} from './archive-format.ts';

/** Rows are sent in chunks of this length; a single row may be longer. */
const chunkLength = 1024 * 1024;

/** Entries of these months get partitions; older ones share the default partition. */
const importedMonths = 12;
const monthMs = 31 * 24 * 3600 * 1000;

/**
 * Fills an empty store with an archive in one transaction, which commits only after the end of the archive and if every
 * count is right. An archive of an older Muster has fewer columns, so a migration that adds one gives it a default.
 *
 * Leases are imported unchanged: until one ends, its runner may still work; then its runs are lost and tried again.
 */
export async function importStore(
  connection: DatabaseConfig,
  bytes: AsyncIterable<Buffer>,
  onProgress: (rows: Readonly<RowCounts>) => void = () => {},
): Promise<{ header: Header; rows: Readonly<RowCounts> }> {
  await migrate(connection);
  // A service that starts now waits for the lock, and then finds the imported keys instead of creating the first one.
  const client = await openTransaction(connection, 'muster-import', {
    isolation: 'READ COMMITTED',
    lock: 'ACCESS EXCLUSIVE',
  });
  try {
    await createPartitions(client, new Date(Date.now() - importedMonths * monthMs));
    await refuseUsed(client);
    const loaded = await load(client, linesIn(bytes), onProgress);
    for (const { name, identity } of archivedTables) {
      if (identity) await continueCounting(client, name, identity);
    }
    await client.query('COMMIT');
    await client.query('ANALYZE');
    return loaded;
  } finally {
    // Ending the session also rolls back what a failure left open.
    await client.end();
  }
}

async function refuseUsed(client: pg.Client): Promise<void> {
  const used: string[] = [];
  for (const { name, where = 'true' } of archivedTables) {
    const { rowCount } = await client.query(`SELECT FROM ${name} WHERE ${where} LIMIT 1`);
    if (rowCount) used.push(name);
  }
  if (used.length === 0) return;
  throw new ArchiveError(
    `The store is not empty (there are rows in ${used.join(', ')}). Import into one on which no service has started yet: an empty database, or a new data folder.`,
  );
}

async function load(
  client: pg.Client,
  lines: AsyncIterable<string>,
  onProgress: (rows: Readonly<RowCounts>) => void,
): Promise<{ header: Header; rows: Readonly<RowCounts> }> {
  let header: Header | undefined;
  let trailer: Trailer | undefined;
  let table: LoadingTable | undefined;
  const rows: RowCounts = {};
  const finishTable = async (): Promise<void> => {
    if (!table) return;
    await table.flush();
    rows[table.name] = table.rows;
    onProgress(rows);
  };
  for await (const line of lines) {
    if (!header) {
      header = headerIn(line, await newestMigration());
    } else if (trailer) {
      throw new ArchiveError('The archive is damaged: there is more after its end.');
    } else if (line.startsWith('[')) {
      if (!table) throw new ArchiveError('The archive is damaged: a row comes before its table.');
      if (await table.add(line)) onProgress({ ...rows, [table.name]: table.rows });
    } else {
      await finishTable();
      const mark = markIn(line);
      if ('end' in mark) trailer = mark;
      else table = await LoadingTable.open(client, mark, table?.name);
    }
  }
  if (!header || !trailer) throw cutOff();
  refuseMiscounted(trailer.rows, rows);
  return { header, rows };
}

function refuseMiscounted(said: Readonly<RowCounts>, found: Readonly<RowCounts>): void {
  for (const name of new Set([...Object.keys(said), ...Object.keys(found)])) {
    if (said[name] === found[name]) continue;
    throw new ArchiveError(
      `The archive is damaged: it has ${found[name] ?? 0} rows of ${name}; its last line says ${said[name] ?? 0}.`,
    );
  }
}

/** The table whose rows are coming in. */
class LoadingTable {
  readonly name: string;
  rows = 0;
  readonly #client: pg.Client;
  readonly #insert: string;
  #waiting: string[] = [];
  #waitingLength = 0;

  constructor(client: pg.Client, name: string, insert: string) {
    this.#client = client;
    this.name = name;
    this.#insert = insert;
  }

  static async open(
    client: pg.Client,
    { table, columns }: TableLine,
    last: string | undefined,
  ): Promise<LoadingTable> {
    if (place(table) === -1) throw new ArchiveError(`The archive has an unknown table: ${table}.`);
    if (place(table) <= place(last)) {
      throw new ArchiveError(`The archive is damaged: the table ${table} comes after ${last}.`);
    }
    const known = new Map((await readColumns(client, table)).map((column) => [column.name, column]));
    const filled = columns.map((name) => {
      const column = known.get(name);
      if (!column) throw new ArchiveError(`The archive has an unknown column: ${table}.${name}.`);
      return column;
    });
    return new LoadingTable(
      client,
      table,
      `INSERT INTO ${table} (${filled.map(({ quoted }) => quoted).join(', ')})
       SELECT ${filled.map(({ type }, at) => `(r.line ->> ${at})::${type}`).join(', ')}
       FROM jsonb_array_elements($1::jsonb) AS r (line)`,
    );
  }

  /** Returns whether the rows were sent. */
  async add(row: string): Promise<boolean> {
    this.#waiting.push(row);
    this.#waitingLength += row.length;
    if (this.#waitingLength < chunkLength) return false;
    await this.flush();
    return true;
  }

  async flush(): Promise<void> {
    const rows = this.#waiting;
    if (rows.length === 0) return;
    this.#waiting = [];
    this.#waitingLength = 0;
    const values = [`[${rows.join(',')}]`];
    await this.#write({ text: this.#insert, values });
    this.rows += rows.length;
  }

  async #write(query: pg.QueryConfig): Promise<void> {
    try {
      await this.#client.query(query);
    } catch (error) {
      if (!isAboutData(error)) throw error;
      const message = `The archive is damaged: PostgreSQL refused rows of ${this.name} (${error.message}).`;
      throw new ArchiveError(message, { cause: error });
    }
  }
}

const place = (name: string | undefined): number => archivedTables.findIndex((table) => table.name === name);

/** PostgreSQL could not read a value, or a constraint refused a row. */
const isAboutData = (error: unknown): error is Error =>
  error instanceof Error && /^2[23]/.test((error as { code?: string }).code ?? '');

/** The next generated number is one that no row has. */
async function continueCounting(client: pg.Client, table: string, column: string): Promise<void> {
  await client.query(
    `SELECT setval(pg_get_serial_sequence('${table}', '${column}'), nullif(max(${column}), 0)) FROM ${table}`,
  );
}

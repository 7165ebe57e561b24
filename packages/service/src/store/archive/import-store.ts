import { type Tenant, tenantName } from '@muster/sdk/contract';
import type pg from 'pg';
import { type DatabaseConfig, openClient, statement } from '../connection.ts';
import { migrate, newestMigration } from '../migrate.ts';
import { firstTenant } from '../statements/tenants.ts';
import { createPartitions } from '../timeline-partitions.ts';
import {
  type ArchivedTable,
  ArchiveError,
  archivedTables,
  cutOff,
  type Header,
  headerIn,
  linesIn,
  markIn,
  movingTables,
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
    await createPartitions(client, oldestMonth());
    await refuseUsed(client);
    const loaded = await load(client, linesIn(bytes), onProgress, async ({ tenant }) => {
      if (tenant)
        throw new ArchiveError(
          `The archive has only the tenant ${tenantName(tenant)}. Import it with --tenant ${tenantName(tenant)} into an installation that exists.`,
        );
      return null;
    });
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

const oldestMonth = (): Date => new Date(Date.now() - importedMonths * monthMs);

/**
 * Adds the tenant of an archive to a store in use, under a number that no other tenant has, in one transaction. It locks no
 * row and no table that others use.
 */
export async function importTenant(
  connection: DatabaseConfig,
  tenant: Tenant,
  bytes: AsyncIterable<Buffer>,
  onProgress: (rows: Readonly<RowCounts>) => void = () => {},
): Promise<{ header: Header; rows: Readonly<RowCounts> }> {
  const own = await openClient(connection, 'muster-import');
  await createPartitions(own, oldestMonth()).finally(() => own.end());
  const client = await openTransaction(connection, 'muster-import', {
    isolation: 'READ COMMITTED',
    lock: 'ROW EXCLUSIVE',
  });
  try {
    let number = 0;
    const loaded = await load(client, linesIn(bytes), onProgress, async (header) => {
      await refuseOther(client, header, tenant);
      number = await addTenant(client, tenant);
      return number;
    });
    await refuseOperators(client, number);
    await revisitHistory(client, number);
    await client.query('COMMIT');
    return loaded;
  } finally {
    await client.end();
  }
}

const readMigration = statement<[], { migration: number }>(
  'archive-migration',
  'SELECT max(number) AS migration FROM migrations',
);

async function refuseOther(client: pg.Client, header: Header, tenant: Tenant): Promise<void> {
  const name = tenantName(tenant);
  if (!header.tenant)
    throw new ArchiveError('The archive has a whole database. Import it without --tenant into an empty one.');
  if (tenantName(header.tenant) !== name)
    throw new ArchiveError(`The archive has the tenant ${tenantName(header.tenant)}, not ${name}.`);
  const [here] = await readMigration(client);
  if (here?.migration !== header.migration)
    throw new ArchiveError(
      `The archive has the schema of migration ${header.migration}; this database has ${here?.migration}. Upgrade the older installation, and export again.`,
    );
  // The first tenant of an installation may use all that its runners' machines offer.
  if ((await firstTenant(client)).length === 0)
    throw new ArchiveError(
      'The database has no tenant yet: start muster serve on it once, and import again.',
    );
}

const insertTenant = statement<[provider: string, org: string], { id: number }>(
  'archive-insert-tenant',
  'INSERT INTO tenants (provider, org) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id',
);

async function addTenant(client: pg.Client, tenant: Tenant): Promise<number> {
  const [added] = await insertTenant(client, tenant.provider, tenant.org);
  if (!added) throw new ArchiveError(`The tenant ${tenantName(tenant)} exists in this database already.`);
  return added.id;
}

const findOperator = statement<[tenant: number], { key_id: string; role: string }>(
  'archive-find-operator',
  "SELECT key_id, role FROM keys WHERE tenant = $1 AND role IN ('operator', 'metrics') LIMIT 1",
);

async function refuseOperators(client: pg.Client, tenant: number): Promise<void> {
  const [key] = await findOperator(client, tenant);
  if (key)
    throw new ArchiveError(
      `The archive is damaged: its key ${key.key_id} has the role ${key.role}, which would have access to every tenant of this installation.`,
    );
}

/** Maintenance has passed the time at which some of the imported agents ended, and has to look at it again. */
const revisitHistory = statement<[tenant: number], never>(
  'archive-revisit-history',
  `UPDATE maintenance SET history_until = least(history_until,
     (SELECT min(ended_at) FROM agents WHERE tenant = $1 AND ended_at IS NOT NULL AND NOT history_deleted))`,
);

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
  /** Returns the number that the tenant gets here; null keeps the numbers of all tenants. */
  accept: (header: Header) => Promise<number | null>,
): Promise<{ header: Header; rows: Readonly<RowCounts> }> {
  let header: Header | undefined;
  let tenant: number | null = null;
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
      tenant = await accept(header);
    } else if (trailer) {
      throw new ArchiveError('The archive is damaged: there is more after its end.');
    } else if (line.startsWith('[')) {
      if (!table) throw new ArchiveError('The archive is damaged: a row comes before its table.');
      if (await table.add(line)) onProgress({ ...rows, [table.name]: table.rows });
    } else {
      await finishTable();
      const mark = markIn(line);
      if ('end' in mark) trailer = mark;
      else table = await LoadingTable.open(client, mark, table?.name, tenant);
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
  readonly #isTenant: boolean;
  #waiting: string[] = [];
  #waitingLength = 0;

  constructor(client: pg.Client, name: string, insert: string, isTenant: boolean) {
    this.#client = client;
    this.#isTenant = isTenant;
    this.name = name;
    this.#insert = insert;
  }

  static async open(
    client: pg.Client,
    { table, columns }: TableLine,
    last: string | undefined,
    tenant: number | null,
  ): Promise<LoadingTable> {
    const place = placeIn(tenant === null ? archivedTables : movingTables);
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
       SELECT ${filled.map(({ name, type }, at) => (tenant !== null && name === 'tenant' ? tenant : `(r.line ->> ${at})::${type}`)).join(', ')}
       FROM jsonb_array_elements($1::jsonb) AS r (line)`,
      tenant !== null,
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
      const { detail = error.message, code } = error as { detail?: string; code?: string };
      // Ids of agents and keys are unique over all tenants.
      const message =
        this.#isTenant && code === uniqueViolation
          ? `Rows of ${this.name} exist here already (${detail}): this database has some of the tenant's rows, or the archive is damaged.`
          : `The archive is damaged: PostgreSQL refused rows of ${this.name} (${error.message}).`;
      throw new ArchiveError(message, { cause: error });
    }
  }
}

const placeIn =
  (tables: readonly ArchivedTable[]) =>
  (name: string | undefined): number =>
    tables.findIndex((table) => table.name === name);

const uniqueViolation = '23505';

/** PostgreSQL could not read a value, or a constraint refused a row. */
const isAboutData = (error: unknown): error is Error =>
  error instanceof Error && /^2[23]/.test((error as { code?: string }).code ?? '');

/** The next generated number is one that no row has. */
async function continueCounting(client: pg.Client, table: string, column: string): Promise<void> {
  await client.query(
    `SELECT setval(pg_get_serial_sequence('${table}', '${column}'), nullif(max(${column}), 0)) FROM ${table}`,
  );
}

import type { Duplex } from 'node:stream';
import pg from 'pg';
import { isUnavailable } from '../lib/errors.ts';

/**
 * Times leave the database as ISO strings in UTC with milliseconds, integers as numbers. The session's time zone is UTC,
 * so a time always reads `2026-01-31 09:00:00.123456+00`, with as many digits of the fraction as it has; in JSON it has a
 * `T` and ends in `+00:00`.
 */
export const isoTime = (value: string): string => {
  const end = value.indexOf('+', 19);
  const fraction = value.slice(20, Math.min(end, 23));
  return `${value.slice(0, 10)}T${value.slice(11, 19)}.${fraction.padEnd(3, '0')}Z`;
};

pg.types.setTypeParser(pg.types.builtins.TIMESTAMPTZ, isoTime);
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

/** How many statements this process has sent, for the metrics. */
export const sent = { statements: 0 };

export type Connection = pg.PoolClient | pg.Pool | pg.Client;

export interface DatabaseConfig extends pg.ClientConfig {
  /** A pooler in transaction mode is in between: the next transaction may get another session of the server. */
  readonly isPooled?: boolean;
  /** The embedded server: no other service uses it. */
  readonly isOwn?: boolean;
}

/** Connections through a pooler. Nothing may stay in their sessions: no prepared statement, setting or lock. */
const pooled = new WeakSet<Connection>();

/** Statements that are sent on one connection in the same turn of the event loop go out in one write. */
function sendTogether(connection: Connection): void {
  const { stream } = (connection as { connection?: { stream: Duplex } }).connection ?? {};
  if (!stream || stream.writableCorked > 0) return;
  stream.cork();
  process.nextTick(() => stream.uncork());
}

export type Statement<Parameters extends readonly unknown[], Row> = (
  connection: Connection,
  ...parameters: Parameters
) => Promise<Row[]>;

/**
 * A named prepared statement. Naming it matters: PostgreSQL then plans it once per connection, not once per call.
 * Only these texts are ever sent with parameters.
 */
export function statement<Parameters extends readonly unknown[], Row>(
  name: string,
  text: string,
): Statement<Parameters, Row> {
  return (connection, ...parameters) =>
    query<Row>(connection, { name, text, values: parameters as unknown as unknown[] });
}

/**
 * The same for a text that is put together by its caller, with a name for each; without a name it is planned for its values.
 * `memoryMb` is what a statement that sorts and groups many rows may use for each of that.
 */
export async function query<Row>(
  connection: Connection,
  { name, text, values, memoryMb }: { name?: string; text: string; values: unknown[]; memoryMb?: number },
): Promise<Row[]> {
  sent.statements += 1;
  if (connection instanceof pg.Pool && (!name || pooled.has(connection))) {
    const settings = [
      ...(name ? [] : ['plan_cache_mode = force_custom_plan']),
      ...(memoryMb ? [`work_mem = '${memoryMb}MB'`] : []),
    ];
    return queryInTransaction<Row>(connection, { text, values }, settings);
  }
  const result = await send(
    connection,
    name && !pooled.has(connection) ? { name, text, values } : { text, values },
  );
  return result.rows as Row[];
}

/** The last error of each connection that is not a consequence of an earlier one. */
const lastErrors = new WeakMap<Connection, unknown>();

/**
 * After a statement that fails, PostgreSQL refuses the rest of the transaction (25P02). Statements that share a round trip
 * can fail in any order here, so each of these gets the error of the first: it says what is wrong.
 */
async function send(connection: Connection, sendable: pg.QueryConfig): Promise<pg.QueryResult> {
  sendTogether(connection);
  try {
    return await connection.query(sendable);
  } catch (error) {
    if (codeOf(error) !== '25P02') lastErrors.set(connection, error);
    throw lastErrors.get(connection) ?? error;
  }
}

/** How long a statement may take, or a transaction may idle. */
const timeoutMs = 5_000;
/** A server that does not even say so is silent. */
const silentMs = timeoutMs + 1_000;

const settings: readonly string[] = [
  'timezone=UTC',
  // Every statement is a look-up by key or a short range of an index, which storage without moving parts serves at nearly
  // the price of a scan.
  'random_page_cost=1.1',
  'jit=off',
  // To start a process takes longer than any of them.
  'max_parallel_workers_per_gather=0',
  // Left to itself, PostgreSQL plans a statement again for each call with short lists, which takes longer than to run it.
  'plan_cache_mode=force_generic_plan',
  `idle_in_transaction_session_timeout=${timeoutMs}`,
  `statement_timeout=${timeoutMs}`,
];

const beginStatement = statement<[], never>('begin', 'BEGIN');
const beginPooled = [
  'BEGIN',
  ...settings.map((setting) => `SET LOCAL ${setting}`),
  'SELECT pg_is_in_recovery() AS standby',
].join(';');

/**
 * A server that follows another one, as a former primary does after a failover. Its data may be old, so it is not read
 * either. The code is that of a write there.
 */
class StandbyError extends Error {
  override readonly name = 'StandbyError';
  readonly code = '25006';

  constructor() {
    super('the database server is a standby; expected the primary');
  }
}

/** A server never becomes a standby without a restart, so a connection is checked when it is opened. */
async function refuseStandby(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<{ standby: boolean }>('SELECT pg_is_in_recovery() AS standby');
  if (rows[0]?.standby) throw new StandbyError();
}

/**
 * Begins a transaction. A pooler refuses the settings at the start of a session and chooses a server for each
 * transaction, so there each transaction has the settings and checks its server.
 */
export async function begin(client: pg.PoolClient): Promise<void> {
  if (!pooled.has(client)) return void (await beginStatement(client));
  sent.statements += 1;
  const results = (await send(client, { text: beginPooled })) as unknown as pg.QueryResult<{
    standby?: boolean;
  }>[];
  if (results.at(-1)?.rows[0]?.standby) throw new StandbyError();
}

/** One statement as a separate transaction, in one round trip: PostgreSQL ends it after the timeout, as elsewhere. */
async function queryInTransaction<Row>(
  database: pg.Pool,
  sendable: pg.QueryConfig,
  ownSettings: readonly string[],
): Promise<Row[]> {
  const client = await database.connect();
  try {
    const [, , result] = await Promise.all([
      begin(client),
      ownSettings.length > 0 &&
        send(client, { text: ownSettings.map((setting) => `SET LOCAL ${setting}`).join(';') }),
      send(client, sendable),
      send(client, { text: 'COMMIT' }),
    ]);
    client.release();
    return result.rows as Row[];
  } catch (error) {
    client.release(true);
    throw error;
  }
}

const codeOf = (error: unknown): string => (error as { code?: string }).code ?? '';

/**
 * Ends a transaction that has failed, and releases its connection. Returns whether nothing of it can be committed any
 * more: an error code means that PostgreSQL has answered. The connection is closed if it is broken or silent, or if the
 * next one may do better: after a failover it may lead to the new primary, and it has no outdated plans.
 */
export async function rollBack(client: pg.PoolClient, error: unknown): Promise<boolean> {
  const isRefused = /^[0-9A-Z]{5}$/.test(codeOf(error));
  const isUndone =
    isRefused &&
    (await client.query('ROLLBACK').then(
      () => true,
      () => false,
    ));
  client.release(!isUndone || isUnavailable(error));
  return isUndone;
}

/** Commits all of the work, or nothing. */
export async function inTransaction<R>(
  database: pg.Pool,
  work: (client: pg.PoolClient) => Promise<R>,
): Promise<R> {
  const client = await database.connect();
  try {
    await begin(client);
    const result = await work(client);
    await client.query('COMMIT');
    client.release();
    return result;
  } catch (error) {
    await rollBack(client, error);
    throw error;
  }
}

/** A separate connection, for work in a session or in a long transaction. */
export async function openClient(
  { isPooled, ...config }: DatabaseConfig,
  application_name: string,
): Promise<pg.Client> {
  const client = new pg.Client({ application_name, ...config });
  if (isPooled) pooled.add(client);
  // A lost connection also rejects the statement in progress.
  client.on('error', () => {});
  await client.connect();
  return client;
}

export function openDatabase(
  { isPooled = false, ...config }: DatabaseConfig & pg.PoolConfig,
  onError: (error: Error) => void,
): pg.Pool {
  const database = new pg.Pool({
    max: 8,
    connectionTimeoutMillis: 10_000,
    // A silent server must not block a node, nor the locks of a silent node the others.
    query_timeout: silentMs,
    keepAlive: true,
    idleTimeoutMillis: 30_000,
    application_name: 'muster',
    // Statements that do not wait for each other share a round trip.
    pipeline: true,
    ...config,
    ...(!isPooled && {
      onConnect: refuseStandby,
      options: settings.map((setting) => `-c ${setting}`).join(' '),
    }),
  });
  if (isPooled) pooled.add(database);
  // Without a listener, an error of an idle client would end the process. Each client reports its own below.
  database.on('error', () => {});
  database.on('connect', (client) => {
    if (isPooled) pooled.add(client);
    client.on('error', (error) => {
      // `end` does not wait until the connections are closed. A server that stops meanwhile is expected.
      if (!database.ending) onError(error);
    });
  });
  return database;
}

const readTimeout = statement<[], { timeout: string }>(
  'read-timeout',
  "SELECT setting AS timeout FROM pg_settings WHERE name = 'statement_timeout'",
);

/** Whether the settings of this session are in force. A pooler refuses those of the start-up packet, or drops them. */
export async function hasSettings(database: pg.Pool): Promise<boolean> {
  try {
    const [row] = await readTimeout(database);
    return row?.timeout === String(timeoutMs);
  } catch (error) {
    if (/startup parameter/.test((error as Error).message)) return false;
    throw error;
  }
}

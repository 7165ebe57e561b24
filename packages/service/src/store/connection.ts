import type { Duplex } from 'node:stream';
import pg from 'pg';

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

/** The same for a text that is put together by its caller, with a name for each; without a name it is planned each time. */
export async function query<Row>(
  connection: Connection,
  { name, text, values }: { name?: string; text: string; values: unknown[] },
): Promise<Row[]> {
  sent.statements += 1;
  if (connection instanceof pg.Pool && pooled.has(connection))
    return queryInTransaction<Row>(connection, text, values);
  sendTogether(connection);
  const result = await connection.query(
    name && !pooled.has(connection) ? { name, text, values } : { text, values },
  );
  return result.rows as Row[];
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
  `idle_in_transaction_session_timeout=${timeoutMs}`,
  `statement_timeout=${timeoutMs}`,
];

const beginStatement = statement<[], never>('begin', 'BEGIN');
const beginPooled = ['BEGIN', ...settings.map((setting) => `SET LOCAL ${setting}`)].join(';');

/** Begins a transaction. A pooler refuses the settings at the start of a session, so there each transaction has them. */
export async function begin(client: pg.PoolClient): Promise<void> {
  if (!pooled.has(client)) return void (await beginStatement(client));
  sent.statements += 1;
  sendTogether(client);
  await client.query(beginPooled);
}

/** One statement as a transaction of its own, in one round trip: PostgreSQL ends it after the timeout, as elsewhere. */
async function queryInTransaction<Row>(database: pg.Pool, text: string, values: unknown[]): Promise<Row[]> {
  const client = await database.connect();
  try {
    const [, result] = await Promise.all([
      begin(client),
      client.query({ text, values }),
      client.query('COMMIT'),
    ]);
    client.release();
    return result.rows as Row[];
  } catch (error) {
    client.release(true);
    throw error;
  }
}

/** A connection of its own, for work in a session or in a long transaction. */
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
    ...(!isPooled && { options: settings.map((setting) => `-c ${setting}`).join(' ') }),
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

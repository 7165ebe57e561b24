import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';
import { parseIntoClientConfig } from 'pg-connection-string';
import { DatabaseDisk } from '../lib/disk-space.ts';
import { isUnavailable } from '../lib/errors.ts';
import { type Log, openLog } from '../lib/log.ts';
import { SchemaError } from '../store/apply-migration.ts';
import { type DatabaseConfig, hasSettings, openDatabase } from '../store/connection.ts';
import {
  type EmbeddedPostgres,
  FolderInUseError,
  runningPostgres,
  startEmbeddedPostgres,
} from '../store/embedded/embedded-postgres.ts';
import { expectMigrated, migrate } from '../store/migrate.ts';
import { type Config, readConfig } from './config.ts';
import { CommandError, exitCodes } from './errors.ts';
import { ConfigError } from './variables.ts';

type DatabaseSettings = Pick<Config, 'databaseUrl' | 'directUrl' | 'pooler' | 'passwordFile'>;

export interface OpenStore {
  readonly database: pg.Pool;
  /** For separate connections: to listen, to migrate, to export. */
  readonly connection: DatabaseConfig;
  /** The migrations that were applied while it was opened. */
  readonly migrated: readonly string[];
  close(): Promise<void>;
}

/**
 * Opens the database at DATABASE_URL, or starts the embedded PostgreSQL in the data folder. With `shares`, a command may
 * use the embedded server of a service that is running; a second service may not.
 */
export async function openStore(
  config: DatabaseSettings & Pick<Config, 'dataFolder' | 'migrates'>,
  log: Log,
  { shares = false, waitMs = 0 } = {},
): Promise<OpenStore> {
  const embedded = config.databaseUrl ? null : await startEmbedded(config.dataFolder, log, shares);
  const { shared, own } = embedded ? connectionsTo(embedded) : await connectionsOf(config);
  const preparing = embedded
    ? prepareSchema(own, config.migrates, log)
    : whenReachable(own, waitMs, log, () => prepareSchema(own, config.migrates, log));
  const migrated = await preparing.catch(async (error: unknown) => {
    await embedded?.stop();
    throw embedded
      ? error
      : connectionError(config.directUrl ? 'MUSTER_DIRECT_URL' : 'DATABASE_URL', error, own);
  });
  const database = open(shared, log);
  const takesSettings = embedded
    ? true
    : await hasSettings(database).catch(async (error: unknown) => {
        await database.end();
        throw connectionError('DATABASE_URL', error, shared);
      });
  if (!takesSettings) {
    await database.end();
    throw new ConfigError(
      'DATABASE_URL leads to a connection pooler that refuses start-up settings or drops them: set MUSTER_POOLER=transaction',
    );
  }
  return {
    database,
    connection: own,
    migrated,
    async close() {
      await database.end();
      await embedded?.stop();
    },
  };
}

const firstPauseMs = 250;
const longestPauseMs = 5_000;
/** SQLSTATE classes of a wrong name or password, and of a missing database: waiting does not help. */
const refusedLogin = /^(28|3D)/;

/** Waits for a database that is not up yet, as after a restart of all machines. */
async function whenReachable<T>(
  connection: DatabaseConfig,
  waitMs: number,
  log: Log,
  work: () => Promise<T>,
): Promise<T> {
  const endMs = performance.now() + waitMs;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      return await work();
    } catch (error) {
      const { code = '', message } = error as Error & { code?: string };
      const isPassing = !(error instanceof SchemaError) && isUnavailable(error) && !refusedLogin.test(code);
      const leftMs = endMs - performance.now();
      if (!isPassing || leftMs <= 0) throw error;
      const { host, database } = connection;
      log.warn({ host, database, reason: message || code }, 'database unavailable; retrying');
      await pause(Math.min(pauseMs, leftMs));
    }
  }
}

/** Names the variable if the database can't be reached. Any other error is one of Muster. */
export function connectionError(variable: string, error: unknown, connection?: DatabaseConfig): Error {
  const { code = '', message, severity } = error as Error & { code?: string; severity?: string };
  const isRefused = isUnavailable(error) || (severity === undefined && code !== '');
  const hasNoTls = /does not support SSL|no pg_hba/i.test(message);
  if (error instanceof SchemaError || (!isRefused && !hasNoTls)) return error as Error;
  const place = connection ? ` "${connection.database}" at ${connection.host}` : '';
  return new ConfigError(`${variable}: can't connect to the database${place}: ${message || code}`);
}

/** The store of an installation, whether or not its service is running. */
export async function openExistingStore(env: NodeJS.ProcessEnv): Promise<OpenStore> {
  const config = readConfig(env);
  if (!config.databaseUrl && !existsSync(postgresFolder(config.dataFolder)))
    throw new CommandError(
      `no database in ${config.dataFolder}; set MUSTER_DATA or DATABASE_URL as for muster serve`,
      exitCodes.notFound,
    );
  return openStore(config, openLog('warn'), { shares: true });
}

/** Connects a worker to the database that its supervisor has opened and migrated. */
export async function connectStore(
  config: DatabaseSettings & Pick<Config, 'dataFolder'>,
  log: Log,
): Promise<Omit<OpenStore, 'migrated'>> {
  const { shared, own } = config.databaseUrl
    ? await connectionsOf(config)
    : connectionsTo({ connection: await runningPostgres(postgresFolder(config.dataFolder)) });
  const database = open(shared, log);
  return { database, connection: own, close: () => database.end() };
}

function connectionsTo({ connection }: Pick<EmbeddedPostgres, 'connection'>) {
  const own: DatabaseConfig = { ...connection, isOwn: true };
  return { shared: own, own };
}

const postgresFolder = (dataFolder: string): string => `${dataFolder}/postgres`;

const open = (connection: DatabaseConfig, log: Log): pg.Pool =>
  openDatabase(connection, (error) => log.warn({ err: error }, 'database connection lost'));

async function prepareSchema(connection: DatabaseConfig, migrates: boolean, log: Log): Promise<string[]> {
  if (!migrates) {
    await expectMigrated(connection);
    return [];
  }
  const onWait = (waitsFor: string) => log.warn({ waitsFor }, 'migration is waiting');
  const migrated = await migrate(connection, { onWait });
  if (migrated.length > 0) log.info({ migrations: migrated }, 'schema migrated');
  return migrated;
}

/** `shared` is for statements and short transactions, `own` for what a pooler in transaction mode can't do. */
async function connectionsOf({ databaseUrl, directUrl, pooler, passwordFile }: DatabaseSettings) {
  const isPooled = pooler === 'transaction';
  const password = passwordFile === null ? null : () => passwordIn(passwordFile);
  // Now, so that the error names the variable.
  await password?.().catch((error: Error) => {
    throw new ConfigError(`MUSTER_DATABASE_PASSWORD_FILE: ${error.message}`);
  });
  const read = (name: string, url: string): DatabaseConfig => {
    try {
      // Also reads the files of its certificates.
      return { ...parseIntoClientConfig(url), ...(password && { password }) };
    } catch (error) {
      throw new ConfigError(`${name}: ${(error as Error).message}`);
    }
  };
  const shared = { ...read('DATABASE_URL', databaseUrl ?? ''), isPooled };
  return { shared, own: directUrl === null ? shared : read('MUSTER_DIRECT_URL', directUrl) };
}

/** Read for each new connection, so that a new password needs no restart. */
async function passwordIn(file: string): Promise<string> {
  const password = (await readFile(file, 'utf8')).replace(/\r?\n$/, '');
  // As if the server had refused it: the file may be read while it is written.
  if (password === '') throw Object.assign(new Error(`${file} is empty`), { code: '28P01' });
  return password;
}

const restartMs = 5_000;

/** Starts the embedded server, and restarts it when it dies. */
async function startEmbedded(
  dataFolder: string,
  log: Log,
  shares: boolean,
): Promise<Pick<EmbeddedPostgres, 'connection' | 'stop'>> {
  const options = {
    folder: postgresFolder(dataFolder),
    log: (line: string) => log.debug({ postgres: line }),
  };
  let isStopped = false;
  let server: EmbeddedPostgres;
  // The longest part of a first start.
  if (!existsSync(join(options.folder, 'data'))) {
    log.info({ folder: options.folder }, 'creating the database');
    if (process.stderr.isTTY) process.stderr.write('Creating the database. This takes a few seconds.\n');
  }
  try {
    server = await startEmbeddedPostgres(options);
  } catch (error) {
    if (!shares || !(error instanceof FolderInUseError)) throw error;
    return { connection: await runningPostgres(options.folder), stop: async () => {} };
  }
  const restartWhenDead = (): void => {
    void server.exited.then(async (how) => {
      if (isStopped) return;
      log.error(how, 'embedded PostgreSQL died; restarting');
      for (;;) {
        try {
          server = await startEmbeddedPostgres(options);
          return restartWhenDead();
        } catch (error) {
          // It starts again when there is space. Until then, replies say why.
          const problem = new DatabaseDisk(dataFolder).problem();
          if (problem === null) {
            log.fatal({ err: error }, 'embedded PostgreSQL failed to restart');
            process.exit(1);
          }
          log.error({ err: error, problem }, 'embedded PostgreSQL failed to restart; retrying');
          await pause(restartMs);
        }
      }
    });
  };
  restartWhenDead();
  return {
    connection: server.connection,
    async stop() {
      isStopped = true;
      await server.stop();
    },
  };
}

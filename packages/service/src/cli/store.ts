import type pg from 'pg';
import type { Log } from '../lib/log.ts';
import { openDatabase } from '../store/connection.ts';
import {
  type EmbeddedPostgres,
  FolderInUseError,
  runningPostgres,
  startEmbeddedPostgres,
} from '../store/embedded/embedded-postgres.ts';
import { expectMigrated, migrate } from '../store/migrate.ts';
import type { Config } from './config.ts';

export interface OpenStore {
  readonly database: pg.Pool;
  readonly connection: pg.ClientConfig;
  readonly isEmbedded: boolean;
  /** The migrations that were applied while it was opened. */
  readonly migrated: readonly string[];
  close(): Promise<void>;
}

/**
 * Opens the database at DATABASE_URL, or starts the embedded PostgreSQL in the data folder. With `shares`, a command may
 * use the embedded server of a service that is running; a second service may not.
 */
export async function openStore(
  config: Pick<Config, 'databaseUrl' | 'dataFolder' | 'migrates'>,
  log: Log,
  { shares = false } = {},
): Promise<OpenStore> {
  const embedded = config.databaseUrl ? null : await startEmbedded(config.dataFolder, log, shares);
  const connection: pg.ClientConfig = config.databaseUrl
    ? { connectionString: config.databaseUrl }
    : { ...embedded?.connection };
  const migrated = await prepareSchema(connection, config.migrates, log).catch(async (error: unknown) => {
    await embedded?.stop();
    throw error;
  });
  const database = openDatabase(connection, (error) => log.warn({ err: error }, 'database connection lost'));
  return {
    database,
    connection,
    isEmbedded: embedded !== null,
    migrated,
    async close() {
      await database.end();
      await embedded?.stop();
    },
  };
}

async function prepareSchema(connection: pg.ClientConfig, migrates: boolean, log: Log): Promise<string[]> {
  if (!migrates) {
    await expectMigrated(connection);
    return [];
  }
  const onWait = (waitsFor: string) => log.warn({ waitsFor }, 'migration is waiting');
  const migrated = await migrate(connection, { onWait });
  if (migrated.length > 0) log.info({ migrations: migrated }, 'schema migrated');
  return migrated;
}

/** Starts the embedded server, and restarts it when it dies. */
async function startEmbedded(
  dataFolder: string,
  log: Log,
  shares: boolean,
): Promise<Pick<EmbeddedPostgres, 'connection' | 'stop'>> {
  const options = { folder: `${dataFolder}/postgres`, log: (line: string) => log.debug({ postgres: line }) };
  let isStopped = false;
  let server: EmbeddedPostgres;
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
      try {
        server = await startEmbeddedPostgres(options);
        restartWhenDead();
      } catch (error) {
        log.fatal({ err: error }, 'embedded PostgreSQL failed to restart');
        process.exit(1);
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

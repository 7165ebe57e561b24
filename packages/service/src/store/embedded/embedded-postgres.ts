import { mkdir, realpath } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { prepareBinaries } from './binaries.ts';
import {
  chooseSocketFolder,
  clearStaleFiles,
  dataArgument,
  ensureData,
  port,
  readPassword,
  readPostmasterFile,
  refuseForeignFolder,
  superuser,
} from './data-folder.ts';
import { type Exit, takeFolder, type Watched } from './folder-lock.ts';
import { chooseIdentity, EmbeddedPostgresFailedError, FolderInUseError, ownFolder } from './processes.ts';

export {
  EmbeddedPostgresFailedError,
  EmbeddedPostgresUnavailableError,
  FolderInUseError,
} from './processes.ts';

/**
 * A real PostgreSQL as part of the service: no set-up, full durability, one folder.
 *
 *   processes.ts    the user it runs as: PostgreSQL refuses root, so root becomes `nobody` in a user namespace
 *   binaries.ts     programs and libraries from an npm package
 *   data-folder.ts  initdb, password, socket
 *   folder-lock.ts  one service per folder; the server ends with the service, even after kill -9
 */
export interface EmbeddedPostgres {
  /** For `new pg.Pool(...)`. The host is the folder of a unix socket. */
  readonly connection: { host: string; port: number; user: string; database: string; password: string };
  /** The postmaster's. */
  readonly pid: number;
  /** Fast shutdown; resolves when the server is gone. */
  stop(): Promise<void>;
  /** Resolves when the server ends without `stop()` having been asked for; the owner may then start it again. */
  readonly exited: Promise<Exit>;
}

export interface EmbeddedPostgresOptions {
  /** Made 0700 if it is not there. */
  folder: string;
  /** More settings, as in postgresql.conf. */
  settings?: Record<string, string>;
  /** Receives the server's log, line by line. */
  log?: (line: string) => void;
}

const database = 'muster';
const readyPollMs = 5;
const shutdownSteps = [
  ['SIGINT', 20_000], // fast: ends sessions, writes a checkpoint
  ['SIGQUIT', 10_000], // immediate: the next start recovers from the log
  ['SIGKILL', 10_000],
] as const;

/** Folders with a server of this process: the lock does not tell servers of one process apart. */
const runningHere = new Set<string>();

export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  const folder = await realpath(options.folder);
  if (runningHere.has(folder)) throw new FolderInUseError(folder, process.pid);
  runningHere.add(folder);
  try {
    return await start(folder, options);
  } catch (error) {
    runningHere.delete(folder);
    throw error;
  }
}

/** How to reach the server that another process of ours runs on this folder. */
export async function runningPostgres(path: string): Promise<EmbeddedPostgres['connection']> {
  const folder = await realpath(path);
  const host = await chooseSocketFolder(folder, await chooseIdentity());
  return { host, port, user: superuser, database, password: await readPassword(join(folder, 'data')) };
}

async function start(folder: string, options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const dataFolder = join(folder, 'data');
  const identity = await chooseIdentity();
  await refuseForeignFolder(folder);
  await ownFolder(folder, identity);
  const binaries = await prepareBinaries(folder, identity);
  const socketFolder = await chooseSocketFolder(folder, identity);

  const settings = { ...baseSettings, ...options.settings, ...socketSettings(socketFolder, dataFolder) };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const command = [binaries.postgres, '-D', dataArgument(dataFolder), ...flags];
  const log = options.log ?? (() => {});
  const watched = await takeFolder({ identity, folder, command, env: binaries.env, log });
  let password: string;
  try {
    await ensureData(folder, binaries, identity);
    await clearStaleFiles(folder, socketFolder);
    password = await readPassword(dataFolder);
  } catch (error) {
    await watched.giveUp();
    throw error;
  }

  watched.go();
  const connection = { host: socketFolder, port, user: superuser, database, password };
  try {
    await becomeReady(watched, dataFolder);
    await ensureDatabase(connection);
  } catch (error) {
    await shutDown(watched);
    throw error;
  }

  let stopping: Promise<void> | undefined;
  const exited = new Promise<Exit>((resolve) => {
    void watched.exit.then((exit) => {
      runningHere.delete(folder);
      if (stopping === undefined) resolve(exit);
    });
  });
  return {
    connection,
    pid: watched.pid,
    exited,
    stop: () => {
      stopping ??= shutDown(watched);
      return stopping;
    },
  };
}

const mebibyte = 1024 * 1024;
/** Of the machine, or of the container if that may use less. */
const memory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);

/** Sized for a small machine with two cores. Nothing here trades durability for speed. */
const baseSettings: Record<string, string> = {
  cluster_name: 'muster',
  listen_addresses: '',
  max_connections: '100',
  max_logical_replication_workers: '0',
  // A sixteenth of the memory. Of that, the server takes as much as the database needs.
  shared_buffers: `${Math.min(1024, Math.max(128, Math.floor(memory / 16 / mebibyte)))}MB`,
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  // On macOS a plain fsync stops at the drive's cache.
  ...(process.platform === 'darwin' ? { wal_sync_method: 'fsync_writethrough' } : {}),
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_destination: 'stderr',
  logging_collector: 'off',
  log_line_prefix: '[%p] ',
  log_checkpoints: 'off',
};

function socketSettings(socketFolder: string, dataFolder: string): Record<string, string> {
  return {
    port: String(port),
    unix_socket_permissions: '0700',
    // Relative to the data folder, in which the server starts: see `dataArgument`.
    unix_socket_directories: socketFolder === dataFolder ? '.' : `"${socketFolder}"`,
  };
}

/** Waits without a limit: recovery after a crash may take long, and the server's log shows it. */
async function becomeReady(watched: Watched, dataFolder: string): Promise<void> {
  let exit: Exit | undefined;
  void watched.exit.then((value) => {
    exit = value;
  });
  for (;;) {
    const postmaster = await readPostmasterFile(dataFolder);
    if (postmaster?.pid === watched.pid && postmaster.ready) return;
    if (exit !== undefined) {
      const how = exit.signal ?? `code ${exit.code}`;
      throw new EmbeddedPostgresFailedError(`PostgreSQL did not start (${how}).`, await watched.logTail());
    }
    await delay(readyPollMs);
  }
}

/** The database that initdb made gets our name: copying a template would take longer. */
async function ensureDatabase(connection: EmbeddedPostgres['connection']): Promise<void> {
  const client = new Client({ ...connection, database: 'template1' });
  // If the server dies now, its exit is handled; an error event without a listener would end this process.
  client.on('error', () => {});
  try {
    await client.connect();
    const found = await client.query('SELECT FROM pg_database WHERE datname = $1', [database]);
    if (found.rowCount === 0) await client.query(`ALTER DATABASE postgres RENAME TO ${database}`);
  } finally {
    await client.end();
  }
}

async function shutDown(watched: Watched): Promise<void> {
  for (const [signal, timeoutMs] of shutdownSteps) {
    watched.kill(signal);
    const timer = new AbortController();
    const timeout = delay(timeoutMs, false, { signal: timer.signal }).catch(() => false);
    const gone = await Promise.race([watched.exit.then(() => true), timeout]);
    timer.abort();
    if (gone) return;
  }
}

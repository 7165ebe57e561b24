import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { lstat, mkdir, mkdtemp, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Binaries } from './binaries.ts';
import {
  EmbeddedPostgresFailedError,
  FolderInUseError,
  hasPid,
  type Identity,
  isPostgresOn,
  ownerUid,
  ownFolder,
  runAs,
} from './processes.ts';

/**
 * The content of the folder, all of it 0700 and owned by the user that runs PostgreSQL:
 *
 *   lock                 held while a server runs here; contains the pid of its service
 *   data/                PostgreSQL's own; also the socket, and muster-password
 *   initdb-XXXXXX/       incomplete data, renamed to data/ when complete
 *   lib/, binaries/      see binaries.ts; only where they are needed
 */

export const superuser = 'muster';
export const port = 5432;

/**
 * The data folder as an argument of a PostgreSQL that is started in it. On Linux not by path: its user may not be
 * allowed to traverse the folders above, and the path may contain characters that are syntax in some setting.
 */
export function dataArgument(dataFolder: string): string {
  return process.platform === 'linux' ? '/proc/self/cwd' : dataFolder;
}

/** A mistyped path must not take over a folder with other files. */
export async function refuseForeignFolder(folder: string): Promise<void> {
  const foreign = (await readdir(folder)).find((name) => !/^(lock|data|lib|binaries|initdb-\w+)$/.test(name));
  if (foreign === undefined) return;
  throw new EmbeddedPostgresFailedError(
    `The folder ${folder} contains other files (${foreign}). The built-in PostgreSQL needs an empty folder or its own.`,
  );
}

/** Creates the data folder if there is none. After an interruption it starts again from the beginning. */
export async function ensureData(folder: string, binaries: Binaries, identity: Identity): Promise<void> {
  const dataFolder = join(folder, 'data');
  for (const name of await readdir(folder)) {
    if (name.startsWith('initdb-'))
      await rm(join(folder, name), { recursive: true, force: true, maxRetries: 5 });
  }
  if (existsSync(dataFolder)) return;

  const scratch = await mkdtemp(join(folder, 'initdb-'));
  const unfinished = join(scratch, 'data');
  await mkdir(unfinished, { mode: 0o700 });
  await writeFile(join(scratch, 'password'), randomBytes(32).toString('base64url'), { mode: 0o600 });
  await ownFolder(scratch, identity);
  const initdb = await runAs(
    identity,
    binaries.initdb,
    [
      `--pgdata=${dataArgument(unfinished)}`,
      `--username=${superuser}`,
      '--pwfile=../password',
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      '--no-instructions',
    ],
    { cwd: unfinished, env: binaries.env },
  );
  if (!initdb.ok) throw new EmbeddedPostgresFailedError('initdb failed.', initdb.problem);

  // initdb has synced what it wrote. The password is the last file to come in, the rename makes it count.
  await rename(join(scratch, 'password'), passwordFile(unfinished));
  await sync(passwordFile(unfinished));
  await sync(unfinished);
  await rename(unfinished, dataFolder);
  await sync(folder);
  await sync(dirname(folder));
  await rm(scratch, { recursive: true });
}

export function readPassword(dataFolder: string): Promise<string> {
  return readFile(passwordFile(dataFolder), 'utf8');
}

function passwordFile(dataFolder: string): string {
  return join(dataFolder, 'muster-password');
}

/**
 * Removes files of a killed server. The caller holds the lock, so no server of a service runs here. A live pid in these
 * files is a PostgreSQL that was started by hand, or an unrelated process, or a zombie of the dead server. PostgreSQL
 * would take the last two for a running server and refuse to start.
 */
export async function clearStaleFiles(folder: string, socketFolder: string): Promise<void> {
  const dataFolder = join(folder, 'data');
  const pid = (await readPostmasterFile(dataFolder))?.pid;
  if (pid !== undefined) {
    if (await isPostgresOn(dataFolder, pid)) throw new FolderInUseError(folder, pid);
    // Kept when no process has the pid: PostgreSQL reads from it which shared memory to check.
    if (hasPid(pid)) await rm(join(dataFolder, 'postmaster.pid'), { force: true });
  }
  await rm(join(socketFolder, `.s.PGSQL.${port}.lock`), { force: true });
}

/** The file of a running server has its pid on the first line and its state on the eighth. */
export async function readPostmasterFile(
  dataFolder: string,
): Promise<{ pid: number; ready: boolean } | undefined> {
  const file = await readFile(join(dataFolder, 'postmaster.pid'), 'utf8').catch(() => undefined);
  const lines = file?.split('\n');
  const pid = Number(lines?.[0]);
  return Number.isInteger(pid) && pid > 0 ? { pid, ready: lines?.[7]?.trim() === 'ready' } : undefined;
}

/** The kernel allows 107 bytes for the address of a socket (103 on macOS), and says nothing useful beyond. */
const longestSocketPath = 100;

/**
 * The data folder itself, or a short private one under the system's temporary folder. That one is left there in the
 * end, empty: the next service may have begun to use it by then.
 */
export async function chooseSocketFolder(folder: string, identity: Identity): Promise<string> {
  const dataFolder = join(folder, 'data');
  if (Buffer.byteLength(join(dataFolder, `.s.PGSQL.${port}`)) <= longestSocketPath) return dataFolder;
  const digest = createHash('sha256').update(folder).digest('hex').slice(0, 16);
  const short = join(tmpdir(), `muster-${digest}`);
  const chosen = (await makeOrReuse(short, identity)) ? short : await mkdtemp(join(tmpdir(), 'muster-'));
  await ownFolder(chosen, identity);
  return chosen;
}

/** Anybody may have put something of that name there before us; only a private folder that we made will do. */
async function makeOrReuse(path: string, identity: Identity): Promise<boolean> {
  try {
    await mkdir(path, { mode: 0o700 });
    return true;
  } catch {
    const found = await lstat(path);
    const isOurs = found.uid === ownerUid(identity) || found.uid === process.getuid?.();
    return isOurs && found.isDirectory() && (found.mode & 0o777) === 0o700;
  }
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

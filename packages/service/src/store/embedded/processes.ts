import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process';
import { chmod, lchown, lstat, mkdir, readdir, readFile, readlink } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';

/** Another service, or a PostgreSQL that was started by hand, uses the same folder. */
export class FolderInUseError extends Error {
  override readonly name = 'FolderInUseError';

  constructor(folder: string, pid: number | undefined) {
    const holder = pid === undefined ? 'a process that cannot be seen from here' : `process ${pid}`;
    super(`The folder ${folder} is in use by ${holder}; stop it first, or use another folder.`);
  }
}

/** This machine cannot run the PostgreSQL that comes with Muster. */
export class EmbeddedPostgresUnavailableError extends Error {
  override readonly name = 'EmbeddedPostgresUnavailableError';

  constructor(why: string) {
    super(
      `The built-in PostgreSQL cannot run here: ${why}. Set DATABASE_URL to use another PostgreSQL server.`,
    );
  }
}

/** PostgreSQL can run, but did not start. */
export class EmbeddedPostgresFailedError extends Error {
  override readonly name = 'EmbeddedPostgresFailedError';

  constructor(what: string, output = '') {
    super(output === '' ? what : `${what}\n${output}`);
  }
}

/**
 * The user that PostgreSQL runs as. It refuses uid 0, and `initdb` refuses a uid without a passwd entry.
 *
 * - `self`: an ordinary user.
 * - `namespace`: a user namespace that maps this user to `nobody`. Outside of it the files keep their owner, and a
 *   clone below a 0700 home stays readable.
 * - `nobody`: root where namespaces are off, as in a container with the default seccomp profile. The process has
 *   another user, so the folder is given to that user.
 */
export type Identity = 'self' | 'namespace' | 'nobody';

const nobodyId = 65534;
const enterNamespace = ['--user', `--map-user=${nobodyId}`, `--map-group=${nobodyId}`];

export interface SpawnPlace {
  cwd: string;
  /** Joins PATH and the C locale, which is all that the child inherits: PGDATA or PGOPTIONS of ours must not reach it. */
  env?: Record<string, string>;
  /** Its own session, so that a Ctrl-C at the terminal reaches us and not the database. */
  detached?: boolean;
}

export function spawnAs(
  identity: Identity,
  command: string,
  args: readonly string[],
  place: SpawnPlace,
): ChildProcessWithoutNullStreams {
  const options = {
    cwd: place.cwd,
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', ...place.env },
    detached: place.detached ?? false,
  };
  if (identity === 'namespace') return spawn('unshare', [...enterNamespace, command, ...args], options);
  if (identity === 'nobody') return spawn(command, args, { ...options, uid: nobodyId, gid: nobodyId });
  return spawn(command, args, options);
}

export interface Finished {
  ok: boolean;
  /** What it said on stderr, or why it could not be started. */
  problem: string;
}

/** Runs a program as `spawnAs` does, to its end. */
export async function runAs(...program: Parameters<typeof spawnAs>): Promise<Finished> {
  try {
    const child = spawnAs(...program);
    child.stdin.on('error', () => {});
    child.stdin.end();
    child.stdout.resume();
    const ended = new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    const [code, stderr] = await Promise.all([ended, text(child.stderr)]);
    return { ok: code === 0, problem: stderr.trim() };
  } catch (error) {
    return { ok: false, problem: error instanceof Error ? error.message : String(error) };
  }
}

export async function chooseIdentity(): Promise<Identity> {
  const isRoot = process.getuid?.() === 0;
  if (!isRoot && hasPasswdEntry()) return 'self';
  if (process.platform !== 'linux') {
    throw new EmbeddedPostgresUnavailableError('PostgreSQL refuses to run as root');
  }
  const trial = await runAs('namespace', 'sh', ['-c', ':'], { cwd: '/' });
  if (trial.ok) return 'namespace';
  if (isRoot) return 'nobody';
  throw new EmbeddedPostgresUnavailableError(
    `user ${process.getuid?.()} has no passwd entry and user namespaces are off`,
  );
}

function hasPasswdEntry(): boolean {
  try {
    return userInfo().username !== '';
  } catch {
    return false;
  }
}

/** The uid that must own what PostgreSQL owns, seen from outside any namespace. */
export function ownerUid(identity: Identity): number {
  return identity === 'nobody' ? nobodyId : (process.getuid?.() ?? 0);
}

/** Creates a 0700 folder, and gives it with its content to the identity if another user owns it. */
export async function ownFolder(folder: string, identity: Identity): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const found = await lstat(folder);
  const uid = ownerUid(identity);
  if (found.uid !== uid && process.getuid?.() !== 0) {
    throw new EmbeddedPostgresFailedError(`The folder ${folder} belongs to another user (uid ${found.uid}).`);
  }
  if (found.uid !== uid) {
    // The identity of a root service can change from one start to the next. The folder itself comes last, so
    // that an interrupted hand-over is begun again.
    await giveContents(folder, uid);
    await lchown(folder, uid, uid);
  }
  if ((found.mode & 0o777) !== 0o700) await chmod(folder, 0o700);
}

async function giveContents(folder: string, uid: number): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await giveContents(path, uid);
    await lchown(path, uid, uid);
  }
}

/**
 * Facts about a process that is not a child of this one. A pid alone proves nothing: after a crash another process may
 * have it. Its start time and its working folder do.
 */

const linux = process.platform === 'linux';

/** Whether a process has this pid, zombies included, as PostgreSQL checks it. */
export function hasPid(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** A text that two processes with the same pid do not share; undefined when the process is gone. */
export async function startTime(pid: number): Promise<string | undefined> {
  if (!linux) return ps(pid, 'lstart=');
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  // The name in parentheses may itself hold spaces and parentheses.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
  const state = fields?.[0];
  return state === undefined || state === 'Z' || state === 'X' ? undefined : fields?.[19];
}

/** Whether the pid is a PostgreSQL process that works on this data folder. */
export async function isPostgresOn(dataFolder: string, pid: number): Promise<boolean> {
  // On macOS nothing cheap tells the folder, so any PostgreSQL with that pid counts.
  if (!linux) return (await ps(pid, 'comm='))?.endsWith('postgres') ?? false;
  const [name, cwd] = await Promise.all([
    readFile(`/proc/${pid}/comm`, 'utf8').catch(() => ''),
    readlink(`/proc/${pid}/cwd`).catch(() => ''),
  ]);
  return name.trim() === 'postgres' && cwd === dataFolder && (await startTime(pid)) !== undefined;
}

/**
 * All PostgreSQL processes on this data folder, except those in other containers, where the same path may be another
 * folder. On macOS none can be found.
 */
export async function findPostgresOn(dataFolder: string): Promise<number[]> {
  if (!linux) return [];
  const found: number[] = [];
  for (const name of await readdir('/proc')) {
    const pid = /^\d+$/.test(name) ? Number(name) : undefined;
    if (pid === undefined || !(await isPostgresOn(dataFolder, pid))) continue;
    if ((await pidNamespace(pid)) === (await pidNamespace('self'))) found.push(pid);
  }
  return found;
}

async function pidNamespace(pid: number | 'self'): Promise<string | undefined> {
  return readlink(`/proc/${pid}/ns/pid`).catch(() => undefined);
}

async function ps(pid: number, column: string): Promise<string | undefined> {
  const answer = await promisify(execFile)('ps', ['-p', String(pid), '-o', column]).catch(() => undefined);
  return answer?.stdout.trim() || undefined;
}

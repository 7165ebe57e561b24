import { execFile } from 'node:child_process';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { promisify } from 'node:util';

/**
 * What can be known about a process that is not our child. A pid alone proves nothing: after a crash the number
 * may belong to somebody else. Its start time, or the folder that it works in, tells.
 */

const linux = process.platform === 'linux';

/** Whether anything has this pid, be it a zombie: the question that PostgreSQL asks. */
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
  // A zombie does nothing any more; it only waits for its parent to notice.
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
 * All PostgreSQL processes on this data folder. Not those in a container of their own: what looks like the same
 * folder may be another one there, and their owner is not visible from here. On macOS none can be told.
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

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { FolderInUseError } from './errors.ts';
import { findPostgresOn, startTime } from './process-facts.ts';
import { takeLock, type Watched, type WatchedCommand } from './watchdog.ts';

const pollMs = 25;
/** How long what is left of an earlier server may take to go by itself. */
const graceMs = 1_000;
const patienceMs = 30_000;

interface Owner {
  pid: number;
  startTime: string;
}

/**
 * Takes the folder for this process. A lock that is held has one of two meanings. If the service that took it
 * lives, the folder is in use, and we say so at once. If it does not, or was an earlier server of our own, then
 * only its PostgreSQL is left: a watcher is stopping it, or a backend lost its postmaster in the middle of a
 * long query. We wait for these, and after a while send them off: nobody is left to hear their answer, and what
 * they acknowledged is on disk.
 */
export async function takeFolder(wanted: WatchedCommand): Promise<Watched> {
  const dataFolder = join(wanted.folder, 'data');
  const since = performance.now();
  for (;;) {
    const watched = await takeLock(wanted);
    if (watched !== undefined) {
      try {
        await recordOwner(wanted.folder);
        return watched;
      } catch (error) {
        await watched.giveUp();
        throw error;
      }
    }
    const owner = await livingOwner(wanted.folder);
    if (owner !== undefined) throw new FolderInUseError(wanted.folder, owner);

    const waitedMs = performance.now() - since;
    if (waitedMs > graceMs) {
      const leftovers = await findPostgresOn(dataFolder);
      if (waitedMs > patienceMs) throw new FolderInUseError(wanted.folder, leftovers[0]);
      for (const pid of leftovers) quit(pid);
    }
    await delay(pollMs);
  }
}

async function recordOwner(folder: string): Promise<void> {
  // Written in place: another file under this name would carry another lock.
  await writeFile(join(folder, 'lock'), `${process.pid} ${await startTime(process.pid)}\n`);
}

async function livingOwner(folder: string): Promise<number | undefined> {
  const owner = parseOwner(await readFile(join(folder, 'lock'), 'utf8'));
  // This process keeps count of the servers it runs, so a lock of its own is one that a dead server left.
  if (owner === undefined || owner.pid === process.pid) return undefined;
  return (await startTime(owner.pid)) === owner.startTime ? owner.pid : undefined;
}

function parseOwner(record: string): Owner | undefined {
  const [, pid, time] = /^(\d+) (.+)\n/.exec(record) ?? [];
  return pid === undefined || time === undefined ? undefined : { pid: Number(pid), startTime: time };
}

function quit(pid: number): void {
  try {
    process.kill(pid, 'SIGQUIT');
  } catch {
    // It went by itself in the meantime.
  }
}

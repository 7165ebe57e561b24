import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import {
  EmbeddedPostgresFailedError,
  EmbeddedPostgresUnavailableError,
  FolderInUseError,
  findPostgresOn,
  type Identity,
  spawnAs,
  startTime,
} from './processes.ts';

const pollMs = 25;
/** How long processes of an earlier server may take to end by themselves, and then after a signal. */
const graceMs = 1_000;
const timeoutMs = 30_000;

/**
 * Takes the folder for this process. A held lock means one of two things. If the service that took it is alive, the
 * folder is in use. Otherwise only its PostgreSQL is left: a watcher is stopping it, or a backend without a postmaster
 * is in a long query. These are waited for, and ended after a while: no client is left, and what they acknowledged is
 * on disk.
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
      if (waitedMs > timeoutMs) throw new FolderInUseError(wanted.folder, leftovers[0]);
      for (const pid of leftovers) quit(pid);
    }
    await delay(pollMs);
  }
}

async function recordOwner(folder: string): Promise<void> {
  // Written in place: a new file of this name would have another lock.
  await writeFile(join(folder, 'lock'), `${process.pid} ${await startTime(process.pid)}\n`);
}

async function livingOwner(folder: string): Promise<number | undefined> {
  const [, pid, time] = /^(\d+) (.+)\n/.exec(await readFile(join(folder, 'lock'), 'utf8')) ?? [];
  // `runningHere` has the live servers of this process, so its own pid here is that of a dead server.
  if (pid === undefined || Number(pid) === process.pid) return undefined;
  return (await startTime(Number(pid))) === time ? Number(pid) : undefined;
}

function quit(pid: number): void {
  try {
    process.kill(pid, 'SIGQUIT');
  } catch {
    // It has ended meanwhile.
  }
}

/**
 * Why a watcher: PostgreSQL does not notice that the process which started it has ended. After a `kill -9` of the service
 * it would run on, and the next start would find the folder in use. So Node starts a small shell script, which holds the
 * read end of a pipe from Node, forks a watcher, and becomes PostgreSQL by `exec`. Node's child is thus the postmaster
 * itself. However Node ends, the kernel closes the pipe, and the watcher stops the server: fast, immediate, by force.
 *
 *   sh ── lock ── "locked" ──▶ Node prepares the data ── "go" ──▶ fork watcher, exec postgres
 *                                                                   watcher: "gone" → nothing to do, leave
 *                                                                            end of pipe → stop the server
 *
 * Why a lock beside the pid file: after a crash a pid file proves nothing. An flock belongs to the open file, every
 * PostgreSQL process inherits that file, and the kernel releases the lock when the last of them has ended. So the
 * holder of the lock knows that no backend of an earlier server still writes. The watcher does not hold it.
 *
 * Why the paths in the script are relative: the user that PostgreSQL runs as (`processes.ts`) may not be allowed to
 * traverse the folders above. `cd -P`, because a plain `cd` makes the path absolute.
 */

const busy = 75;
const noLockTool = 73;

// `( ( … ) & )` detaches the watcher: PostgreSQL reaps all its children and does not expect this one. `alive` looks for
// zombies, because the first process of a container may never reap them; macOS has no /proc. The file descriptor is 9
// because a POSIX shell guarantees only one digit.
const script = `
exec 9<>lock
if command -v flock >/dev/null 2>&1; then flock -n 9
elif command -v perl >/dev/null 2>&1; then perl -e 'open(my $f, "<&=", 9); exit(flock($f, 6) ? 0 : 1)'
else exit ${noLockTool}; fi
case $? in 0) ;; 1) exit ${busy} ;; *) exit 1 ;; esac
echo locked
read -r go || exit 0
exec 3<&0 </dev/null
alive() {
  kill -0 $$ || return 1
  stat=
  read -r stat </proc/$$/stat
  case $stat in *') Z '*) return 1 ;; esac
}
( (
  trap '' TERM HUP
  read -r gone <&3 && exit 0
  for signal in INT QUIT KILL; do
    kill -$signal $$ || exit 0
    left=100
    while [ $left -gt 0 ]; do
      alive || exit 0
      sleep 0.1
      left=$((left - 1))
    done
  done
) 9>&- >/dev/null 2>&1 & )
cd -P data || exit 1
exec "$@" 3<&- >&2
`;

export interface Exit {
  code: number | null;
  signal: string | null;
}

/** A process that holds the folder's lock and becomes the PostgreSQL server on `go`. */
export interface Watched {
  readonly pid: number;
  readonly exit: Promise<Exit>;
  go(): void;
  /** Releases the lock without a start of PostgreSQL. */
  giveUp(): Promise<void>;
  kill(signal: NodeJS.Signals): void;
  /** The last lines of the server's log, complete once the process has ended. */
  logTail(): Promise<string>;
}

export interface WatchedCommand {
  identity: Identity;
  folder: string;
  command: readonly string[];
  env: Record<string, string>;
  log: (line: string) => void;
}

/** Takes the lock on the folder; undefined if another process has it. */
async function takeLock(wanted: WatchedCommand): Promise<Watched | undefined> {
  const child = spawnAs(wanted.identity, 'sh', ['-c', script, 'muster-postgres', ...wanted.command], {
    cwd: wanted.folder,
    env: wanted.env,
    detached: true,
  });
  // A failed write to a process that has just ended does not matter: its exit is handled.
  child.stdin.on('error', () => {});
  const lines = collectLog(child, wanted.log);
  const exit = new Promise<Exit>((resolve, reject) => {
    child.on('error', reject);
    child.once('exit', (code, signal) => {
      child.stdin.end('gone\n');
      resolve({ code, signal });
    });
  });
  const locked = once(child.stdout, 'data').then(() => 'locked' as const);
  const answer = await Promise.race([locked, exit]);
  if (answer !== 'locked') {
    if (answer.code === busy) return undefined;
    if (answer.code === noLockTool) {
      throw new EmbeddedPostgresUnavailableError('neither flock (from util-linux) nor perl is on the PATH');
    }
    throw new EmbeddedPostgresFailedError(`The folder ${wanted.folder} could not be locked.`, await lines());
  }
  return {
    pid: child.pid ?? 0,
    exit,
    go: () => child.stdin.write('go\n'),
    giveUp: async () => {
      child.stdin.end();
      await exit;
    },
    kill: (signal) => child.kill(signal),
    logTail: lines,
  };
}

const maxLines = 20;

function collectLog(
  child: ChildProcessWithoutNullStreams,
  log: (line: string) => void,
): () => Promise<string> {
  const tail: string[] = [];
  const reader = createInterface({ input: child.stderr });
  reader.on('line', (line) => {
    tail.push(line);
    if (tail.length > maxLines) tail.shift();
    log(line);
  });
  const ended = once(reader, 'close');
  return async () => {
    // Not longer: a backend that outlives its postmaster keeps the log open.
    await Promise.race([ended, delay(500, undefined, { ref: false })]);
    return tail.join('\n');
  };
}

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

/**
 * Why a watchdog. PostgreSQL does not notice that the process which started it is gone. After a `kill -9` of the
 * service it would run on, unseen, and the next start would find the folder taken. So what Node starts is a small
 * shell script, which holds the read end of a pipe from Node, forks a watcher, and then turns into PostgreSQL by
 * `exec`. Node's child is thus the postmaster itself: its pid and its exit are PostgreSQL's own. However Node ends,
 * the kernel closes the pipe, and the watcher stops the server: first fast, then immediate, then by force.
 *
 *   sh ── lock ── "locked" ──▶ Node prepares the data ── "go" ──▶ fork watcher, exec postgres
 *                                                                   watcher: "gone" → nothing to do, leave
 *                                                                            end of pipe → stop the server
 *
 * Why a lock of our own. A pid file can only be guessed about after a crash. An flock cannot: it belongs to the
 * open file, every PostgreSQL process inherits that file, and the kernel lets go of the lock when the last of them
 * is gone. Whoever gets it knows that no backend of an earlier server still writes, and may clear away what that
 * server left. The watcher does not keep it.
 *
 * Why these processes run as somebody else: see `identity.ts`. Why every path in the script is relative: the
 * identity may not be able to walk down to the folder from the root, but it may stand in it. (`cd -P`, because a
 * plain `cd` makes the path absolute.)
 */

const busy = 75;
const noLockTool = 73;

// `( ( … ) & )` makes the watcher nobody's child: PostgreSQL reaps all its children and would wonder about this one.
// `alive` looks for zombies, because the first process of a container may never reap them; macOS has no /proc, and
// is spared the question. The numbered file is 9 because a POSIX shell promises no more than one digit.
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

/** A process that holds the folder's lock and, once told to go on, is the PostgreSQL server. */
export interface Watched {
  readonly pid: number;
  readonly exit: Promise<Exit>;
  /** Becomes PostgreSQL. */
  go(): void;
  /** Lets go of the lock without having started anything. */
  giveUp(): Promise<void>;
  kill(signal: NodeJS.Signals): void;
  /** The last lines of the server's log, complete once the process has ended. */
  lastWords(): Promise<string>;
}

export interface WatchedCommand {
  identity: Identity;
  folder: string;
  command: readonly string[];
  env: Record<string, string>;
  log: (line: string) => void;
}

/** Takes the lock on the folder; answers undefined when somebody else has it. */
export async function takeLock(wanted: WatchedCommand): Promise<Watched | undefined> {
  const child = spawnAs(wanted.identity, 'sh', ['-c', script, 'muster-postgres', ...wanted.command], {
    cwd: wanted.folder,
    env: wanted.env,
    detached: true,
  });
  // Writing to a process that has just died is no error here: its exit is what counts.
  child.stdin.on('error', () => {});
  const lines = keepLines(child, wanted.log);
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
    lastWords: lines,
  };
}

const keptLines = 20;

function keepLines(
  child: ChildProcessWithoutNullStreams,
  log: (line: string) => void,
): () => Promise<string> {
  const kept: string[] = [];
  const reader = createInterface({ input: child.stderr });
  reader.on('line', (line) => {
    kept.push(line);
    if (kept.length > keptLines) kept.shift();
    log(line);
  });
  const ended = once(reader, 'close');
  return async () => {
    // A backend that outlives its postmaster keeps the log open, and nobody should wait for that.
    await Promise.race([ended, delay(500, undefined, { ref: false })]);
    return kept.join('\n');
  };
}

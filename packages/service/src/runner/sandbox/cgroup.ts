import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isRunning, parseStat } from './proc.ts';

/**
 * Limits on what a run takes of the machine, by control groups: a group per run, which each of its processes enters
 * before it becomes the agent's. Version 2 has one tree for all controllers, version 1 a tree for each; where a system
 * has both, each controller is in one of them. Groups are made below the runner's own, so whatever limits the runner
 * limits its agents as well.
 *
 * The groups of a run are made when its first process starts: most rehearsed runs start none. The files belong to the
 * kernel and not to a disk, so they are read and written synchronously.
 *
 * `processes` counts as the kernel does: every thread of every process.
 */
export interface GroupLimits {
  readonly cpus?: number;
  readonly memoryMb?: number;
  readonly processes?: number;
}

export type GroupLimit = keyof GroupLimits;

export interface Limits {
  /** The command line that puts itself under the limits and then becomes the given one. */
  wrap(argv: readonly string[]): readonly string[];
  /** How often the kernel has enforced each limit: killed a process, refused to start one. */
  reached(): { readonly memoryMb: number; readonly processes: number };
  /** Once no process of the run is left. */
  remove(): Promise<void>;
}

/** What is read and written below /proc and /sys/fs/cgroup. */
export interface GroupFiles {
  read(path: string): string;
  write(path: string, value: string): void;
  makeFolder(path: string): void;
  removeFolder(path: string): void;
  list(path: string): readonly string[];
}

export const systemFiles: GroupFiles = {
  read: (path) => readFileSync(path, 'utf8'),
  // Never makes a file: one that is not there belongs to a controller that is not offered.
  write: (path, value) => writeFileSync(path, value, { flag: 'r+' }),
  makeFolder: (path) => void mkdirSync(path, { recursive: true }),
  removeFolder: (path) => rmdirSync(path),
  list: (path) => readdirSync(path),
};

type Controller = 'cpu' | 'memory' | 'pids';
type Setting = readonly [file: string, value: string];

interface Wanted {
  readonly limit: GroupLimit;
  readonly amount: number;
  readonly controller: Controller;
  /** By version of the control groups. Files in `also` are set where they are. */
  readonly settings: Readonly<
    Record<1 | 2, { readonly must: readonly Setting[]; readonly also: readonly Setting[] }>
  >;
}

const periodUs = 100_000;
const prefix = 'muster-';
/** Where the runner itself goes when its group may hold no process. */
const asideName = 'muster-runner';
/** A group that is empty may be busy for a moment still. */
const removeMs = 2000;

export function limitsFor(
  limits: GroupLimits,
  name: string,
  onNotEnforced: (limit: GroupLimit, text: string) => void = () => {},
  files: GroupFiles = systemFiles,
): Limits {
  const folders = new Map<GroupLimit, string>();
  let isMade = false;
  const make = (): void => {
    if (isMade) return;
    isMade = true;
    for (const wanted of wantedBy(limits)) {
      try {
        const groupName = `${prefix}${ownId(files)}-${name.replaceAll(/[^\w-]/g, '-')}`;
        folders.set(wanted.limit, setLimit(wanted, groupName, files));
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        onNotEnforced(
          wanted.limit,
          `The limit ${wanted.limit}: ${wanted.amount} is not enforced on this runner: ${why}`,
        );
      }
    }
  };
  return {
    wrap: (argv) => {
      make();
      const entries = [...new Set(folders.values())].map((folder) => join(folder, 'cgroup.procs'));
      return ['/bin/sh', '-c', enterScript, 'sh', ...entries, '--', ...argv];
    },
    reached: () => ({
      memoryMb: Math.max(
        countIn(files, folders.get('memoryMb'), 'memory.events', 'oom_kill'),
        countIn(files, folders.get('memoryMb'), 'memory.oom_control', 'oom_kill'),
      ),
      processes: countIn(files, folders.get('processes'), 'pids.events', 'max'),
    }),
    remove: () => removeAll(new Set(folders.values()), files),
  };
}

/** Groups whose runner is gone. To be called when a runner starts. */
export async function removeStaleLimits(files: GroupFiles = systemFiles): Promise<void> {
  for (const controller of ['cpu', 'memory', 'pids'] as const) {
    const folder = attempt(() => placeOf(controller, files).folder);
    for (const name of (folder && attempt(() => files.list(folder))) || []) {
      const [, pid, startTime = ''] = /^muster-(\d+)\.(\d+)-/.exec(name) ?? [];
      if (!folder || !pid || (await isRunning({ pid: Number(pid), startTime }))) continue;
      attempt(() => files.removeFolder(join(folder, name)));
    }
  }
}

function attempt<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch {
    return undefined;
  }
}

const ownId = (files: GroupFiles): string =>
  `${process.pid}.${attempt(() => parseStat(files.read('/proc/self/stat'))?.startTime) ?? 0}`;

/** Lines of `name count`. */
function countIn(files: GroupFiles, folder: string | undefined, file: string, name: string): number {
  if (folder === undefined) return 0;
  const text = attempt(() => files.read(join(folder, file))) ?? '';
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
}

function wantedBy({ cpus = 0, memoryMb = 0, processes = 0 }: GroupLimits): Wanted[] {
  const quotaUs = `${Math.max(1000, Math.round(cpus * periodUs))}`;
  const bytes = `${Math.round(memoryMb * 1024 * 1024)}`;
  const pids = { must: [['pids.max', `${processes}`]], also: [] } as const;
  const wanted: readonly Wanted[] = [
    {
      limit: 'cpus',
      amount: cpus,
      controller: 'cpu',
      settings: {
        1: {
          must: [
            ['cpu.cfs_period_us', `${periodUs}`],
            ['cpu.cfs_quota_us', quotaUs],
          ],
          also: [],
        },
        2: { must: [['cpu.max', `${quotaUs} ${periodUs}`]], also: [] },
      },
    },
    {
      limit: 'memoryMb',
      amount: memoryMb,
      controller: 'memory',
      settings: {
        1: { must: [['memory.limit_in_bytes', bytes]], also: [['memory.memsw.limit_in_bytes', bytes]] },
        2: { must: [['memory.max', bytes]], also: [['memory.swap.max', '0']] },
      },
    },
    { limit: 'processes', amount: processes, controller: 'pids', settings: { 1: pids, 2: pids } },
  ];
  return wanted.filter(({ amount }) => amount > 0);
}

function setLimit({ controller, settings }: Wanted, groupName: string, files: GroupFiles): string {
  const place = placeOf(controller, files);
  if (place.version === 2) enable(place.folder, controller, files);
  const folder = join(place.folder, groupName);
  files.makeFolder(folder);
  const { must, also } = settings[place.version];
  try {
    for (const [file, value] of must) files.write(join(folder, file), value);
  } catch (error) {
    attempt(() => files.removeFolder(folder));
    throw error;
  }
  for (const [file, value] of also) attempt(() => files.write(join(folder, file), value));
  return folder;
}

interface Place {
  readonly version: 1 | 2;
  /** The runner's own group. */
  readonly folder: string;
}

/** Lines of mountinfo: `… root mountPoint options… - type source superOptions`. */
function placeOf(controller: Controller, files: GroupFiles): Place {
  const mounts = files.read('/proc/self/mountinfo').split('\n');
  const groups = files.read('/proc/self/cgroup').split('\n');
  for (const mount of mounts) {
    const [left = '', right = ''] = mount.split(' - ');
    const [, , , root = '/', point = ''] = left.split(' ');
    const [type, , options = ''] = right.split(' ');
    if (type === 'cgroup' && options.split(',').includes(controller)) {
      const own = groups
        .map((line) => line.split(':'))
        .find(([, names]) => names?.split(',').includes(controller));
      return { version: 1, folder: join(point, below(root, own?.slice(2).join(':') ?? '/')) };
    }
    if (type === 'cgroup2') {
      const own = groups.find((line) => line.startsWith('0::'))?.slice(3) ?? '/';
      const folder = join(point, below(root, own)).replace(new RegExp(`/${asideName}$`), '');
      const offered = attempt(() => files.read(join(folder, 'cgroup.controllers'))) ?? '';
      if (offered.trim().split(' ').includes(controller)) return { version: 2, folder };
    }
  }
  throw new Error(`this system offers the runner no control group for ${controller}`);
}

/** The path of a group as seen from the root of its mount. */
const below = (root: string, path: string): string =>
  root !== '/' && path.startsWith(root) ? path.slice(root.length) : path;

/**
 * In version 2 a group hands controllers to its children only while it holds no process itself. The runner moves itself
 * and what it started, such as the embedded PostgreSQL, to a group beside those of its runs. It moves no other process.
 */
function enable(folder: string, controller: Controller, files: GroupFiles): void {
  const file = join(folder, 'cgroup.subtree_control');
  if (files.read(file).trim().split(' ').includes(controller)) return;
  const isEnabled = attempt(() => {
    files.write(file, `+${controller}`);
    return true;
  });
  if (isEnabled) return;
  moveAside(folder, files);
  files.write(file, `+${controller}`);
}

function moveAside(folder: string, files: GroupFiles): void {
  const pids = () => files.read(join(folder, 'cgroup.procs')).split('\n').filter(Boolean).map(Number);
  const others = pids().filter((pid) => !isOwn(pid, files));
  if (others.length > 0)
    throw new Error(`other processes are in the control group of the runner (pid ${others.join(', ')})`);
  const aside = join(folder, asideName);
  files.makeFolder(aside);
  for (const pid of pids()) attempt(() => files.write(join(aside, 'cgroup.procs'), `${pid}`));
  // What was started meanwhile is in the group of its parent, as that was then.
  for (const pid of pids()) attempt(() => files.write(join(aside, 'cgroup.procs'), `${pid}`));
}

/** The runner, or a process that it started, or one that those started. */
function isOwn(pid: number, files: GroupFiles): boolean {
  if (pid === process.pid) return true;
  const parent = attempt(() => parseStat(files.read(`/proc/${pid}/stat`))?.parent) ?? 0;
  return parent > 1 && isOwn(parent, files);
}

/**
 * Also: no core dumps, and when the machine itself runs out of memory the kernel kills an agent's processes before the
 * runner or its database.
 */
const enterScript = [
  'while [ "$1" != -- ]; do echo $$ > "$1" || exit 125; shift; done; shift',
  'ulimit -c 0',
  '{ read -r score < /proc/self/oom_score_adj && [ "$score" -lt 500 ] && echo 500 > /proc/self/oom_score_adj; } 2> /dev/null',
  'exec "$@"',
].join('\n');

async function removeAll(folders: ReadonlySet<string>, files: GroupFiles): Promise<void> {
  const until = performance.now() + removeMs;
  for (const folder of folders) {
    for (let ms = 1; performance.now() < until; ms = Math.min(2 * ms, 50)) {
      try {
        files.removeFolder(folder);
        break;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EBUSY') break;
      }
      await pause(ms);
    }
  }
}

import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { limits as contractLimits } from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import { startedPid } from '../../lib/service-process.ts';
import { isRunning, parseStat } from './proc.ts';

/**
 * What a run may use of the machine: the vm-profile of its pool, with built-in values for the rest. 0 means no limit.
 * CPU, memory and processes are limited by control groups: one group per run, which each process of the run enters
 * before it becomes the agent's. Version 2 has one tree for all controllers, version 1 one tree per controller; where a
 * system has both, each controller is in one of them. The groups are made below the runner's own group, so a limit on
 * the runner also applies to its agents.
 *
 * The groups are made when the first process of the run starts, because most rehearsed runs start none. The files belong
 * to the kernel and not to a disk, so they are read and written synchronously.
 */
export interface ResourceLimits extends GroupLimits {
  /** For each tmpfs folder of the sandbox: /tmp, /run and /dev/shm. */
  readonly scratchMb: number;
}

interface GroupLimits {
  readonly cpus?: number;
  readonly memoryMb?: number;
  /** As the kernel counts: every thread of every process. */
  readonly processes?: number;
}

export type VmProfile = Partial<ResourceLimits> & { readonly name?: string };

/** One agent must not take the whole machine, however small that is. */
const maxShareOfMachine = 0.75;

export function resourceLimits(profile: VmProfile, machineBytes = totalmem()): ResourceLimits {
  const { runMemoryMb, runProcesses, runScratchMb } = contractLimits;
  const machineMb = Math.floor((machineBytes / 1024 ** 2) * maxShareOfMachine);
  return {
    ...(profile.cpus !== undefined && { cpus: profile.cpus }),
    memoryMb: profile.memoryMb ?? Math.min(runMemoryMb, machineMb),
    processes: profile.processes ?? runProcesses,
    scratchMb: profile.scratchMb ?? runScratchMb,
  };
}

export interface RunGroup {
  /** A command line that enters the control groups and then becomes the given command. */
  wrap(argv: readonly string[]): readonly string[];
  /** How often the kernel has enforced each limit: killed a process, or refused to start one. */
  reached(): { readonly memoryMb: number; readonly processes: number };
  /** To be called when no process of the run is left. */
  remove(): Promise<void>;
}

/** Access to /proc and /sys/fs/cgroup. */
export type GroupFiles = typeof systemFiles;

const systemFiles = {
  read: (path: string): string => readFileSync(path, 'utf8'),
  // Never creates a file: a missing one belongs to a controller that is not available.
  write: (path: string, value: string): void => writeFileSync(path, value, { flag: 'r+' }),
  makeFolder: (path: string): void => void mkdirSync(path, { recursive: true }),
  removeFolder: (path: string): void => rmdirSync(path),
  list: (path: string): string[] => readdirSync(path),
};

type Controller = 'cpu' | 'memory' | 'pids';
type Setting = readonly [file: string, value: string];

interface LimitSettings {
  readonly limit: keyof GroupLimits;
  readonly amount: number;
  readonly controller: Controller;
  /** By version of the control groups. */
  readonly settings: Readonly<Record<1 | 2, readonly Setting[]>>;
  /** Set if the file exists. */
  readonly optional?: readonly Setting[];
}

const periodUs = 100_000;
const prefix = 'muster-';
/** The group for the runner itself, when its own group must not contain processes. */
const runnerGroup = 'muster-runner';
/** An empty group may be busy for a moment. */
const removeMs = 2000;
/**
 * Of a group in which processor time is shared between groups: there the lower priority of a process counts only among the
 * processes of its run. Versions 2 and 1; others have 100 and 1024.
 */
const weights: readonly Setting[] = [
  ['cpu.weight', '33'],
  ['cpu.shares', '341'],
];

export function groupFor(
  limits: GroupLimits,
  name: string,
  onNotEnforced: (limit: keyof GroupLimits, text: string) => void = () => {},
  files: GroupFiles = systemFiles,
): RunGroup {
  const folders = new Map<keyof GroupLimits, string>();
  let isCreated = false;
  const create = (): void => {
    if (isCreated) return;
    isCreated = true;
    const groupName = `${prefix}${runnerProcess(files)}-${name.replaceAll(/[^\w-]/g, '-')}`;
    for (const each of settingsFor(limits)) {
      try {
        folders.set(each.limit, setLimit(each, groupName, files));
      } catch (error) {
        const { limit, amount } = each;
        onNotEnforced(
          limit,
          `The limit ${limit}: ${amount} is not enforced on this runner: ${messageOf(error)}`,
        );
      }
    }
    for (const folder of new Set(folders.values()))
      for (const [file, value] of weights) attempt(() => files.write(join(folder, file), value));
  };
  return {
    wrap: (argv) => {
      create();
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

/** Removes the groups of runners that are gone. To be called when a runner starts. */
export async function removeStaleGroups(files: GroupFiles = systemFiles): Promise<void> {
  for (const controller of ['cpu', 'memory', 'pids'] as const) {
    const folder = attempt(() => parentGroup(controller, files).folder);
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

const runnerProcess = (files: GroupFiles): string =>
  `${process.pid}.${attempt(() => parseStat(files.read('/proc/self/stat'))?.startTime) ?? 0}`;

/** Lines of `name count`. */
function countIn(files: GroupFiles, folder: string | undefined, file: string, name: string): number {
  if (folder === undefined) return 0;
  const text = attempt(() => files.read(join(folder, file))) ?? '';
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
}

function settingsFor({ cpus = 0, memoryMb = 0, processes = 0 }: GroupLimits): LimitSettings[] {
  const quotaUs = `${Math.max(1000, Math.round(cpus * periodUs))}`;
  const bytes = `${Math.round(memoryMb * 1024 * 1024)}`;
  const cpuV1: Setting[] = [
    ['cpu.cfs_period_us', `${periodUs}`],
    ['cpu.cfs_quota_us', quotaUs],
  ];
  const pids: Setting[] = [['pids.max', `${processes}`]];
  const all: readonly LimitSettings[] = [
    {
      limit: 'cpus',
      amount: cpus,
      controller: 'cpu',
      settings: { 1: cpuV1, 2: [['cpu.max', `${quotaUs} ${periodUs}`]] },
    },
    {
      limit: 'memoryMb',
      amount: memoryMb,
      controller: 'memory',
      settings: { 1: [['memory.limit_in_bytes', bytes]], 2: [['memory.max', bytes]] },
      optional: [
        ['memory.memsw.limit_in_bytes', bytes],
        ['memory.swap.max', '0'],
      ],
    },
    { limit: 'processes', amount: processes, controller: 'pids', settings: { 1: pids, 2: pids } },
  ];
  return all.filter(({ amount }) => amount > 0);
}

function setLimit(
  { controller, settings, optional = [] }: LimitSettings,
  groupName: string,
  files: GroupFiles,
): string {
  const parent = parentGroup(controller, files);
  if (parent.version === 2) enable(parent.folder, controller, files);
  const folder = join(parent.folder, groupName);
  files.makeFolder(folder);
  try {
    for (const [file, value] of settings[parent.version]) files.write(join(folder, file), value);
  } catch (error) {
    attempt(() => files.removeFolder(folder));
    throw error;
  }
  for (const [file, value] of optional) attempt(() => files.write(join(folder, file), value));
  return folder;
}

/** The runner's own group. Lines of mountinfo: `… root mountPoint options… - type source superOptions`. */
function parentGroup(controller: Controller, files: GroupFiles): { version: 1 | 2; folder: string } {
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
      const folder = join(point, below(root, own)).replace(new RegExp(`/${runnerGroup}$`), '');
      const available = attempt(() => files.read(join(folder, 'cgroup.controllers'))) ?? '';
      if (available.trim().split(' ').includes(controller)) return { version: 2, folder };
    }
  }
  throw new Error(`this system has no ${controller} control group for the runner`);
}

/** The path of a group relative to the root of its mount. */
const below = (root: string, path: string): string =>
  root !== '/' && path.startsWith(root) ? path.slice(root.length) : path;

/**
 * In version 2 a group can enable controllers for its children only if it contains no processes. The runner moves the
 * processes of its service, such as the embedded PostgreSQL, to a sibling group. It moves no other process.
 */
function enable(folder: string, controller: Controller, files: GroupFiles): void {
  const file = join(folder, 'cgroup.subtree_control');
  if (files.read(file).trim().split(' ').includes(controller)) return;
  const add = () => files.write(file, `+${controller}`);
  try {
    add();
  } catch {
    moveRunner(folder, files);
    add();
  }
}

function moveRunner(folder: string, files: GroupFiles): void {
  const pids = () => files.read(join(folder, 'cgroup.procs')).split('\n').filter(Boolean).map(Number);
  const others = pids().filter((pid) => !isOwn(pid, files));
  if (others.length > 0)
    throw new Error(`the runner's control group contains other processes (pid ${others.join(', ')})`);
  const group = join(folder, runnerGroup);
  files.makeFolder(group);
  const moveAll = () => {
    for (const pid of pids()) attempt(() => files.write(join(group, 'cgroup.procs'), `${pid}`));
  };
  moveAll();
  // Processes that were started meanwhile are in the old group of their parent.
  moveAll();
}

/** A process of the service or runner: the one that was started, or one of its descendants. */
function isOwn(pid: number, files: GroupFiles): boolean {
  if (pid === startedPid()) return true;
  const parent = attempt(() => parseStat(files.read(`/proc/${pid}/stat`))?.parent) ?? 0;
  return parent > 1 && isOwn(parent, files);
}

/**
 * It also turns off core dumps, gives each process a third of the weight of one of the service, and makes the kernel kill an agent's processes before the runner or
 * its database when the machine runs out of memory.
 */
const enterScript = [
  'while [ "$1" != -- ]; do echo $$ > "$1" || exit 125; shift; done; shift',
  'ulimit -c 0',
  '{ read -r score < /proc/self/oom_score_adj && [ "$score" -lt 500 ] && echo 500 > /proc/self/oom_score_adj; } 2> /dev/null',
  'exec nice -n 5 "$@"',
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

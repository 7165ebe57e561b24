import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isRunning, processId } from './proc.ts';

/**
 * Limits on what a run takes of the machine, by control groups: a group per run, which each of its processes enters
 * before it becomes the agent's. Version 2 has one tree for all controllers, version 1 a tree for each; where a system
 * has both, each controller is in one of them. Groups are made below the runner's own, so whatever limits the runner
 * limits its agents as well. Where a controller can't be used its limit is named as not enforced.
 *
 * `processes` counts as the kernel does: every thread of every process.
 */
export interface VmProfile {
  readonly cpus?: number;
  readonly memoryMb?: number;
  readonly processes?: number;
}

export interface Limits {
  /** The command line that puts itself under the limits and then becomes the given one. */
  readonly wrap: (argv: readonly string[]) => readonly string[];
  /** A sentence for each limit that was asked for and does not hold here. */
  readonly notEnforced: readonly string[];
  /** Once no process of the run is left. */
  remove(): Promise<void>;
}

type Controller = 'cpu' | 'memory' | 'pids';
type Setting = readonly [file: string, value: string];

interface Wanted {
  readonly controller: Controller;
  readonly limit: string;
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

export async function limitsFor(profile: VmProfile, name: string): Promise<Limits> {
  const folders = new Set<string>();
  const notEnforced: string[] = [];
  const groupName = `${prefix}${await ownId()}-${name.replaceAll(/[^\w-]/g, '-')}`;
  for (const wanted of wantedBy(profile)) {
    try {
      folders.add(await setLimit(wanted, groupName));
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      notEnforced.push(`The limit ${wanted.limit} is not enforced: ${why}`);
    }
  }
  return { wrap: wrapper([...folders]), notEnforced, remove: () => removeAll([...folders]) };
}

/** Groups whose runner is gone. To be called when a runner starts. */
export async function removeStaleLimits(): Promise<void> {
  for (const controller of ['cpu', 'memory', 'pids'] as const) {
    const place = await placeOf(controller).catch(() => undefined);
    const names = place ? await readdir(place.folder).catch(() => []) : [];
    for (const name of names) {
      const [, pid, startTime = ''] = /^muster-(\d+)\.(\d+)-/.exec(name) ?? [];
      if (!place || !pid || (await isRunning({ pid: Number(pid), startTime }))) continue;
      await rmdir(join(place.folder, name)).catch(() => {});
    }
  }
}

const ownId = async (): Promise<string> => `${process.pid}.${(await processId(process.pid))?.startTime ?? 0}`;

function wantedBy({ cpus = 0, memoryMb = 0, processes = 0 }: VmProfile): Wanted[] {
  const wanted: Wanted[] = [];
  if (cpus > 0) {
    const quotaUs = `${Math.max(1000, Math.round(cpus * periodUs))}`;
    const parts: Setting[] = [
      ['cpu.cfs_period_us', `${periodUs}`],
      ['cpu.cfs_quota_us', quotaUs],
    ];
    wanted.push({
      controller: 'cpu',
      limit: `cpus: ${cpus}`,
      settings: {
        1: { must: parts, also: [] },
        2: { must: [['cpu.max', `${quotaUs} ${periodUs}`]], also: [] },
      },
    });
  }
  if (memoryMb > 0) {
    const bytes = `${Math.round(memoryMb * 1024 * 1024)}`;
    wanted.push({
      controller: 'memory',
      limit: `memoryMb: ${memoryMb}`,
      settings: {
        1: { must: [['memory.limit_in_bytes', bytes]], also: [['memory.memsw.limit_in_bytes', bytes]] },
        2: { must: [['memory.max', bytes]], also: [['memory.swap.max', '0']] },
      },
    });
  }
  if (processes > 0) {
    const must: Setting[] = [['pids.max', `${processes}`]];
    const settings = { must, also: [] };
    wanted.push({
      controller: 'pids',
      limit: `processes: ${processes}`,
      settings: { 1: settings, 2: settings },
    });
  }
  return wanted;
}

async function setLimit({ controller, settings }: Wanted, groupName: string): Promise<string> {
  const place = await placeOf(controller);
  if (place.version === 2) await enable(place.folder, controller);
  const folder = join(place.folder, groupName);
  await mkdir(folder, { recursive: true });
  const { must, also } = settings[place.version];
  try {
    for (const [file, value] of must) await writeFile(join(folder, file), value, { flag: 'r+' });
  } catch (error) {
    await rmdir(folder).catch(() => {});
    throw error;
  }
  for (const [file, value] of also)
    await writeFile(join(folder, file), value, { flag: 'r+' }).catch(() => {});
  return folder;
}

interface Place {
  readonly version: 1 | 2;
  /** The runner's own group. */
  readonly folder: string;
}

/** Lines of mountinfo: `… root mountPoint options… - type source superOptions`. */
async function placeOf(controller: Controller): Promise<Place> {
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n');
  const groups = (await readFile('/proc/self/cgroup', 'utf8')).split('\n');
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
      const offered = await readFile(join(folder, 'cgroup.controllers'), 'utf8').catch(() => '');
      if (offered.trim().split(' ').includes(controller)) return { version: 2, folder };
    }
  }
  throw new Error(`this system offers the runner no control group for ${controller}`);
}

/** The path of a group as seen from the root of its mount. */
const below = (root: string, path: string): string =>
  root !== '/' && path.startsWith(root) ? path.slice(root.length) : path;

/**
 * In version 2 a group hands controllers to its children only while it holds no process itself. The runner may move
 * itself aside; if others are in its group, they stay, and the limit is not enforced.
 */
async function enable(folder: string, controller: Controller): Promise<void> {
  const file = join(folder, 'cgroup.subtree_control');
  const enabled = (await readFile(file, 'utf8')).trim().split(' ');
  if (enabled.includes(controller)) return;
  const tried = await writeFile(file, `+${controller}`).then(
    () => true,
    () => false,
  );
  if (tried) return;
  const aside = join(folder, asideName);
  await mkdir(aside, { recursive: true });
  await writeFile(join(aside, 'cgroup.procs'), `${process.pid}`);
  await writeFile(file, `+${controller}`);
}

const enterScript = [
  'while [ "$1" != -- ]; do echo $$ > "$1" || exit 125; shift; done',
  'shift; exec "$@"',
].join('\n');

const wrapper =
  (folders: readonly string[]): Limits['wrap'] =>
  (argv) => {
    if (folders.length === 0) return argv;
    const files = folders.map((folder) => join(folder, 'cgroup.procs'));
    return ['/bin/sh', '-c', enterScript, 'sh', ...files, '--', ...argv];
  };

async function removeAll(folders: readonly string[]): Promise<void> {
  const until = performance.now() + removeMs;
  for (const folder of folders) {
    for (let ms = 1; performance.now() < until; ms = Math.min(2 * ms, 50)) {
      const code = await rmdir(folder).then(
        () => '',
        (error: NodeJS.ErrnoException) => error.code,
      );
      if (code !== 'EBUSY') break;
      await pause(ms);
    }
  }
}

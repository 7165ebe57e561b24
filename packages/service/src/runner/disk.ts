import { execFile, spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { promisify } from 'node:util';
import { type DiskSpace, diskSpace } from '../lib/disk-space.ts';

const run = promisify(execFile);

/**
 * An agent may nest folders deeper than a path can be long; `rm` descends step by step. And it may have folders that are
 * read-only, such as a cache of Go modules.
 */
export async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    await run('chmod', ['-R', 'u+rwX', '--', folder]).catch(() => {});
    await run('rm', ['-rf', '--', folder]);
  }
}

/** Above this share of the disk, what can be made again or is saved elsewhere is removed early. */
const fullDisk = 0.85;

export async function isDiskFull(
  folder: string,
  spaceOf: (folder: string) => Promise<DiskSpace> = diskSpace,
): Promise<boolean> {
  const { freeBytes, totalBytes } = await spaceOf(folder);
  return 1 - freeBytes / totalBytes > fullDisk;
}

/**
 * The size of folders that agents write, in bytes. A folder that can't be measured counts as infinite: it has too many
 * files for the time, or its agent has made a part of it unreadable. `du` is a separate process. It counts a file with
 * several links each time, because it would otherwise have to remember every such file.
 */
export async function folderSizes(folders: readonly string[], timeoutMs: number): Promise<number[]> {
  const signal = AbortSignal.timeout(timeoutMs);
  const sizes: number[] = [];
  const waiting = [...folders.entries()];
  const measureNext = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [index, folder] = next;
      sizes[index] = signal.aborted ? 0 : await sizeOf(folder, signal);
    }
  };
  await Promise.all(Array.from({ length: duProcesses }, measureNext));
  return sizes;
}

const duProcesses = 2;

async function sizeOf(folder: string, signal: AbortSignal): Promise<number> {
  const du = spawn('du', ['-sklx', '--', folder], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
    signal,
    killSignal: 'SIGKILL',
  });
  let sum = '';
  let isReadable = true;
  du.stdout.on('data', (chunk: Buffer) => {
    sum += chunk.toString();
  });
  // Files that vanish meanwhile are reported here too.
  du.stderr.on('data', (chunk: Buffer) => {
    isReadable &&= !chunk.includes('Permission denied');
  });
  await new Promise((done) => du.once('close', done).once('error', done));
  if (signal.aborted || !isReadable) return Number.POSITIVE_INFINITY;
  return Number.parseInt(sum, 10) * 1024 || 0;
}

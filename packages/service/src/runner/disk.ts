import { execFile } from 'node:child_process';
import { rm, statfs } from 'node:fs/promises';
import { promisify } from 'node:util';

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
  diskUse: (folder: string) => Promise<number> = usedShare,
): Promise<boolean> {
  return (await diskUse(folder)) > fullDisk;
}

async function usedShare(folder: string): Promise<number> {
  const { bavail, blocks } = await statfs(folder);
  return 1 - bavail / blocks;
}

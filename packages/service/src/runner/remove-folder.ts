import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** An agent may nest folders deeper than a path can be long; the system's own program walks down step by step. */
export async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    await run('rm', ['-rf', '--', folder]);
  }
}

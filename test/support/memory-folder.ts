import { existsSync, mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';

const memory = '/dev/shm';
const prefix = 'muster-test-';
const bytesNeeded = 6 * 1024 ** 3;

/**
 * Puts what tests write into memory where there is room for it: databases, clones and data folders are written and
 * deleted by the hundred. Returns what removes it again.
 */
export function useMemoryFolder(): () => void {
  if (!existsSync(memory)) return () => {};
  for (const name of readdirSync(memory).filter((name) => name.startsWith(prefix)))
    if (!existsSync(`/proc/${name.slice(prefix.length)}`)) remove(join(memory, name));
  const { bavail, bsize } = statfsSync(memory);
  if (bavail * bsize < bytesNeeded) return () => {};
  const folder = join(memory, `${prefix}${process.pid}`);
  mkdirSync(folder, { mode: 0o755 });
  process.env.TMPDIR = folder;
  return () => remove(folder);
}

const remove = (folder: string): void => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });

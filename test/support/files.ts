import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The files below a folder in which a live process may remove others meanwhile. */
export const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isFile()) return [path];
    return entry.isDirectory() ? unlessGone(() => filesBelow(path), []) : [];
  });

export const readUnlessGone = (file: string): string => unlessGone(() => readFileSync(file, 'latin1'), '');

function unlessGone<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return otherwise;
    throw error;
  }
}

/** Empty if the process has ended, or is another user's. */
export function processText(pid: number | string, file: 'cmdline' | 'comm' | 'environ' | 'stat'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** The files below a folder in which a live process may remove others meanwhile. */
export const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isFile()) return [path];
    return entry.isDirectory() ? unlessGone(() => filesBelow(path), []) : [];
  });

/** Also one in which folders are nested deeper than a path can be long. */
export function removeTree(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  } catch {
    execFileSync('rm', ['-rf', '--', folder]);
  }
}

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

/** The files below a folder whose path fits one of the patterns with `*`. */
export function filesLike(root: string, patterns: readonly string[]): string[] {
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' });
  const forms = patterns.map((pattern) => new RegExp(`^${pattern.replaceAll('*', '[^/]*')}$`));
  return names.filter((name) => forms.some((form) => form.test(name)));
}

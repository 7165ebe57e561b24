import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Harness } from '../../harness/harness.ts';

/** A session's name becomes part of a shell's word: it is letters, digits and dashes, or it is not ours. */
export const sessionPatterns = (harness: Harness, session: string): readonly string[] =>
  /^[\w-]+$/.test(session) ? harness.sessionFiles(session) : [];

/** Whether a file of one of the patterns is there; `*` stands for any part of one name. */
export async function hasSession(homeFolder: string, patterns: readonly string[]): Promise<boolean> {
  for (const pattern of patterns) if (await matches(homeFolder, pattern.split('/'))) return true;
  return false;
}

async function matches(folder: string, [first, ...rest]: readonly string[]): Promise<boolean> {
  if (first === undefined) return true;
  const names = first.includes('*') ? await namesLike(folder, first) : [first];
  for (const name of names) {
    const path = join(folder, name);
    const found = await lstat(path).catch(() => undefined);
    if (!found || (rest.length > 0 && !found.isDirectory())) continue;
    if (await matches(path, rest)) return true;
  }
  return false;
}

async function namesLike(folder: string, pattern: string): Promise<string[]> {
  const form = new RegExp(`^${pattern.split('*').map(escaped).join('.*')}$`);
  return (await readdir(folder).catch(() => [])).filter((name) => form.test(name));
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

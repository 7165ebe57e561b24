import { type GitRemote, gitIn } from '../support/git-remote.ts';

/** By the commits: a comparison is a process. */
const mergeable = new Map<string, boolean>();

export function canMerge(remote: GitRemote, base: string, head: string): boolean {
  const commits = [remote.tip(base), remote.tip(head)];
  const key = [remote.url, ...commits].join(' ');
  let can = mergeable.get(key);
  if (can !== undefined) return can;
  try {
    gitIn(remote.url, 'merge-tree', '--write-tree', ...commits);
    can = true;
  } catch {
    can = false;
  }
  mergeable.set(key, can);
  return can;
}

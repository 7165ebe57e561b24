import { limits } from '@muster/sdk/contract';
import type { Diff } from '../../harness/harness.ts';
import type { Repository } from '../../lib/repositories.ts';
import { bounded, storable } from '../wire-text.ts';
import { baseBranchOf } from './clone.ts';
import type { Mirror } from './mirror.ts';

const mostCommits = limits.reportItems;
/** Of the names of all files of a commit. */
const mostNameBytes = 64 * 1024 * 1024;
/** A report has a size too. */
const diffBytes = 512 * 1024;
const cutLine = '[The diff is longer than this.]\n';

const plainDiff = ['-c', 'core.quotePath=false', 'diff', '--no-ext-diff', '--no-textconv', '--no-color'];

/** Trees that hold each other can stand for more files than any disk holds, and git would take memory for each. */
export async function isOfUsualSize(mirror: Mirror, commit: string): Promise<boolean> {
  const list = await mirror.tryGit(['ls-tree', '-r', '--name-only', '-z', commit], {
    mostBytes: mostNameBytes,
  });
  return list.exitCode === 0;
}

/** Commits that no branch or tag of the mirror leads to yet, oldest first; of very many the newest. */
export async function newCommits(mirror: Mirror, tip: string): Promise<string[]> {
  const order = ['--reverse', '--topo-order', `--max-count=${mostCommits}`];
  const lines = await mirror.git(['rev-list', ...order, tip, '--not', '--branches', '--tags']);
  return parts(lines, '\n');
}

export async function changedFiles(mirror: Mirror, from: string, tip: string): Promise<string[]> {
  const names = await mirror.git([...plainDiff, '--name-only', '--no-renames', '-z', from, tip]);
  return parts(names, '\0').slice(0, limits.filesPerPush);
}

/**
 * Where a branch left the first of these that exists, else where it left the base branch. Without a common commit it
 * is the tree that holds nothing.
 */
export async function startOfBranch(
  mirror: Mirror,
  repository: Repository,
  tip: string,
  startFrom: readonly string[],
): Promise<string> {
  const refs = await mirror.refs();
  const candidates = [...startFrom, await baseBranchOf(repository, mirror)];
  for (const name of candidates) {
    const commit = refs.get(`refs/heads/${name}`);
    if (commit === undefined) continue;
    const found = (await mirror.tryGit(['merge-base', commit, tip])).stdout.trim();
    if (found) return found;
  }
  return (await mirror.git(['hash-object', '-t', 'tree', '--stdin'])).trim();
}

/** What a branch changed since it left the base branch. */
export async function branchDiff(mirror: Mirror, repository: Repository, tip: string): Promise<Diff> {
  const base = await startOfBranch(mirror, repository, tip, []);
  const numbers = parts(await mirror.git([...plainDiff, '--numstat', '--no-renames', '-z', base, tip]), '\0');
  const { stdout } = await mirror.tryGit([...plainDiff, base, tip], { mostBytes: 4 * limits.diffLength });
  const sum = (column: number) =>
    numbers.reduce((total, line) => total + (Number.parseInt(line.split('\t')[column] ?? '', 10) || 0), 0);
  return {
    repo: repository.shownUrl,
    files: numbers.length,
    insertions: sum(0),
    deletions: sum(1),
    text: cutToSize(stdout),
  };
}

function cutToSize(text: string): string {
  const whole = storable(text);
  const kept = bounded(whole, limits.diffLength - cutLine.length, diffBytes);
  if (kept === whole) return whole;
  return kept.slice(0, kept.lastIndexOf('\n') + 1) + cutLine;
}

const parts = (text: string, separator: string): string[] =>
  text.split(separator).filter((part) => part !== '');

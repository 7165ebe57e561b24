import { limits } from '@muster/sdk/contract';
import type { Diff } from '../../harness/harness.ts';
import type { Repository } from '../../lib/repositories.ts';
import { bounded, storable } from '../wire-text.ts';
import { baseBranchOf } from './clone.ts';
import type { LocalRepository } from './git.ts';

const mostCommits = limits.reportItems;
/** Of the names of all files of a commit. */
const mostNameBytes = 64 * 1024 * 1024;
/** Of the names of changed files; a name is at most 4 KiB. */
const changedNameBytes = 4 * 1024 * 1024;
/** A report has a size too. */
const diffBytes = 512 * 1024;
const cutLine = '[The diff is longer than this.]\n';

const plainDiff = ['-c', 'core.quotePath=false', 'diff', '--no-ext-diff', '--no-textconv', '--no-color'];

/** Trees that hold each other can stand for more files than any disk holds, and git would take memory for each. */
export async function isOfUsualSize(objects: LocalRepository, commit: string): Promise<boolean> {
  const list = await objects.tryGit(['ls-tree', '-r', '--name-only', '-z', commit], {
    mostBytes: mostNameBytes,
    discardsOutput: true,
  });
  return list.exitCode === 0;
}

/** Commits that no branch or tag leads to yet, oldest first; of very many the newest. */
export async function newCommits(objects: LocalRepository, tip: string): Promise<string[]> {
  const order = ['--reverse', '--topo-order', `--max-count=${mostCommits}`];
  const lines = await objects.git(['rev-list', ...order, tip, '--not', '--branches', '--tags']);
  return parts(lines, '\n');
}

export async function changedFiles(objects: LocalRepository, from: string, tip: string): Promise<string[]> {
  const names = ['--name-only', '--no-renames', '-z', from, tip];
  const { stdout } = await objects.tryGit([...plainDiff, ...names], { mostBytes: changedNameBytes });
  const whole = stdout.slice(0, stdout.lastIndexOf('\0') + 1);
  return parts(whole, '\0').slice(0, limits.filesPerPush);
}

/**
 * Where a branch left the first of these that exists, else where it left the base branch. Without a common commit it
 * is the tree that holds nothing.
 */
export async function startOfBranch(
  objects: LocalRepository,
  repository: Repository,
  tip: string,
  startFrom: readonly string[],
): Promise<string> {
  const refs = await objects.refs();
  const candidates = [...startFrom, await baseBranchOf(repository, objects)];
  for (const name of candidates) {
    const commit = refs.get(`refs/heads/${name}`);
    if (commit === undefined) continue;
    const found = (await objects.tryGit(['merge-base', commit, tip])).stdout.trim();
    if (found) return found;
  }
  return (await objects.git(['hash-object', '-t', 'tree', '--stdin'])).trim();
}

/** What a branch changed since it left the base branch. */
export async function branchDiff(
  objects: LocalRepository,
  repository: Repository,
  tip: string,
): Promise<Diff> {
  const base = await startOfBranch(objects, repository, tip, []);
  const stat = await objects.git([...plainDiff, '--shortstat', '--no-renames', base, tip]);
  const { stdout } = await objects.tryGit([...plainDiff, base, tip], { mostBytes: 4 * limits.diffLength });
  const count = (what: string) => Number(new RegExp(`(\\d+) ${what}`).exec(stat)?.[1] ?? 0);
  return {
    repo: repository.shownUrl,
    files: count('file'),
    insertions: count('insertion'),
    deletions: count('deletion'),
    workingTree: false,
    text: cutDiff(stdout),
  };
}

export function cutDiff(text: string): string {
  const whole = storable(text);
  const kept = bounded(whole, limits.diffLength - cutLine.length, diffBytes);
  if (kept === whole) return whole;
  return kept.slice(0, kept.lastIndexOf('\n') + 1) + cutLine;
}

const parts = (text: string, separator: string): string[] =>
  text.split(separator).filter((part) => part !== '');

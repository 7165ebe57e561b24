import { diffWithContext, limits } from '@muster/sdk/contract';
import type { Diff } from '../../harness/harness.ts';
import type { Repository } from '../../lib/repositories.ts';
import { bounded, storable } from '../report-text.ts';
import type { LocalRepository } from './git.ts';

const maxCommits = limits.reportItems;
/** For the names of all files in a commit. */
const maxTreeBytes = 64 * 1024 * 1024;
/** For the names of changed files; one name is at most 4 KiB. */
const maxChangedBytes = 4 * 1024 * 1024;
const maxCiBytes = 1024 * 1024;
const maxDiffBytes = 512 * 1024;
/** Of git's output: a character has up to four bytes. */
const maxReadBytes = 4 * limits.diffLength;
/** Every diff has so much context. */
const leastContext = 3;
/** The dashboard looks for this line. */
const truncatedLine = '[The diff is longer than this.]\n';

const plainDiff = ['-c', 'core.quotePath=false', 'diff', '--no-ext-diff', '--no-textconv', '--no-color'];

/** Whether git can list the tree. Trees that contain each other can expand to more files than fit in memory. */
export async function isTreeWithinLimit(objects: LocalRepository, commit: string): Promise<boolean> {
  const list = await objects.tryGit(['ls-tree', '-r', '--name-only', '-z', commit], {
    maxBytes: maxTreeBytes,
    discardsOutput: true,
  });
  return list.exitCode === 0;
}

/** Commits that no branch or tag contains yet, or none of `others`, oldest first; only the newest if there are very many. */
export async function newCommits(
  objects: LocalRepository,
  tip: string,
  others: readonly string[] = ['--branches', '--tags'],
): Promise<string[]> {
  const order = ['--reverse', '--topo-order', `--max-count=${maxCommits}`];
  const lines = await objects.git(['rev-list', ...order, tip, '--not', ...others]);
  return lines.split('\n').filter(Boolean);
}

export async function changedFiles(objects: LocalRepository, from: string, tip: string): Promise<string[]> {
  const names = ['--name-only', '--no-renames', '-z', from, tip];
  const { stdout } = await objects.tryGit([...plainDiff, ...names], { maxBytes: maxChangedBytes });
  const complete = stdout.slice(0, stdout.lastIndexOf('\0') + 1);
  return complete.split('\0').filter(Boolean).slice(0, limits.filesPerPush);
}

/**
 * The merge base of a branch with the first of `startFrom` that exists, else with the base branch. The empty tree if
 * there is no common commit.
 */
export async function startOfBranch(
  objects: LocalRepository,
  repository: Repository,
  tip: string,
  startFrom: readonly string[],
): Promise<string> {
  const refs = await objects.refs();
  for (const name of [...startFrom, await objects.baseBranch(repository)]) {
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
  const start = await startOfBranch(objects, repository, tip, []);
  // A rename is one file, as it is in the text.
  const stat = await objects.git([...plainDiff, '--shortstat', start, tip]);
  const read = (context: number) =>
    objects.tryGit([...plainDiff, `-U${context}`, start, tip], { maxBytes: maxReadBytes });
  const wide = await read(limits.diffContextLines);
  const { stdout } = wide.exitCode === 0 ? wide : await read(leastContext);
  const count = (what: string) => Number(new RegExp(`(\\d+) ${what}`).exec(stat)?.[1] ?? 0);
  return {
    repo: repository.shownUrl,
    files: count('file'),
    insertions: count('insertion'),
    deletions: count('deletion'),
    workingTree: false,
    text: storedDiff(stdout),
  };
}

/** With as much context as fits. What does not fit at all is cut off. */
export function storedDiff(text: string): string {
  const narrower = [limits.diffContextLines, 30, 10].map((context) => diffWithContext(text, context));
  const wide = narrower.find(({ length }) => length <= limits.wideDiffLength);
  return truncateDiff(wide ?? diffWithContext(text, leastContext));
}

function truncateDiff(text: string): string {
  const whole = storable(text);
  const start = bounded(whole, limits.diffLength - truncatedLine.length, maxDiffBytes);
  if (start === whole) return whole;
  return start.slice(0, start.lastIndexOf('\n') + 1) + truncatedLine;
}

/** The paths that CI systems run. A file or a link in place of a folder counts too. */
const ciPath = new RegExp(
  `^(${[
    '\\.github(/(workflows|actions)(/.*)?)?',
    '\\.gitlab(/ci(/.*)?)?',
    '\\.gitlab-ci\\.yml',
    '\\.(forgejo|gitea|circleci|buildkite)(/.*)?',
    '\\.woodpecker.*',
    '\\.(drone|travis)\\.yml',
    'Jenkinsfile',
    'azure-pipelines\\.yml',
  ].join('|')})$`,
  's',
);

/** Every path above is at or below one of these. */
const ciPathspecs = [
  ...['.github', '.gitlab', '.gitlab-ci.yml', '.forgejo', '.gitea', '.circleci', '.buildkite'],
  ...['.woodpecker*', '.drone.yml', '.travis.yml', 'Jenkinsfile', 'azure-pipelines.yml'],
];

/**
 * The CI definitions that differ between a commit and its merge base with the base branch. What a branch got from a
 * changed base, by a rebase or a merge, does not count. Fails when there are too many names to read.
 */
export async function changedCiDefinitions(
  objects: LocalRepository,
  repository: Repository,
  tip: string,
): Promise<string[]> {
  const base = await startOfBranch(objects, repository, tip, []);
  const diff = ['diff', '--no-ext-diff', '--name-only', '--no-renames', '-z', base, tip];
  const names = await objects.git([...diff, '--', ...ciPathspecs], { maxBytes: maxCiBytes });
  return names.split('\0').filter((name) => ciPath.test(name));
}

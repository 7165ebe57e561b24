import { join } from 'node:path';
import { limits } from '@muster/sdk/contract';
import type { Diff, ProcessExit, Push } from '../harness.ts';

export interface CommandResult extends ProcessExit {
  /** Both streams in the order of arrival, cut in the middle. */
  readonly output: string;
  readonly stdout: string;
}

type Run = (argv: readonly string[]) => Promise<CommandResult>;

/** Runs git and returns its output. */
type Git = (...args: string[]) => Promise<string>;

const gitWith =
  (run: Run, options: readonly string[]): Git =>
  async (...args) => {
    const { exitCode, output, stdout } = await run(['git', ...options, ...args]);
    if (exitCode !== 0) throw new Error(`git ${args[0]} failed: ${output.trim().slice(0, 2000)}`);
    return stdout.replace(/\n$/, '');
  };

async function commitAll(run: Run, git: Git, folder: string, message: string): Promise<void> {
  // A killed run may have left the lock. An agent has one session at a time, so the lock is not in use.
  await run(['rm', '-f', join(folder, '.git', 'index.lock')]);
  await git('add', '--all');
  if ((await git('status', '--porcelain')) !== '')
    await git('commit', '--quiet', '--no-verify', '--message', message);
}

/** Commits everything and pushes it to the repository's remote. The gateway reports the push. */
export async function pushRepository(
  run: Run,
  folder: string,
  message: string,
): Promise<'pushed' | 'nothing'> {
  const git = gitWith(run, ['-C', folder]);
  await commitAll(run, git, folder, message);
  const unpushed = await git('rev-list', '--max-count=1', 'HEAD', '--not', '--remotes').catch(() => '');
  if (unpushed === '') return 'nothing';
  await git('push', '--quiet');
  return 'pushed';
}

/** The last pushed commit of a workspace without a remote. */
const pushedRef = 'refs/muster/pushed';
const mostFiles = 10_000;
const mostCommits = limits.reportItems;

/** Commits everything to the agent's branch in a workspace without a remote. Undefined: there is nothing to push. */
export async function pushLocally(
  run: Run,
  { workspaceFolder, branch }: { readonly workspaceFolder: string; readonly branch: string },
  message: string,
): Promise<{ readonly push: Push; readonly diff: Diff } | undefined> {
  const settings = ['user.name=Muster agent', 'user.email=agent@muster.invalid', 'core.hooksPath=/dev/null'];
  const options = [
    // Named explicitly: git must never find a repository in a parent folder, such as the one Muster was started in.
    `--git-dir=${join(workspaceFolder, '.git')}`,
    `--work-tree=${workspaceFolder}`,
    ...[...settings, 'commit.gpgSign=false', 'core.quotePath=false'].flatMap((setting) => ['-c', setting]),
  ];
  const git = gitWith(run, options);
  await git('init', '--quiet');
  await git('symbolic-ref', 'HEAD', `refs/heads/${branch}`);
  await commitAll(run, git, workspaceFolder, message);
  const revision = async (name: string): Promise<string> =>
    (await run(['git', ...options, 'rev-parse', '--quiet', '--verify', name])).stdout.trim();
  const head = await revision('HEAD');
  const pushed = await revision(pushedRef);
  if (head === '' || head === pushed) return undefined;
  const commits = await git('rev-list', '--reverse', head, ...(pushed ? [`^${pushed}`] : []));
  const empty = await git('hash-object', '-t', 'tree', '/dev/null');
  const files = await git('diff', '--name-only', '--no-renames', '-z', pushed || empty, head);
  const plainDiff = ['diff', '--no-ext-diff', '--no-textconv', '--no-color'] as const;
  const stat = await git(...plainDiff, '--shortstat', '--no-renames', empty, head);
  const text = await git(...plainDiff, empty, head);
  await git('update-ref', pushedRef, head);
  const countOf = (what: string) => Number(new RegExp(`(\\d+) ${what}`).exec(stat)?.[1] ?? 0);
  return {
    push: {
      ref: branch,
      commits: parts(commits, '\n').slice(-mostCommits),
      files: parts(files, '\0').slice(0, mostFiles),
    },
    // Of everything: the workspace was empty.
    diff: {
      repo: '',
      files: countOf('file'),
      insertions: countOf('insertion'),
      deletions: countOf('deletion'),
      text,
    },
  };
}

const parts = (text: string, separator: string): string[] =>
  text.split(separator).filter((part) => part !== '');

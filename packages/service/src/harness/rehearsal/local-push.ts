import { join } from 'node:path';
import { limits } from '@muster/sdk/contract';
import type { Push } from '../harness.ts';
import type { Finished } from './command.ts';

/**
 * A push of a workspace that has no remote: everything is committed to the agent's branch in a repository of the
 * workspace's own, and `refs/muster/pushed` remembers how far the last push came.
 */
export type PushOutcome =
  | { readonly type: 'pushed'; readonly push: Push }
  | { readonly type: 'nothing' }
  | { readonly type: 'no-git' };

export interface Repository {
  readonly workspaceFolder: string;
  readonly branch: string;
  readonly run: (argv: readonly string[]) => Promise<Finished>;
}

const pushedRef = 'refs/muster/pushed';
const mostFiles = 10_000;
const mostCommits = limits.reportItems;

export async function pushLocally(repository: Repository, message: string): Promise<PushOutcome> {
  if ((await repository.run(['git', '--version'])).exitCode !== 0) return { type: 'no-git' };
  await git(repository, 'init', '--quiet');
  // A killed run may have left its lock. One session at a time works here, so nobody holds it.
  await repository.run(['rm', '-f', join(repository.workspaceFolder, '.git', 'index.lock')]);
  await git(repository, 'symbolic-ref', 'HEAD', `refs/heads/${repository.branch}`);
  await git(repository, 'add', '--all');
  if ((await git(repository, 'status', '--porcelain')).trim() !== '')
    await git(repository, 'commit', '--quiet', '--no-verify', '--message', message);
  const head = await revision(repository, 'HEAD');
  const pushed = await revision(repository, pushedRef);
  if (head === '' || head === pushed) return { type: 'nothing' };
  const commits = await git(repository, 'rev-list', '--reverse', head, ...(pushed ? [`^${pushed}`] : []));
  const base = pushed || (await git(repository, 'hash-object', '-t', 'tree', '/dev/null')).trim();
  const files = await git(repository, 'diff', '--name-only', '--no-renames', '-z', base, head);
  await git(repository, 'update-ref', pushedRef, head);
  return {
    type: 'pushed',
    push: {
      ref: repository.branch,
      commits: parts(commits, '\n').slice(-mostCommits),
      files: parts(files, '\0').slice(0, mostFiles),
    },
  };
}

const parts = (text: string, separator: string): string[] =>
  text.split(separator).filter((part) => part !== '');

async function revision(repository: Repository, name: string): Promise<string> {
  const argv = gitArgv(repository, ['rev-parse', '--quiet', '--verify', name]);
  return (await repository.run(argv)).stdout.trim();
}

async function git(repository: Repository, ...args: string[]): Promise<string> {
  const finished = await repository.run(gitArgv(repository, args));
  if (finished.exitCode !== 0)
    throw new Error(`git ${args[0]} failed: ${finished.output.trim().slice(0, 2000)}`);
  return finished.stdout;
}

/** The repository is named outright: git must never find one further up, such as the one Muster was started in. */
function gitArgv({ workspaceFolder }: Repository, args: readonly string[]): string[] {
  const settings = ['user.name=Muster agent', 'user.email=agent@muster.invalid', 'core.hooksPath=/dev/null'];
  return [
    'git',
    `--git-dir=${join(workspaceFolder, '.git')}`,
    `--work-tree=${workspaceFolder}`,
    ...[...settings, 'commit.gpgSign=false', 'core.quotePath=false'].flatMap((setting) => ['-c', setting]),
    ...args,
  ];
}

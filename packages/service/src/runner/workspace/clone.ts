import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Repository } from '../../lib/repositories.ts';
import { complaintOf, type LocalRepository, runGit } from './git.ts';
import { configText, type Section } from './git-config.ts';
import { isSharedBranch, type Mirror } from './mirror.ts';

export interface CloneOptions {
  readonly repository: Repository;
  readonly mirror: Mirror;
  /** Empty, and never touched by an agent: git follows whatever it finds there. */
  readonly folder: string;
  readonly branch: string;
  readonly startFrom: readonly string[];
  readonly signal: AbortSignal;
}

/**
 * The agent's own repository: objects borrowed from the mirror, everything else its own. Its branch goes on where it
 * was left, or begins at the nearest parent's, or at the base branch.
 */
export async function clone(options: CloneOptions): Promise<void> {
  const { folder, mirror, branch, signal } = options;
  const refs = await mirror.refs();
  const base = await baseBranchOf(options.repository, mirror);
  const start = startOf(options, refs, base);
  const git = async (...args: string[]): Promise<void> => {
    const result = await runGit(args, { folder, environment: mirror.environment, signal });
    if (result.exitCode !== 0) throw new Error(`git ${args[0]} failed: ${complaintOf(result)}`);
  };
  await mkdir(folder, { recursive: true });
  await git('init', '--quiet', '--template=', `--initial-branch=${branch}`, '.');
  await writeFile(join(folder, '.git', 'objects', 'info', 'alternates'), `${mirror.objectsFolder}\n`);
  await writeFile(join(folder, '.git', 'packed-refs'), packedRefs(refs));
  await appendFile(join(folder, '.git', 'config'), configText(originOf(options, refs)));
  if (refs.has(`refs/heads/${base}`)) {
    const origin = join(folder, '.git', 'refs', 'remotes', 'origin');
    await mkdir(origin, { recursive: true });
    await writeFile(join(origin, 'HEAD'), `ref: refs/remotes/origin/${base}\n`);
  }
  if (start !== undefined) await git('reset', '--quiet', '--hard', start);
}

export const baseBranchOf = async ({ baseBranch }: Repository, objects: LocalRepository): Promise<string> =>
  baseBranch || (await objects.headBranch());

/** A commit; undefined when the repository is empty but for the branches of other agents. */
function startOf(
  { repository, branch, startFrom }: CloneOptions,
  refs: ReadonlyMap<string, string>,
  base: string,
): string | undefined {
  const found = [branch, ...startFrom, base].find((name) => refs.has(`refs/heads/${name}`));
  if (found !== undefined) return refs.get(`refs/heads/${found}`);
  if (![...refs.keys()].some(isSharedBranch)) return undefined;
  throw new Error(`${repository.shownUrl} has no branch ${base}: name one that exists as its baseBranch`);
}

function packedRefs(refs: ReadonlyMap<string, string>): string {
  const lines = [...refs].map(
    ([ref, id]) => `${id} ${ref.replace(/^refs\/heads\//, 'refs/remotes/origin/')}\n`,
  );
  return lines.join('');
}

function originOf({ repository, branch }: CloneOptions, refs: ReadonlyMap<string, string>): Section[] {
  const fetch = '+refs/heads/*:refs/remotes/origin/*';
  const origin: Section = ['remote "origin"', { url: repository.shownUrl, fetch }];
  if (!refs.has(`refs/heads/${branch}`)) return [origin];
  return [origin, [`branch "${branch}"`, { remote: 'origin', merge: `refs/heads/${branch}` }]];
}

import type { Finished } from './command.ts';

export interface PushableRepository {
  readonly folder: string;
  readonly run: (argv: readonly string[]) => Promise<Finished>;
}

/**
 * A push as any agent makes it: everything is committed, and git pushes to the repository's own remote. What was
 * pushed is for the gateway to tell, which sees it pass. Returns whether there was anything to push.
 */
export async function pushRepository(
  { folder, run }: PushableRepository,
  message: string,
): Promise<'pushed' | 'nothing'> {
  const git = async (...args: string[]): Promise<string> => {
    const finished = await run(['git', '-C', folder, ...args]);
    if (finished.exitCode !== 0)
      throw new Error(`git ${args[0]} failed: ${finished.output.trim().slice(0, 2000)}`);
    return finished.stdout.trim();
  };
  // A killed run may have left its lock. One session at a time works here, so nobody holds it.
  await run(['rm', '-f', `${folder}/.git/index.lock`]);
  await git('add', '--all');
  if ((await git('status', '--porcelain')) !== '')
    await git('commit', '--quiet', '--no-verify', '--message', message);
  const unpushed = await git('rev-list', '--max-count=1', 'HEAD', '--not', '--remotes').catch(() => '');
  if (unpushed === '') return 'nothing';
  await git('push', '--quiet');
  return 'pushed';
}

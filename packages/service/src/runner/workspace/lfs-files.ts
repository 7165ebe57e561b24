import { readFileSync } from 'node:fs';
import type { Claim } from '@muster/sdk/contract';
import type { Processes } from '../../harness/harness.ts';
import { packageFile } from '../../lib/package-file.ts';
import { runScript } from './agent-commands.ts';
import { isLfsInstalled } from './git-lfs.ts';
import { branchStart, type PreparedRepository } from './prepare.ts';
import type { Submodule } from './submodules.ts';

const script = readFileSync(packageFile('scripts/pull-lfs-files.sh'), 'utf8');

export interface PullOptions extends Pick<Claim, 'branch' | 'startFrom'> {
  readonly repos: readonly PreparedRepository[];
  readonly submodules: readonly Submodule[];
  readonly processes: Processes;
  readonly warn: (text: string) => void;
  readonly signal: AbortSignal;
  readonly isInstalled?: boolean;
}

/** Replaces the pointers of LFS by their files, as the agent. What can't be fetched stays a pointer, with a warning. */
export async function pullLfsFiles(options: PullOptions): Promise<void> {
  const { processes, warn, signal, isInstalled = isLfsInstalled() } = options;
  const using = await usingLfs(options);
  if (using.length === 0) return;
  if (!isInstalled) return warn(notInstalled(using));
  const paths = using.map(({ path }) => path);
  const lines = await runScript(processes, [script, ...paths], 'files in LFS were not fetched', signal);
  for (const line of lines) {
    const [path, reason = ''] = line.split('\t');
    const found = using.find((one) => one.path === path);
    if (found) warn(`Files in LFS of ${found.shownUrl} were not fetched and are pointers: ${reason}`);
  }
}

async function usingLfs({ repos, submodules, ...start }: PullOptions): Promise<PreparedRepository[]> {
  const using: PreparedRepository[] = [];
  for (const repo of [...repos, ...submodules] as (PreparedRepository | Submodule)[]) {
    const isSubmodule = 'parentPath' in repo;
    const commit = isSubmodule ? repo.commit : (await branchStart(repo, start)).commit;
    if (commit !== undefined && (await repo.mirror.usesLfs(commit))) using.push(repo);
  }
  return using;
}

const notInstalled = (using: readonly PreparedRepository[]): string =>
  `git-lfs is not installed on this runner: files in LFS of ${using.map(({ shownUrl }) => shownUrl).join(', ')} ` +
  "are pointers. Install git-lfs on the runner's machine.";

import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { programFolders } from '../sandbox/processes.ts';

/** Whether the agent's processes find git-lfs. */
export const isLfsInstalled = (): boolean =>
  programFolders.some((folder) => existsSync(join(folder, 'git-lfs')));

/** Uploads the objects of a push before it, as `git lfs install` would have it. */
export async function writeLfsHook(folder: string): Promise<void> {
  const hooks = join(folder, '.git', 'hooks');
  await mkdir(hooks, { recursive: true });
  await writeFile(join(hooks, 'pre-push'), '#!/bin/sh\nexec git lfs pre-push "$@"\n', { mode: 0o755 });
}

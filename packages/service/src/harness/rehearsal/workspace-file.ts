import { constants } from 'node:fs';
import { mkdir, open, realpath } from 'node:fs/promises';
import { dirname, isAbsolute, join, sep } from 'node:path';

/** Writes a file of the workspace, and nowhere else: not by an absolute path, by `..`, or through a symbolic link. */
export async function writeWorkspaceFile(
  workspaceFolder: string,
  path: string,
  content: string,
): Promise<void> {
  const names = path.split('/');
  if (isAbsolute(path) || names.includes('..') || path.includes('\0')) throw new Error(outside(path));
  const root = await realpath(workspaceFolder);
  const file = join(root, path);
  const inside = (folder: string) => folder === root || folder.startsWith(root + sep);
  if (!inside(await nearestFolder(dirname(file)))) throw new Error(outside(path));
  await mkdir(dirname(file), { recursive: true });
  const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW, O_NONBLOCK } = constants;
  // Without blocking, since a pipe that nobody reads would hold one of the few threads that all of the runner has.
  const flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK;
  const handle = await open(file, flags, 0o644).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ELOOP' ? new Error(outside(path)) : error;
  });
  try {
    await handle.writeFile(content);
  } finally {
    await handle.close();
  }
}

const outside = (path: string): string => `"${path}" is not a path inside the workspace`;

/** Where the nearest folder that exists really is. */
async function nearestFolder(folder: string): Promise<string> {
  try {
    return await realpath(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return nearestFolder(dirname(folder));
  }
}

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

export interface AgentFolders {
  readonly workspaceFolder: string;
  readonly homeFolder: string;
}

const keyPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * The folders of an agent, made at its first run. They are named by its key: another agent may later hold the same
 * path, and must not find what this one left.
 */
export async function agentFolders(dataFolder: string, agentKey: string): Promise<AgentFolders> {
  if (!keyPattern.test(agentKey)) throw new Error('the agent key is not a UUID');
  const folder = join(dataFolder, 'agents', agentKey);
  const folders = { workspaceFolder: join(folder, 'workspace'), homeFolder: join(folder, 'home') };
  await mkdir(folders.workspaceFolder, { recursive: true, mode: 0o700 });
  await mkdir(folders.homeFolder, { recursive: true, mode: 0o700 });
  return folders;
}

import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import { removeFolder } from './remove-folder.ts';

/**
 * The folders of an agent on this runner. They are named by its key: another agent may later hold the same path, and
 * must not find what this one left. Beside what the agent may write stands a note of the runner's own, which says
 * since when the agent lives here: what is left from before it moved away and back is stale, and is set aside.
 */
export interface AgentFolders {
  readonly workspaceFolder: string;
  readonly homeFolder: string;
  /** Nothing of an earlier run is here: the workspace is to be cloned and set up, the session to be fetched. */
  readonly isFresh: boolean;
  /** The repositories that the workspace was cloned from, whatever its document says by now. */
  readonly repos: unknown;
  /** The batch that the session holds, because the provider cut the run before this one short; empty for none. */
  readonly heldBatch: string;
  /** What the agent is to be told of the run before this one; empty for nothing. */
  readonly notSaved: string;
  /** The workspace is cloned and set up: the next run begins where this one ends. */
  settle(left?: Partial<LeftByRun>): Promise<void>;
}

interface LeftByRun {
  readonly heldBatch: string;
  readonly notSaved: string;
}

interface Note extends Partial<LeftByRun> {
  readonly homeSince: number;
  readonly repos: unknown;
}

const asideMark = '.left-';

/** When a folder was set aside, by its name; never, for any other. */
export function setAsideMs(name: string): number {
  const [key = '', since = ''] = name.split(asideMark);
  return isAgentKey(key) && /^\d+$/.test(since) ? Number(since) : Number.POSITIVE_INFINITY;
}

const keyPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const isAgentKey = (name: string): boolean => keyPattern.test(name);

export const agentsFolder = (dataFolder: string): string => join(dataFolder, 'agents');

export async function agentFolders(
  dataFolder: string,
  { agentKey, homeSince, workspace }: Pick<Claim, 'agentKey' | 'homeSince' | 'workspace'>,
): Promise<AgentFolders> {
  if (!isAgentKey(agentKey)) throw new Error('the agent key is not a UUID');
  const folder = join(agentsFolder(dataFolder), agentKey);
  const noteFile = join(folder, 'note.json');
  const folders = { workspaceFolder: join(folder, 'workspace'), homeFolder: join(folder, 'home') };
  const note = await readNote(noteFile);
  const isFresh = note?.homeSince !== homeSince;
  const repos = isFresh ? (workspace.document.repos ?? []) : note.repos;
  // Without a note nothing of the agent has run in it yet.
  if (isFresh) await (note ? rename(folder, `${folder}${asideMark}${Date.now()}`) : removeFolder(folder));
  await mkdir(folders.workspaceFolder, { recursive: true, mode: 0o700 });
  await mkdir(folders.homeFolder, { recursive: true, mode: 0o700 });
  return {
    ...folders,
    isFresh,
    repos,
    heldBatch: isFresh ? '' : (note.heldBatch ?? ''),
    notSaved: isFresh ? '' : (note.notSaved ?? ''),
    settle: (left = {}) => writeNote(noteFile, { homeSince, repos, ...left }),
  };
}

async function readNote(file: string): Promise<Note | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Note;
  } catch {
    return undefined;
  }
}

/** In one step: a runner that is killed here leaves no note rather than half of one. */
async function writeNote(file: string, note: Note): Promise<void> {
  await writeFile(`${file}.new`, JSON.stringify(note));
  await rename(`${file}.new`, file);
}

import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { MusterClient } from '@muster/sdk';
import type { Claim } from '@muster/sdk/contract';
import type { DiskSpace } from '../lib/disk-space.ts';
import type { RunnerLog } from '../lib/log.ts';
import { isDiskFull, removeFolder } from './disk.ts';
import type { PreparedCopies } from './workspace/prepared-copies.ts';

/**
 * The folders of an agent on this runner. They are named by its key, because another agent may later have the same path
 * and must not find this one's files. A file of the runner next to them says since which run the agent lives here:
 * folders from before it moved away and back are stale and are set aside.
 */
export interface AgentFolders extends LeftByRun {
  readonly workspaceFolder: string;
  readonly homeFolder: string;
  /** Nothing of an earlier run is here: the workspace must be cloned and set up, the session must be restored. */
  readonly isFresh: boolean;
  /** The repositories from which the workspace was cloned, whatever its resource says by now. */
  readonly repos: unknown;
  /** What the runner noted when the folders were new. */
  readonly kept: KeptFacts;
  /** Marks the workspace as cloned and set up, so that the next run continues in it. */
  settle(kept: KeptFacts, left?: Partial<LeftByRun>): Promise<void>;
}

export interface KeptFacts {
  /** The folder of the prepared copy from which these folders were copied: set-up may have written its path into files. */
  readonly preparedAt?: string | undefined;
  /** The submodules of the clones, each with the index of its repository in the workspace. */
  readonly submodules?: readonly { readonly url: string; readonly path: string; readonly of: number }[];
}

interface LeftByRun {
  /** The digest of the messages that the session contains because the provider interrupted the last run, or empty. */
  readonly heldBatch: string;
  /** What the last run could not save, for the agent's prompt, or empty. */
  readonly notSaved: string;
}

interface Note extends Partial<LeftByRun>, KeptFacts {
  readonly homeSince: number;
  readonly repos: unknown;
}

const keyPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const asideSuffix = '.left-';

export const agentsFolder = (dataFolder: string): string => join(dataFolder, 'agents');

export async function agentFolders(
  dataFolder: string,
  { agentKey, homeSince, workspace }: Pick<Claim, 'agentKey' | 'homeSince' | 'workspace'>,
): Promise<AgentFolders> {
  if (!keyPattern.test(agentKey)) throw new Error(`the agent key is not a UUID: "${agentKey}"`);
  const folder = join(agentsFolder(dataFolder), agentKey);
  const noteFile = join(folder, 'note.json');
  const folders = { workspaceFolder: join(folder, 'workspace'), homeFolder: join(folder, 'home') };
  const note = await readNote(noteFile);
  const isFresh = note?.homeSince !== homeSince;
  const repos = isFresh ? (workspace.document.repos ?? []) : note.repos;
  // Without a note, nothing of the agent has run in the folder yet.
  if (isFresh) await (note ? rename(folder, `${folder}${asideSuffix}${Date.now()}`) : removeFolder(folder));
  await mkdir(folders.workspaceFolder, { recursive: true, mode: 0o700 });
  await mkdir(folders.homeFolder, { recursive: true, mode: 0o700 });
  return {
    ...folders,
    isFresh,
    repos,
    heldBatch: isFresh ? '' : (note.heldBatch ?? ''),
    notSaved: isFresh ? '' : (note.notSaved ?? ''),
    kept: isFresh ? {} : { preparedAt: note.preparedAt, submodules: note.submodules ?? [] },
    settle: async (kept, left = {}) => {
      const next: Note = { homeSince, repos, ...kept, ...left };
      // A runner that is killed here leaves no note rather than half of one.
      await writeFile(`${noteFile}.new`, JSON.stringify(next));
      await rename(`${noteFile}.new`, noteFile);
    },
  };
}

async function readNote(file: string): Promise<Note | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Note;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    // A machine that lost power may leave an empty note: the folder is set aside, because the agent may have worked in it.
    if (error instanceof SyntaxError) return { homeSince: -1, repos: [] };
    throw error;
  }
}

const keysPerCall = 1000;
const callTimeoutMs = 10_000;
const dayMs = 24 * 3_600_000;

export interface SweepOptions {
  readonly dataFolder: string;
  readonly runnerId: string;
  readonly client: MusterClient;
  readonly signal: AbortSignal;
  /** How long folders are kept after the end of their agent. */
  readonly keepDays: number;
  /** Agents with a run here are never touched. */
  readonly isBusy: (agentKey: string) => boolean;
  /** A run of the agent that starts meanwhile has to wait for the removal. */
  readonly onRemoval: (agentKey: string, removal: Promise<void>) => void;
  readonly log: RunnerLog;
  readonly spaceOf?: (folder: string) => Promise<DiskSpace>;
  /** The free space is below the reserve. */
  readonly isBelowReserve: () => boolean;
  /** Removed before the folders of agents. */
  readonly preparedCopies: Pick<PreparedCopies, 'sweep'>;
}

/**
 * Removes folders that were set aside, and those of agents that ended long enough ago. Their branches are in their
 * repositories and unpushed work is in their checkpoints; what was neither pushed nor saved is lost. While little of the
 * disk is free, folders of killed agents and of agents whose work is saved are removed earlier.
 */
export async function sweepAgentFolders(options: SweepOptions): Promise<void> {
  const { dataFolder, runnerId, client, signal, keepDays, isBusy, onRemoval, log } = options;
  const isFull = () => isDiskFull(dataFolder, options.spaceOf);
  await options.preparedCopies.sweep(keepDays, isFull);
  const folder = agentsFolder(dataFolder);
  // A folder that can't be removed must not prevent the removal of others.
  const remove = (name: string): Promise<void> =>
    removeFolder(join(folder, name)).catch((error: unknown) =>
      log.warn({ folder: join(folder, name), err: error }, 'folder not removed; remove it by hand'),
    );
  const names = await readdir(folder).catch(() => []);
  const keptSinceMs = Date.now() - keepDays * dayMs;
  for (const name of names) if (setAsideMs(name) < keptSinceMs) await remove(name);

  const keys = names.filter((name) => keyPattern.test(name) && !isBusy(name));
  const sweep = async (
    which: { forDays: number; saved?: boolean; killed?: boolean },
    isDue: (key: string) => Promise<boolean>,
  ) => {
    for (let at = 0; at < keys.length; at += keysPerCall) {
      const agentKeys = keys.slice(at, at + keysPerCall);
      const body = { runnerId, agentKeys, ...which };
      const { ended } = await client.call('runnerEndedAgents', body, { signal, timeoutMs: callTimeoutMs });
      for (const key of ended.filter((k) => agentKeys.includes(k))) {
        if (isBusy(key)) continue;
        if (!(await isDue(key))) return;
        // Removing other folders took time. The agent may have been reopened since, and its processes use this one.
        if (isBusy(key)) continue;
        const removal = remove(key);
        onRemoval(key, removal);
        await removal;
      }
    }
  };
  await sweep({ forDays: keepDays }, async () => true);
  if (!(await isFull()) && !options.isBelowReserve()) return;
  // Those that were killed are removed with what they did not save: the kill said so.
  const killed = options.isBelowReserve();
  await sweep({ forDays: 0, saved: true, ...(killed && { killed }) }, async (agentKey) => {
    const isDue = (await isFull()) || options.isBelowReserve();
    if (isDue) log.warn({ agentKey }, 'disk almost full: removing folders of an ended agent');
    return isDue;
  });
}

/** When a folder was set aside, by its name; infinite for any other name. */
function setAsideMs(name: string): number {
  const [key = '', since = ''] = name.split(asideSuffix);
  return keyPattern.test(key) && /^\d+$/.test(since) ? Number(since) : Number.POSITIVE_INFINITY;
}

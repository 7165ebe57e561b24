import { readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { MusterClient } from '@muster/sdk';
import { agentsFolder, isAgentKey, setAsideMs } from './agent-folders.ts';
import type { RunnerLog } from './log.ts';
import { removeFolder } from './remove-folder.ts';
import { callWithin } from './retry.ts';

const keysPerCall = 1000;
const callMs = 10_000;
const dayMs = 24 * 3_600_000;
/** From here on the folders of ended agents go before their time, if their work is saved. */
const fullDisk = 0.85;

/**
 * Removes the folders of agents that ended long enough ago, and those that were set aside. Their branches are in their
 * repositories and what is not pushed is in their checkpoints; what was neither pushed nor saved goes.
 */
export async function sweepAgents(options: {
  readonly dataFolder: string;
  readonly runnerId: string;
  readonly client: MusterClient;
  readonly signal: AbortSignal;
  /** How long folders are kept after the end of their agent. */
  readonly keepDays: number;
  /** Agents with a run here: never touched. */
  readonly isBusy: (agentKey: string) => boolean;
  /** A run of the agent that comes meanwhile has to wait until its old folder is gone. */
  readonly removing: (agentKey: string, removal: Promise<void>) => void;
  readonly log: RunnerLog;
  /** How much of the disk is in use, from 0 to 1. */
  readonly diskUse?: (folder: string) => Promise<number>;
}): Promise<void> {
  const { dataFolder, runnerId, client, signal, keepDays, isBusy, removing, log } = options;
  const diskUse = options.diskUse ?? usedShare;
  const folder = agentsFolder(dataFolder);
  // What can't be removed must not keep the others.
  const remove = (name: string): Promise<void> => removeFolder(join(folder, name)).catch(() => {});
  const names = await readdir(folder).catch(() => []);
  const keptSinceMs = Date.now() - keepDays * dayMs;
  for (const name of names) if (setAsideMs(name) < keptSinceMs) await remove(name);

  const keys = names.filter((name) => isAgentKey(name) && !isBusy(name));
  const sweep = async (
    which: { forDays: number; saved?: boolean },
    isDue: (key: string) => Promise<boolean>,
  ) => {
    for (let at = 0; at < keys.length; at += keysPerCall) {
      const agentKeys = keys.slice(at, at + keysPerCall);
      const { ended } = await callWithin(callMs, signal, (s) =>
        client.call('runnerEndedAgents', { runnerId, agentKeys, ...which }, { signal: s }),
      );
      for (const key of ended.filter((k) => agentKeys.includes(k) && !isBusy(k))) {
        if (!(await isDue(key))) return;
        const removal = remove(key);
        removing(key, removal);
        await removal;
      }
    }
  };
  await sweep({ forDays: keepDays }, async () => true);
  if ((await diskUse(dataFolder)) <= fullDisk) return;
  await sweep({ forDays: 0, saved: true }, async (agentKey) => {
    const isFull = (await diskUse(dataFolder)) > fullDisk;
    if (isFull)
      log.warn(
        { agentKey },
        'the disk is almost full: the folders of an ended agent, whose work is saved, are removed',
      );
    return isFull;
  });
}

async function usedShare(folder: string): Promise<number> {
  const { bavail, blocks } = await statfs(folder);
  return 1 - bavail / blocks;
}

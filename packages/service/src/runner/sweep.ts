import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { MusterClient } from '@muster/sdk';
import { agentsFolder, isAgentKey, setAsideMs } from './agent-folders.ts';
import { removeFolder } from './remove-folder.ts';
import { callWithin } from './retry.ts';

const keysPerCall = 1000;
const callMs = 10_000;
const dayMs = 24 * 3_600_000;

/**
 * Removes the folders of agents that ended long enough ago, and those that were set aside. Their branches are in their
 * repositories and their sessions with the service; what was neither pushed nor saved goes.
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
}): Promise<void> {
  const { dataFolder, runnerId, client, signal, keepDays, isBusy, removing } = options;
  const folder = agentsFolder(dataFolder);
  // What can't be removed must not keep the others.
  const remove = (name: string): Promise<void> => removeFolder(join(folder, name)).catch(() => {});
  const names = await readdir(folder).catch(() => []);
  const keptSinceMs = Date.now() - keepDays * dayMs;
  for (const name of names) if (setAsideMs(name) < keptSinceMs) await remove(name);
  const keys = names.filter((name) => isAgentKey(name) && !isBusy(name));
  for (let at = 0; at < keys.length; at += keysPerCall) {
    const agentKeys = keys.slice(at, at + keysPerCall);
    const { ended } = await callWithin(callMs, signal, (s) =>
      client.call('runnerEndedAgents', { runnerId, agentKeys, forDays: keepDays }, { signal: s }),
    );
    for (const key of ended.filter((k) => agentKeys.includes(k) && !isBusy(k))) {
      const removal = remove(key);
      removing(key, removal);
      await removal;
    }
  }
}

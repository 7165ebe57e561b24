import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { MusterClient } from '@muster/sdk';
import { agentsFolder, isAgentKey } from './agent-folders.ts';
import { removeFolder } from './remove-folder.ts';
import { callWithin } from './retry.ts';

const keysPerCall = 1000;
const callMs = 10_000;

/**
 * Clears away the folders of agents that have ended. Their branches are in their repositories and their sessions
 * with the service; what was neither pushed nor saved goes.
 */
export async function sweepAgents(options: {
  readonly dataFolder: string;
  readonly runnerId: string;
  readonly client: MusterClient;
  readonly signal: AbortSignal;
  /** Agents with a run here: never touched. */
  readonly isBusy: (agentKey: string) => boolean;
}): Promise<void> {
  const { dataFolder, runnerId, client, signal, isBusy } = options;
  const folder = agentsFolder(dataFolder);
  const names = await readdir(folder).catch(() => []);
  const keys = names.filter((name) => isAgentKey(name) && !isBusy(name));
  for (let at = 0; at < keys.length; at += keysPerCall) {
    const agentKeys = keys.slice(at, at + keysPerCall);
    const { ended } = await callWithin(callMs, signal, (s) =>
      client.call('runnerEndedAgents', { runnerId, agentKeys }, { signal: s }),
    );
    for (const key of ended.filter((k) => agentKeys.includes(k) && !isBusy(k))) {
      // What can't be removed must not keep the others.
      await removeFolder(join(folder, key)).catch(() => {});
    }
  }
}

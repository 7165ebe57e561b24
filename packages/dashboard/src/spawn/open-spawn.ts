import type { AgentId, Caller, TaskInput } from '@muster/sdk';
import { useSyncExternalStore } from 'react';

/** What the dialog begins with, instead of what was chosen last. */
export interface SpawnPreset {
  /** The new agent stands below this one, in its workspace and with its owner. */
  readonly parent?: AgentId;
  readonly name?: string;
  readonly description?: string;
  readonly expectedOutput?: string;
  readonly workspace?: string;
  readonly persona?: string;
  readonly model?: string;
  readonly reasoningEffort?: string;
  readonly serviceTier?: string;
  readonly fastMode?: boolean;
  readonly outputSchema?: string;
  readonly tasks?: readonly TaskInput[];
}

let preset: SpawnPreset | null = null;
const listeners = new Set<() => void>();

function become(next: SpawnPreset | null): void {
  preset = next;
  for (const listener of listeners) listener();
}

/** Opens the dialog for a new agent, from wherever on the page. */
export const openSpawn = (initial: SpawnPreset = {}): void => become(initial);
export const closeSpawn = (): void => become(null);

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** What the open dialog begins with; null while there is none. */
export const useSpawnPreset = (): SpawnPreset | null => useSyncExternalStore(subscribe, () => preset);

export const maySpawn = ({ role }: Pick<Caller, 'role'>): boolean => role !== 'viewer';

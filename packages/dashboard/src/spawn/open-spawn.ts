import type { Caller } from '@muster/sdk';
import { useSyncExternalStore } from 'react';
import type { SpawnPreset } from './model/spawn-draft.ts';

let preset: SpawnPreset | null = null;
const listeners = new Set<() => void>();

function setPreset(next: SpawnPreset | null): void {
  preset = next;
  for (const listener of listeners) listener();
}

/** Opens the dialog for a new agent. */
export const openSpawn = (initial: SpawnPreset = {}): void => setPreset(initial);
export const closeSpawn = (): void => setPreset(null);

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** Null while the dialog is closed. */
export const useSpawnPreset = (): SpawnPreset | null => useSyncExternalStore(subscribe, () => preset);

export const maySpawn = ({ role }: Pick<Caller, 'role'>): boolean => role !== 'viewer';

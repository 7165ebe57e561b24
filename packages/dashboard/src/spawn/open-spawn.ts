import type { Caller } from '@muster/sdk';
import { useSyncExternalStore } from 'react';
import { Listeners } from '../parts/model/listeners.ts';
import type { SpawnPreset } from './model/spawn-draft.ts';

let preset: SpawnPreset | null = null;
const listeners = new Listeners();

function setPreset(next: SpawnPreset | null): void {
  preset = next;
  listeners.notify();
}

/** Opens the dialog for a new agent. */
export const openSpawn = (initial: SpawnPreset = {}): void => setPreset(initial);
export const closeSpawn = (): void => setPreset(null);

/** Null while the dialog is closed. */
export const useSpawnPreset = (): SpawnPreset | null =>
  useSyncExternalStore(listeners.subscribe, () => preset);

export const maySpawn = ({ role }: Pick<Caller, 'role'>): boolean => role !== 'viewer';

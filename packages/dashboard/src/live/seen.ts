import { useSyncExternalStore } from 'react';
import { SeenAgents, type SeenState } from './model/seen-agents.ts';

/** The agents that were seen in any tab of this browser. */
export const seenAgents = new SeenAgents(localStorage);
addEventListener('storage', ({ key, newValue, storageArea }) => {
  if (storageArea === localStorage) seenAgents.applyStorageEvent(key, newValue);
});

/** A component that shows an agent calls this with the last entry that it shows. */
export const markSeen = (page: string, sequence: string, createdAt: string): void =>
  seenAgents.mark([[page, { sequence, createdAt }]]);

/** False for an agent that is not loaded yet. */
export const useSeen = (page: string, agent: SeenState | undefined): boolean =>
  useSyncExternalStore(seenAgents.subscribe, () => agent !== undefined && seenAgents.isSeen(page, agent));

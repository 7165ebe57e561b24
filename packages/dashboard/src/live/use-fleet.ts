import { createContext, useContext, useSyncExternalStore } from 'react';
import type { Fleet, FleetView } from './fleet.ts';

export const FleetContext = createContext<Fleet | null>(null);

/** The fleet itself, for who follows it in ways of its own. */
export function useFleetSource(): Fleet {
  const fleet = useContext(FleetContext);
  if (!fleet) throw new Error('there is no fleet on this page');
  return fleet;
}

export function useFleet(): FleetView {
  const fleet = useFleetSource();
  return useSyncExternalStore(fleet.subscribe, fleet.view);
}

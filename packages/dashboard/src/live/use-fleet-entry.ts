import type { AgentEntry } from '@muster/sdk';
import { useCallback, useContext, useSyncExternalStore } from 'react';
import type { Below } from './kin.ts';
import { FleetContext, useFleetSource } from './use-fleet.ts';

/** One agent of the fleet by the address of its page. It draws anew when that one changes, not with the whole fleet. */
export function useFleetEntry(page: string): AgentEntry | undefined {
  const fleet = useContext(FleetContext);
  const watch = useCallback(
    (listener: () => void) => fleet?.watch(page, listener) ?? (() => {}),
    [fleet, page],
  );
  return useSyncExternalStore(watch, () => fleet?.agent(page));
}

/** What is known of those below it. */
export function useBelow(page: string): Below {
  const fleet = useFleetSource();
  const watch = useCallback((listener: () => void) => fleet.watch(page, listener), [fleet, page]);
  return useSyncExternalStore(watch, () => fleet.below(page));
}

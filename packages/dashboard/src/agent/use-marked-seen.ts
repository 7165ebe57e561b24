import { type AgentStatus, compareInt64 } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { useEffect, useSyncExternalStore } from 'react';
import { useFleetEntry } from '../live/fleet.ts';
import { markSeen } from '../live/seen.ts';

const subscribe = (listener: () => void): (() => void) => {
  document.addEventListener('visibilitychange', listener);
  return () => document.removeEventListener('visibilitychange', listener);
};
const useIsVisible = (): boolean => useSyncExternalStore(subscribe, () => !document.hidden);

/** Who has the page of an agent before their eyes has seen it, up to the newest that is known of it. */
export function useMarkedSeen({ agentId, createdAt }: AgentStatus, newest: string): void {
  const page = agentPage(agentId);
  const listed = useFleetEntry(page)?.sequence ?? '0';
  const sequence = compareInt64(listed, newest) > 0 ? listed : newest;
  const isVisible = useIsVisible();
  useEffect(() => {
    if (isVisible && sequence !== '0') markSeen(page, sequence, createdAt);
  }, [isVisible, page, sequence, createdAt]);
}

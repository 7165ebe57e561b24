import { useSyncExternalStore } from 'react';

/**
 * The key is the link: it stands in the fragment, which no browser sends anywhere, and stays there, so that a reload
 * works. From here it goes to the service as a bearer and nowhere else.
 */
export const shareKeyIn = (fragment: string): string => /^#(mst_[^&]+)/.exec(fragment)?.[1] ?? '';

const subscribe = (listener: () => void): (() => void) => {
  addEventListener('hashchange', listener);
  return () => removeEventListener('hashchange', listener);
};

/** The key of the link that the page was opened with; empty when there is none. */
export const useShareKey = (): string => useSyncExternalStore(subscribe, () => shareKeyIn(location.hash));

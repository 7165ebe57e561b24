import { useSyncExternalStore } from 'react';

/**
 * The address of a link holds its secret in the fragment, which no browser sends anywhere. The page exchanges the
 * secret for a session and shows it at `/share/<session>`: a reload works in this browser, and an address that is
 * copied from there gives nobody access.
 */
export const secretIn = (fragment: string): string => /^#(mst_[^&]+)/.exec(fragment)?.[1] ?? '';
export const sessionIn = (path: string): string => /^\/share\/([0-9a-f-]{36})$/.exec(path)?.[1] ?? '';

const listeners = new Set<() => void>();
const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  addEventListener('hashchange', listener);
  return () => {
    listeners.delete(listener);
    removeEventListener('hashchange', listener);
  };
};

export function showSession(id: string): void {
  history.replaceState(null, '', `/share/${id}`);
  for (const listener of listeners) listener();
}

/** What the address of the page names: the secret of a link, a session, or neither. */
export const useShareAddress = (): { readonly secret: string; readonly session: string } => {
  const address = useSyncExternalStore(subscribe, () => location.pathname + location.hash);
  const [path = '', fragment = ''] = address.split(/(?=#)/);
  return { secret: secretIn(fragment), session: sessionIn(path) };
};

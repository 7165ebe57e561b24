import { useSyncExternalStore } from 'react';

/** Which panels the reader opened or closed, on every agent's page alike; it stays in the browser. */
const storageKey = 'muster.panels';
const listeners = new Set<() => void>();

let chosen: Readonly<Record<string, boolean>> = read();

function read(): Readonly<Record<string, boolean>> {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(storageKey) ?? '{}');
    return typeof stored === 'object' && stored !== null ? (stored as Record<string, boolean>) : {};
  } catch {
    return {};
  }
}

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export function useOpenPanel(name: string, isOpenAtFirst: boolean): [boolean, (isOpen: boolean) => void] {
  const isOpen = useSyncExternalStore(subscribe, () => chosen[name] ?? isOpenAtFirst);
  const choose = (next: boolean) => {
    if (next === isOpen) return;
    chosen = { ...chosen, [name]: next };
    localStorage.setItem(storageKey, JSON.stringify(chosen));
    for (const listener of listeners) listener();
  };
  return [isOpen, choose];
}

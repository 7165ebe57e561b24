import { useSyncExternalStore } from 'react';

/** The time in whole seconds, one clock for everything on the page that tells an age. */
let nowMs = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  // Only a clock that stood still is wrong; a new time for each new listener would draw every one of them twice.
  if (listeners.size === 0) nowMs = Date.now();
  listeners.add(listener);
  timer ??= setInterval(() => {
    nowMs = Date.now();
    for (const tell of listeners) tell();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

export const useNow = (): number => useSyncExternalStore(subscribe, () => nowMs);

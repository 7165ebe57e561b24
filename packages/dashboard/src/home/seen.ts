import { useSyncExternalStore } from 'react';
import { type Looked, SeenMarks } from './seen-marks.ts';

/** What was looked at in this browser, in all its tabs. */
export const seenMarks = new SeenMarks(localStorage);
addEventListener('storage', ({ key, newValue, storageArea }) => {
  if (storageArea === localStorage) seenMarks.learn(key, newValue);
});

/** Whoever shows an agent says here how far; `createdAt` tells it from a later agent at the same address. */
export const markSeen = (page: string, sequence: string, createdAt: string): void =>
  seenMarks.mark([[page, { sequence, createdAt }]]);

/** Whether all of an agent was looked at; false for one that is not known yet. */
export const useSeen = (page: string, agent: Looked | undefined): boolean =>
  useSyncExternalStore(seenMarks.subscribe, () => agent !== undefined && seenMarks.isSeen(page, agent));

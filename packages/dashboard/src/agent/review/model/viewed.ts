import type { DiffFile } from '../../panels/model/diff-files.ts';

type ViewedStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;
/** The contents that were viewed, by file. */
export type Viewed = Readonly<Record<string, string>>;

const indexKey = 'muster.viewed';
const storageKey = (key: string): string => `${indexKey} ${key}`;
/** Older ones are forgotten. */
const keptAgents = 100;
const keptFiles = 2_000;

export const fileKey = ({ repo, path }: Pick<DiffFile, 'repo' | 'path'>): string => `${repo} ${path}`;

/** Identifies what changed in a file, whatever is around it. */
export function contentOf({ text, oldPath, change }: DiffFile): string {
  let [high, low] = [0xdeadbeef, 0x41c6ce57];
  const add = (code: number) => {
    high = Math.imul(high ^ code, 2654435761);
    low = Math.imul(low ^ code, 1597334677);
  };
  const changes = text.match(/^[+-].*$/gm) ?? [];
  for (const part of [change, oldPath, ...changes]) {
    for (let at = 0; at < part.length; at++) add(part.charCodeAt(at));
    add(10);
  }
  return (high >>> 0).toString(36) + (low >>> 0).toString(36);
}

export function isViewed(viewed: Viewed, file: DiffFile): boolean {
  return viewed[fileKey(file)] === contentOf(file);
}

/** Empty if nothing is stored, or if another version of this page wrote it. */
export function storedViewed(storage: ViewedStorage, key: string): Viewed {
  const stored = parsed(storage.getItem(storageKey(key)));
  const isKnown = typeof stored === 'object' && stored !== null && !Array.isArray(stored);
  return isKnown ? (stored as Viewed) : {};
}

export function storeViewed(storage: ViewedStorage, key: string, viewed: Viewed): void {
  const known = parsed(storage.getItem(indexKey));
  const others = (Array.isArray(known) ? known : []).filter((other) => other !== key).map(String);
  const kept = [...others, key].slice(-keptAgents);
  try {
    for (const other of others) if (!kept.includes(other)) storage.removeItem(storageKey(other));
    storage.setItem(indexKey, JSON.stringify(kept));
    storage.setItem(
      storageKey(key),
      JSON.stringify(Object.fromEntries(Object.entries(viewed).slice(-keptFiles))),
    );
  } catch {
    // The storage is full: a reload shows the file as not viewed.
  }
}

function parsed(stored: string | null): unknown {
  try {
    return JSON.parse(stored ?? 'null');
  } catch {
    return null;
  }
}

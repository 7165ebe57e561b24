import { AsyncLocalStorage } from 'node:async_hooks';
import { HostError } from './host-error.ts';
import type { HostJson } from './host-json.ts';

/**
 * How much one piece of work may read of a host in all of its calls together. A single list has a limit of entries, but a
 * host decides how many lists there are, how many pages a list has and how large an entry is.
 */
const most = { values: 500_000, characters: 16 * 1024 * 1024, replies: 2_000 };

interface Spent {
  values: number;
  characters: number;
  replies: number;
  /** Replies that count for the limits of the host: not those that say that nothing changed. */
  calls: number;
  /** Permissions without which a part was not read. */
  readonly missing: Set<string>;
}

const budgets = new AsyncLocalStorage<Spent>();

/** All calls to hosts in this work share one budget. */
export const withinBudget = <T>(work: () => Promise<T>): Promise<T> =>
  budgets.run({ values: 0, characters: 0, replies: 0, calls: 0, missing: new Set() }, work);

/** What the current work has asked of hosts until now. */
export const spentInWork = (): { readonly calls: number; readonly missing: readonly string[] } => {
  const spent = budgets.getStore();
  return { calls: spent?.calls ?? 0, missing: [...(spent?.missing ?? [])].sort() };
};

/** The work goes on without what this permission is needed for. */
export const noteMissing = (permission: string): void => void budgets.getStore()?.missing.add(permission);

export function countCall(): void {
  const spent = budgets.getStore();
  if (spent) spent.calls += 1;
}

/** Adds a reply to what the current work has read; throws when that is too much. */
export function spend({ values, characters }: HostJson, request: string): void {
  const spent = budgets.getStore();
  if (!spent) return;
  spent.values += values;
  spent.characters += characters;
  spent.replies += 1;
  for (const bound of ['values', 'characters', 'replies'] as const)
    if (spent[bound] > most[bound])
      throw new HostError('refused', 0, `${request}: the host sent more than ${most[bound]} ${bound} in all`);
}

import type { AgentEntry, Caller } from '@muster/sdk';
import { isOwn, mayCommand } from './allowed-actions.ts';
import { type Attention, attentionOf, attentionTitles, isSeen, needsPerson } from './attention.ts';

/** Whose agents: the person's own, or all that the person may command. */
export type InboxScope = 'mine' | 'everyone';

/** `seen`: it still needs the person, who has seen all of it. */
export type InboxSection = Attention | 'seen';

export interface InboxItem {
  /** The path of the agent's page. */
  readonly page: string;
  readonly section: InboxSection;
}

export type InboxItems = Readonly<Record<InboxScope, readonly InboxItem[]>>;

/** The last one is the least urgent. */
const sections: readonly InboxSection[] = ['question', 'blocked', 'failed', 'unfinished', 'finished', 'seen'];

export const sectionPlace = (section: InboxSection): number => sections.indexOf(section);

export const inboxTitle = (section: InboxSection): string =>
  section === 'seen' ? 'Seen, still open' : section === 'finished' ? 'Finished' : attentionTitles[section];

/** Where an agent is in the inbox; null if it needs nobody. Its parent reads what a child has finished. */
export function inboxSectionOf(entry: AgentEntry): InboxSection | null {
  const seen = isSeen(entry);
  const attention = attentionOf(entry, seen);
  if (needsPerson(attention)) return seen ? 'seen' : attention;
  return attention === 'finished' && entry.agentId.agent.length === 1 ? 'finished' : null;
}

interface Placed extends InboxItem {
  readonly since: string;
  readonly isMine: boolean;
}

/** By urgency, then those that have waited longest: what is new comes last in its section. */
const byPlace = (a: Placed, b: Placed): number =>
  sectionPlace(a.section) - sectionPlace(b.section) ||
  (a.since < b.since ? -1 : a.since > b.since ? 1 : a.page < b.page ? -1 : 1);

export function inboxItems(
  agents: Iterable<readonly [page: string, AgentEntry]>,
  caller: Caller,
): InboxItems {
  const placed: Placed[] = [];
  for (const [page, entry] of agents) {
    const section = inboxSectionOf(entry);
    if (section === null || !mayCommand(caller, entry.agentId)) continue;
    placed.push({ page, section, since: entry.phaseSince, isMine: isOwn(entry, caller) });
  }
  placed.sort(byPlace);
  return { mine: placed.filter(({ isMine }) => isMine), everyone: placed };
}

export const isSameInbox = (a: readonly InboxItem[], b: readonly InboxItem[]): boolean =>
  a.length === b.length &&
  a.every(({ page, section }, at) => b[at]?.page === page && b[at]?.section === section);

/** The items with the current agent, which keeps its place while the person looks at it. */
export function keepingCurrent(
  items: readonly InboxItem[],
  before: readonly InboxItem[],
  current: string | null,
): readonly InboxItem[] {
  if (current === null || items.some(({ page }) => page === current)) return items;
  const index = before.findIndex(({ page }) => page === current);
  const kept = before[index];
  if (!kept) return items;
  const earlier = new Set(before.slice(0, index).map(({ page }) => page));
  const at = items.filter(
    ({ page, section }) =>
      sectionPlace(section) < sectionPlace(kept.section) || (section === kept.section && earlier.has(page)),
  ).length;
  return [...items.slice(0, at), kept, ...items.slice(at)];
}

/** The agent after or before the current one, around the end; null if there is none other. */
export function stepFrom(items: readonly InboxItem[], current: string | null, by: 1 | -1): string | null {
  const index = items.findIndex(({ page }) => page === current);
  const start = index === -1 && by === -1 ? 0 : index;
  const next = items[(start + by + items.length) % items.length]?.page ?? null;
  return next === current ? null : next;
}

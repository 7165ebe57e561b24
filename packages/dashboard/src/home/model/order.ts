import type { AgentEntry } from '@muster/sdk';
import { type Attention, attentions, needsPerson } from '../../live/model/attention.ts';
import type { Grouping, Sort, SortField } from './filter.ts';

export interface Row {
  readonly page: string;
  readonly entry: AgentEntry;
  readonly attention: Attention;
  readonly isMine: boolean;
}

export type Order = (a: Row, b: Row) => number;

/** The service's timestamps have one format, so comparing the strings compares the times. */
const earlier = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const oldestFirst: Order = (a, b) => earlier(a.entry.phaseSince, b.entry.phaseSince);
const newestFirst: Order = (a, b) => earlier(b.entry.phaseSince, a.entry.phaseSince);

const recentMs = 60_000;

/**
 * Sorting by newest progress would reorder a busy fleet with every entry. So agents with progress in the last minute are
 * sorted by creation, newest first, which is stable; below them are the silent agents, the longest silent last.
 */
function byProgress(nowMs: number): Order {
  const since = new Date(nowMs - recentMs).toISOString();
  return ({ entry: a }, { entry: b }) => {
    const isRecent = a.progressAt >= since;
    if (isRecent !== b.progressAt >= since) return isRecent ? -1 : 1;
    return isRecent ? earlier(b.createdAt, a.createdAt) : earlier(b.progressAt, a.progressAt);
  };
}

const endedSections: ReadonlySet<Attention> = new Set(['failed', 'finished', 'failed-seen', 'idle']);

/** Within a status. What needs the person comes before what needs others. */
function byUrgency(attention: Attention, nowMs: number): Order {
  if (attention === 'working') return byProgress(nowMs);
  const byTime = endedSections.has(attention) ? newestFirst : oldestFirst;
  if (!needsPerson(attention)) return byTime;
  return (a, b) => Number(b.isMine) - Number(a.isMine) || byTime(a, b);
}

const chosenOrders: Readonly<Record<SortField, Order>> = {
  name: (a, b) => earlier(a.page, b.page),
  created: (a, b) => earlier(b.entry.createdAt, a.entry.createdAt),
  changed: newestFirst,
  cost: (a, b) => b.entry.treeCost - a.entry.treeCost,
};

export const sortTitles: Readonly<Record<SortField, readonly [usual: string, reversed: string]>> = {
  name: ['Name', 'Name, Z to A'],
  created: ['Newest', 'Oldest'],
  changed: ['Last change', 'Longest unchanged'],
  cost: ['Highest cost', 'Lowest cost'],
};

export function orderOf(section: string, group: Grouping, sort: Sort, nowMs: number): Order {
  if (sort !== '') {
    const order = chosenOrders[sort.replace('-', '') as SortField];
    return sort.startsWith('-') ? (a, b) => order(b, a) : order;
  }
  // By name, so that they stay in place.
  if (section === 'pinned') return () => 0;
  const orders = new Map(attentions.map((attention) => [attention, byUrgency(attention, nowMs)]));
  const inStatus: Order = (a, b) => orders.get(a.attention)?.(a, b) ?? 0;
  if (group === 'status') return inStatus;
  return (a, b) => attentions.indexOf(a.attention) - attentions.indexOf(b.attention) || inStatus(a, b);
}

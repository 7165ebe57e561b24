import type { AgentEntry, AgentId } from '@muster/sdk';
import { type Attention, attentionOf, attentions } from '../live/model/attention.ts';
import { labelTexts } from '../parts/model/text.ts';
import { type Filter, fitterOf, ownerOf } from './filter.ts';

/** Agents that want the same of a person, by the addresses of their pages, the most urgent first. */
export interface Section {
  readonly attention: Attention;
  readonly pages: readonly string[];
}

/** What is said about the list, beside the list. */
export interface Summary {
  readonly total: number;
  readonly shown: number;
  /** How many would be in each section if no section were chosen. */
  readonly counts: Readonly<Record<Attention, number>>;
  /** How many in the whole fleet wait for somebody to do something. */
  readonly needed: number;
  readonly rehearsed: number;
  /** Agents of a real model whose latest run had no sandbox. */
  readonly unsandboxed: number;
  readonly owners: readonly string[];
  readonly workspaces: readonly string[];
  /** `key=value` of every label, up to a bound. */
  readonly labels: readonly string[];
}

export interface Arrangement {
  readonly sections: readonly Section[];
  readonly summary: Summary;
}

interface Placed {
  readonly page: string;
  readonly entry: AgentEntry;
}
type Order = (a: Placed, b: Placed) => number;

/** Timestamps of the service are all of one form, so that their texts are in the order of time. */
const earlier = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const oldestFirst: Order = (a, b) => earlier(a.entry.phaseSince, b.entry.phaseSince);
const newestFirst: Order = (a, b) => earlier(b.entry.phaseSince, a.entry.phaseSince);

/** Agents that did something within this time are equally new. */
const recentMs = 60_000;

/**
 * Newest progress first would shuffle a fleet in full swing with every entry that anybody writes. So all who got on
 * within the last minute stand in a lasting order, the youngest first; below them those who are silent, the longest last.
 */
function byProgress(nowMs: number): Order {
  const since = new Date(nowMs - recentMs).toISOString();
  return ({ entry: a }, { entry: b }) => {
    const isRecent = a.progressAt >= since;
    if (isRecent !== b.progressAt >= since) return isRecent ? -1 : 1;
    return isRecent ? earlier(b.createdAt, a.createdAt) : earlier(b.progressAt, a.progressAt);
  };
}

/** Whoever waits for a person or a place: the longest first. Whoever came to an end: the newest first. */
const orderOf = (attention: Attention, nowMs: number): Order => {
  const orders: Readonly<Record<Attention, Order>> = {
    question: oldestFirst,
    blocked: oldestFirst,
    failed: newestFirst,
    unfinished: oldestFirst,
    finished: newestFirst,
    waiting: oldestFirst,
    working: byProgress(nowMs),
    idle: newestFirst,
  };
  return orders[attention];
};

const needing: ReadonlySet<Attention> = new Set(['question', 'blocked', 'failed', 'unfinished']);

/** Nobody chooses from a longer list; the search finds the others. */
const mostLabels = 200;

export function arrange(
  agents: Iterable<readonly [page: string, AgentEntry]>,
  isSeen: (page: string, entry: AgentEntry) => boolean,
  filter: Filter,
  nowMs: number,
): Arrangement {
  const placed: Record<Attention, Placed[]> = {
    question: [],
    blocked: [],
    failed: [],
    unfinished: [],
    finished: [],
    waiting: [],
    working: [],
    idle: [],
  };
  const fits = fitterOf(filter);
  const owners = new Set<string>();
  const workspaces = new Set<string>();
  const labels = new Set<string>();
  let [total, needed, rehearsed, unsandboxed] = [0, 0, 0, 0];
  let last: AgentId | undefined;
  for (const [page, entry] of agents) {
    total += 1;
    const { agentId } = entry;
    workspaces.add(agentId.workspace);
    if (labels.size < mostLabels) for (const label of labelTexts(entry.labels)) labels.add(label);
    // Neighbours mostly have one owner, and the name of one takes time to write.
    if (agentId.account !== last?.account || agentId.ownerProvider !== last.ownerProvider)
      owners.add(ownerOf(agentId));
    last = agentId;
    if (entry.rehearsed) rehearsed += 1;
    else if (!entry.sandboxed) unsandboxed += 1;
    const attention = attentionOf(entry, isSeen(page, entry));
    if (needing.has(attention)) needed += 1;
    if (fits(entry)) placed[attention].push({ page, entry });
  }
  const chosen = filter.phases.length > 0 ? filter.phases : attentions;
  const sections = chosen
    .filter((attention) => placed[attention].length > 0)
    .map((attention) => ({
      attention,
      pages: sorted(placed[attention], orderOf(attention, nowMs)),
    }));
  const counts = Object.fromEntries(attentions.map((attention) => [attention, placed[attention].length]));
  return {
    sections,
    summary: {
      total,
      shown: sections.reduce((sum, { pages }) => sum + pages.length, 0),
      counts: counts as Record<Attention, number>,
      needed,
      rehearsed,
      unsandboxed,
      owners: [...owners].sort(),
      workspaces: [...workspaces].sort(),
      labels: [...labels].sort(),
    },
  };
}

const sorted = (placed: Placed[], order: Order): string[] =>
  placed.sort((a, b) => order(a, b) || earlier(a.page, b.page)).map(({ page }) => page);

export const isSameOrder = (a: readonly Section[], b: readonly Section[]): boolean =>
  a.length === b.length &&
  a.every(({ attention, pages }, at) => {
    const other = b[at];
    return (
      other?.attention === attention &&
      other.pages.length === pages.length &&
      pages.every((page, index) => other.pages[index] === page)
    );
  });

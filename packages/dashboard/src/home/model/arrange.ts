import type { AgentEntry, AgentId } from '@muster/sdk';
import { type Attention, attentionOf, attentions, isSeen, needsPerson } from '../../live/model/attention.ts';
import { labelTexts } from '../../parts/model/text.ts';
import { type Filter, matcherOf, ownerOf } from './filter.ts';

/** A section of the list: paths of agents' pages, most urgent first. Pinned agents have their own, above all others. */
export interface Section {
  readonly attention: Attention | 'pinned';
  readonly pages: readonly string[];
}

export interface Summary {
  readonly total: number;
  readonly shown: number;
  /** Agents per section, before the filter by section. */
  readonly counts: Readonly<Record<Attention, number>>;
  /** Agents of the whole fleet that need a person. */
  readonly needingAttention: number;
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

interface Row {
  readonly page: string;
  readonly entry: AgentEntry;
}
type Order = (a: Row, b: Row) => number;

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

const endedSections: ReadonlySet<Section['attention']> = new Set(['failed', 'finished', 'idle']);

function orderOf(attention: Section['attention'], nowMs: number): Order {
  // By name, so that they stay in place.
  if (attention === 'pinned') return () => 0;
  if (attention === 'working') return byProgress(nowMs);
  return endedSections.has(attention) ? newestFirst : oldestFirst;
}

/** A longer list of options is not usable; the search finds the other labels. */
const maxLabels = 200;

export function arrange(
  agents: Iterable<readonly [page: string, AgentEntry]>,
  filter: Filter,
  nowMs: number,
): Arrangement {
  const names = ['pinned', ...attentions] as const;
  const rows = new Map(names.map((name): [Section['attention'], Row[]] => [name, []]));
  const counts = Object.fromEntries(attentions.map((attention) => [attention, 0])) as Record<
    Attention,
    number
  >;
  const chosen = new Set(filter.phases.length > 0 ? filter.phases : attentions);
  const matches = matcherOf(filter);
  const owners = new Set<string>();
  const workspaces = new Set<string>();
  const labels = new Set<string>();
  let [total, needingAttention, rehearsed, unsandboxed] = [0, 0, 0, 0];
  let last: AgentId | undefined;
  for (const [page, entry] of agents) {
    total += 1;
    const { agentId } = entry;
    workspaces.add(agentId.workspace);
    if (labels.size < maxLabels) for (const label of labelTexts(entry.labels)) labels.add(label);
    // Formatting an owner is slow, and neighbours mostly have the same owner.
    if (agentId.account !== last?.account || agentId.ownerProvider !== last.ownerProvider)
      owners.add(ownerOf(agentId));
    last = agentId;
    if (entry.rehearsed) rehearsed += 1;
    else if (!entry.sandboxed) unsandboxed += 1;
    const attention = attentionOf(entry, isSeen(entry));
    if (needsPerson(attention)) needingAttention += 1;
    if (!matches(entry)) continue;
    counts[attention] += 1;
    if (chosen.has(attention)) rows.get(entry.pinned ? 'pinned' : attention)?.push({ page, entry });
  }
  const sections = [...rows]
    .filter(([, some]) => some.length > 0)
    .map(([attention, some]) => ({ attention, pages: sorted(some, orderOf(attention, nowMs)) }));
  return {
    sections,
    summary: {
      total,
      shown: sections.reduce((sum, { pages }) => sum + pages.length, 0),
      counts,
      needingAttention,
      rehearsed,
      unsandboxed,
      owners: [...owners].sort(),
      workspaces: [...workspaces].sort(),
      labels: [...labels].sort(),
    },
  };
}

const sorted = (rows: Row[], order: Order): string[] =>
  rows.sort((a, b) => order(a, b) || earlier(a.page, b.page)).map(({ page }) => page);

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

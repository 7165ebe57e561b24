import type { AgentEntry, AgentId, Caller } from '@muster/sdk';
import { isOwn, type Owner } from '../../live/model/allowed-actions.ts';
import { type Attention, attentionOf, attentions, isSeen, needsPerson } from '../../live/model/attention.ts';
import { labelTexts } from '../../parts/model/text.ts';
import { type Filter, matcherOf, ownerOf, type Scope, scopeOf } from './filter.ts';
import { sectionIdOf, sectionIds } from './grouping.ts';
import { type Order, orderOf, type Row } from './order.ts';

/** A section of the list: paths of agents' pages. Pinned agents have their own, above all others. */
export interface Section {
  /** `pinned`, a status, or what the agents have in common in the chosen grouping. */
  readonly id: string;
  readonly pages: readonly string[];
}

export interface Summary {
  /** In the scope. */
  readonly total: number;
  readonly totals: Readonly<Record<Scope, number>>;
  readonly scope: Scope;
  readonly shown: number;
  /** Agents per status, before the filter by status. */
  readonly counts: Readonly<Record<Attention, number>>;
  /** Agents of the scope that need a person. */
  readonly needingAttention: number;
  readonly rehearsed: number;
  /** Agents of a real model whose latest run had no sandbox. */
  readonly unsandboxed: number;
  /** The owners of all agents. */
  readonly owners: readonly string[];
  readonly workspaces: readonly string[];
  /** `key=value` of every label, up to a bound. */
  readonly labels: readonly string[];
}

export interface Arrangement {
  readonly sections: readonly Section[];
  readonly summary: Summary;
}

/** A longer list of options is not usable; the search finds the other labels. */
const maxLabels = 200;

/** What the filter offers, collected over all agents. */
class Options {
  readonly owners = new Set<string>();
  readonly workspaces = new Set<string>();
  readonly labels = new Set<string>();
  #last: AgentId | undefined;

  add({ agentId, labels }: AgentEntry): void {
    this.workspaces.add(agentId.workspace);
    if (this.labels.size < maxLabels) for (const label of labelTexts(labels)) this.labels.add(label);
    // Formatting an owner is slow, and neighbours mostly have the same owner.
    const last = this.#last;
    if (agentId.account !== last?.account || agentId.ownerProvider !== last.ownerProvider)
      this.owners.add(ownerOf(agentId));
    this.#last = agentId;
  }

  sorted(): Pick<Summary, 'owners' | 'workspaces' | 'labels'> {
    const { owners, workspaces, labels } = this;
    return {
      owners: [...owners].sort(),
      workspaces: [...workspaces].sort(),
      labels: [...labels].sort(),
    };
  }
}

export type Viewer = Owner & Pick<Caller, 'role'>;

export function arrange(
  agents: Iterable<readonly [page: string, AgentEntry]>,
  filter: Filter,
  viewer: Viewer,
  nowMs: number,
): Arrangement {
  const rows = new Map<string, Row[]>();
  const counts = Object.fromEntries(attentions.map((attention) => [attention, 0])) as Record<
    Attention,
    number
  >;
  const chosen = new Set(filter.phases.length > 0 ? filter.phases : attentions);
  const scope = scopeOf(filter, viewer);
  const matches = matcherOf(filter);
  const options = new Options();
  const totals = { mine: 0, everyone: 0 };
  let [needingAttention, rehearsed, unsandboxed, shown] = [0, 0, 0, 0];
  for (const [page, entry] of agents) {
    const isMine = isOwn(entry, viewer);
    totals.everyone += 1;
    if (isMine) totals.mine += 1;
    options.add(entry);
    if (scope === 'mine' && !isMine) continue;
    if (entry.rehearsed) rehearsed += 1;
    else if (!entry.sandboxed) unsandboxed += 1;
    const attention = attentionOf(entry, isSeen(entry));
    if (needsPerson(attention)) needingAttention += 1;
    if (!matches(entry)) continue;
    counts[attention] += 1;
    if (!chosen.has(attention)) continue;
    shown += 1;
    const id = entry.pinned ? 'pinned' : sectionIdOf(filter.group, entry, attention);
    const row = { page, entry, attention, isMine };
    const some = rows.get(id);
    if (some) some.push(row);
    else rows.set(id, [row]);
  }
  return {
    sections: sectionsOf(rows, filter, nowMs),
    summary: {
      total: totals[scope],
      totals,
      scope,
      shown,
      counts,
      needingAttention,
      rehearsed,
      unsandboxed,
      ...options.sorted(),
    },
  };
}

/** More sections would be slow to draw; the rest is together in the last one. */
const maxSections = 200;

function sectionsOf(
  rows: ReadonlyMap<string, Row[]>,
  { group, sort }: Filter,
  nowMs: number,
): readonly Section[] {
  const ids = sectionIds(group, [...rows.keys()]);
  const kept = ids.slice(0, maxSections);
  const sections = kept.map((id) => ({ id, rows: rows.get(id) ?? [] }));
  const rest = ids.slice(maxSections).flatMap((id) => rows.get(id) ?? []);
  if (rest.length > 0) sections.push({ id: 'more:', rows: rest });
  return sections.map(({ id, rows: some }) => ({ id, pages: sorted(some, orderOf(id, group, sort, nowMs)) }));
}

const sorted = (rows: Row[], order: Order): string[] =>
  rows
    .sort((a, b) => order(a, b) || (a.page < b.page ? -1 : a.page > b.page ? 1 : 0))
    .map(({ page }) => page);

export const isSameOrder = (a: readonly Section[], b: readonly Section[]): boolean =>
  a.length === b.length &&
  a.every(({ id, pages }, at) => {
    const other = b[at];
    return (
      other?.id === id &&
      other.pages.length === pages.length &&
      pages.every((page, index) => other.pages[index] === page)
    );
  });
